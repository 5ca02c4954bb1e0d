/* SPDX-License-Identifier: Apache-2.0
 * Header blocks as "name: value" lines: a verdict always comes out, its text is UTF-8 without
 * control characters, and success needs HTTP 200 or nothing, and status 0. */
#include <string.h>

#include "base/str.h"
#include "etcd/errors.h"
#include "fuzz.h"
#include "net/grpc_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str rest = {(const char *)data, size};
    struct grpc_status s = {0};
    while (rest.n > 0) {
        struct str line, name, value;
        (void)str_cut(rest, '\n', &line, &rest);
        (void)str_cut(line, '=', &name, &value);
        grpc_status_header(&s, name, value);
    }
    FUZZ_CHECK(memchr(s.message, '\0', sizeof(s.message)));
    for (struct str m = str_c(s.message); m.n > 0;) {
        const size_t n = utf8_first(m);
        FUZZ_CHECK(n > 0 && (unsigned char)m.p[0] >= 0x20 && m.p[0] != 0x7f);
        m = str_from(m, n);
    }
    for (int mutating = 0; mutating < 2; mutating++) {
        struct err e = {0};
        if (grpc_status_result(&s, mutating, &e) == 0) {
            FUZZ_CHECK(s.has_code && s.code == GRPC_OK);
            continue;
        }
        FUZZ_CHECK(e.code != ERR_NONE && e.text[0]);
        FUZZ_CHECK(mutating || e.code != ERR_OUTCOME_UNKNOWN);
        FUZZ_CHECK(!mutating || e.code != ERR_TIMEOUT);
        (void)etcd_error_map(str_c(s.message), mutating, &e);
        FUZZ_CHECK(e.code != ERR_NONE && (mutating || e.code != ERR_OUTCOME_UNKNOWN));
        FUZZ_CHECK(!mutating || e.code != ERR_TIMEOUT);
    }
    return 0;
}
