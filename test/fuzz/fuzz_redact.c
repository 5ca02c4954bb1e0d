/* SPDX-License-Identifier: Apache-2.0
 * Redaction is stable: what it lets through once, it lets through again. */
#include "base/redact.h"
#include "fuzz.h"

enum { TEXT_MAX = 16 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str s = {(const char *)data, size};
    auto_buf struct buf once = BUF_INIT(TEXT_MAX), twice = BUF_INIT(TEXT_MAX);
    FUZZ_CHECK(redact_text(&once, s));
    FUZZ_CHECK(redact_text(&twice, buf_str(&once)));
    FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
    (void)redact_key(s);
    return 0;
}
