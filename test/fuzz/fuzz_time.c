/* SPDX-License-Identifier: Apache-2.0
 * What a time or duration prints as parses back to the same value. */
#include "base/time.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str s = {(const char *)data, size};
    struct err e = {0};
    int64_t value = 0, again = 0;
    if (duration_parse(s, &value, &e) == 0) {
        char text[DURATION_TEXT_MAX];
        FUZZ_CHECK(duration_parse(str_c(duration_print(value, text)), &again, &e) == 0);
        FUZZ_CHECK(again == value);
    }
    if (time_parse(s, &value, &e) == 0) {
        char text[TIME_TEXT_MAX];
        const int64_t day_us = INT64_C(86400) * 1000000;
        FUZZ_CHECK(time_parse(str_c(time_print(value, TIME_MICROS, text)), &again, &e) == 0);
        /* An offset can carry the first or last day out of the printable years. */
        FUZZ_CHECK(again == value || (value - again < day_us && again - value < day_us));
    }
    return 0;
}
