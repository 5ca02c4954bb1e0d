/* SPDX-License-Identifier: Apache-2.0
 * What parses dumps, and the dump is a fixed point; getters survive any shape. */
#include "base/buf.h"
#include "base/json.h"
#include "fuzz.h"

enum { DUMP_MAX = 64 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    json_auto_t *v = NULL, *again = NULL;
    if (jparse((struct str){(const char *)data, size}, &v, &e) < 0)
        return 0;
    auto_buf struct buf text = BUF_INIT(DUMP_MAX), twice = BUF_INIT(DUMP_MAX);
    FUZZ_CHECK(jdump(v, &text, &e) == 0);
    FUZZ_CHECK(jparse(buf_str(&text), &again, &e) == 0);
    FUZZ_CHECK(jdump(again, &twice, &e) == 0);
    FUZZ_CHECK(str_eq(buf_str(&text), buf_str(&twice)));
    (void)jstr(v, "metadata.name", "");
    (void)jint(v, "spec.0.replicas", 0);
    (void)jlabel(v, "app.kubernetes.io/name");
    return 0;
}
