/* SPDX-License-Identifier: Apache-2.0
 * The canonical form of a quantity parses back to the same value and prints the same again. */
#include <string.h>

#include "base/quantity.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct quantity q, again;
    if (quantity_parse((struct str){(const char *)data, size}, &q, &e) < 0) {
        FUZZ_CHECK(e.code == ERR_INVALID && e.text[0] != '\0');
        return 0;
    }
    char text[QUANTITY_TEXT_MAX], twice[QUANTITY_TEXT_MAX];
    quantity_print(&q, text);
    FUZZ_CHECK(quantity_parse(str_c(text), &again, &e) == 0);
    FUZZ_CHECK(quantity_cmp(&q, &again) == 0);
    FUZZ_CHECK(strcmp(quantity_print(&again, twice), text) == 0);
    const int64_t whole = quantity_ceil(&q);
    FUZZ_CHECK((whole > 0) == (q.nano > 0) && (whole < 0) == (q.nano < 0));
    return 0;
}
