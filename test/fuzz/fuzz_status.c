/* SPDX-License-Identifier: Apache-2.0
 * Any answer becomes an error with a code, a text and an honest word about what was done. The
 * first byte chooses the HTTP status, the second whether the call was a mutating one. */
#include <string.h>

#include "base/str.h"
#include "fuzz.h"
#include "kube/status.h"
#include "net/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const bool mutating = data[1] % 2;
    struct http_response resp = {.status = 300 + data[0] % 300, .body = BUF_INIT(1 << 20)};
    struct err e = {0};
    (void)buf_add(&resp.body, data + 2, size - 2);
    FUZZ_CHECK(kube_status_error(&resp, mutating, &e) == -1);
    FUZZ_CHECK(e.code != ERR_NONE && e.text[0] != '\0' && e.origin == resp.status);
    if (mutating && (resp.status == 500 || resp.status == 504))
        FUZZ_CHECK(e.code == ERR_OUTCOME_UNKNOWN);
    if (!mutating)
        FUZZ_CHECK(e.code != ERR_OUTCOME_UNKNOWN);
    for (struct str rest = str_c(e.text); rest.n > 0;) {
        const size_t n = utf8_first(rest);
        FUZZ_CHECK(n > 0);
        rest = str_from(rest, n);
    }
    json_auto_t *event = NULL;
    struct err ignored = {0};
    if (jparse(buf_str(&resp.body), &event, &ignored) == 0)
        FUZZ_CHECK(kube_status_event(event, &e) == -1 && e.code != ERR_NONE);
    http_response_done(&resp);
    return 0;
}
