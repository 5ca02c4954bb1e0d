/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <time.h>

#include "unit.h"

static void times_in_rfc_3339_are_understood(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want_us;
    } rows[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00.000001Z", 1},
        {"1969-12-31T23:59:59.5Z", -500000},
        {"2026-11-15T22:57:05Z", 1794783425000000},
        {"2026-11-16T00:57:05+02:00", 1794783425000000},
        {"2026-11-15T19:27:05-03:30", 1794783425000000},
        {"2026-11-15t22:57:05z", 1794783425000000},
        {"2026-11-15T22:57:05.123456789Z", 1794783425123456},
        {"2024-02-29T00:00:00Z", 1709164800000000},
        {"2000-02-29T00:00:00Z", 951782400000000},
        {"1990-12-31T23:59:60Z", 662688000000000}, /* leap second: RFC 3339's own example */
        {"0000-01-01T00:00:00Z", -62167219200000000},
        {"9999-12-31T23:59:59Z", 253402300799000000},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        int64_t got_us = 0;
        if (time_parse(str_c(rows[i].text), &got_us, &e) < 0 || got_us != rows[i].want_us)
            fail_msg("%s: %ld %s", rows[i].text, (long)got_us, e.text);
    }
}

static void what_is_no_time_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "2026-11-15",
        "2026-11-15T22:57:05",  /* no zone */
        "2026-11-15 22:57:05Z", /* no T */
        "2026-11-15T22:57Z",
        "2026-11-15T22:57:05.Z",
        "2026-11-15T22:57:05Zx",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-02-29T00:00:00Z", /* no leap year */
        "1900-02-29T00:00:00Z", /* nor this */
        "2026-04-31T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:60:00Z",
        "2026-01-01T00:00:61Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+0200",
        "-026-01-01T00:00:00Z",
        "20260101T000000Z",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        int64_t at_us = 7;
        assert_err(time_parse(str_c(rows[i]), &at_us, &e), ERR_INVALID, rows[i]);
        assert_int_equal(at_us, 7); /* outputs change only on success */
    }
}

/* The C library does the calendar on its own; ours must agree on every day of eight centuries. */
static void every_day_prints_as_the_c_library_says(void **state)
{
    (void)state;
    for (int64_t day = -135140; day < 157000; day++) { /* 1600 to 2400 */
        const time_t at_s = (time_t)(day * 86400 + 86399);
        struct tm tm;
        char want[TIME_TEXT_MAX], got[TIME_TEXT_MAX];
        assert_non_null(gmtime_r(&at_s, &tm));
        assert_true(strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%SZ", &tm) > 0);
        time_print((int64_t)at_s * 1000000, TIME_SECONDS, got);
        if (strcmp(want, got) != 0)
            fail_msg("%s, not %s", got, want);
        struct err e = {0};
        int64_t back_us = 0;
        assert_ok(time_parse(str_c(got), &back_us, &e));
        assert_true(back_us == (int64_t)at_s * 1000000);
    }
}

static void precision_and_range_of_printing(void **state)
{
    (void)state;
    char out[TIME_TEXT_MAX];
    assert_string_equal(time_print(-1, TIME_MICROS, out), "1969-12-31T23:59:59.999999Z");
    assert_string_equal(time_print(1500, TIME_MILLIS, out), "1970-01-01T00:00:00.001Z");
    assert_string_equal(time_print(INT64_MAX, TIME_SECONDS, out), "9999-12-31T23:59:59Z");
    assert_string_equal(time_print(INT64_MIN, TIME_SECONDS, out), "0000-01-01T00:00:00Z");
}

/* Values and texts as Go's time package has them. */
static void durations_read_and_print_as_in_go(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want_ns;
        const char *printed;
    } rows[] = {
        {"0", 0, "0s"},
        {"-0", 0, "0s"},
        {"0s", 0, "0s"},
        {"5s", 5000000000, "5s"},
        {"+5s", 5000000000, "5s"},
        {"-5s", -5000000000, "-5s"},
        {"1ns", 1, "1ns"},
        {"1100ns", 1100, "1.1\xc2\xb5s"},
        {"2200us", 2200000, "2.2ms"},
        {"11\xc2\xb5s", 11000, "11\xc2\xb5s"},
        {"12\xce\xbcs", 12000, "12\xc2\xb5s"},
        {"3300ms", 3300000000, "3.3s"},
        {"5.s", 5000000000, "5s"},
        {".5s", 500000000, "500ms"},
        {"1.004s", 1004000000, "1.004s"},
        {"3h30m", 12600000000000, "3h30m0s"},
        {"10.5s4m", 250500000000, "4m10.5s"},
        {"-2m3.4s", -123400000000, "-2m3.4s"},
        {"1h2m3s4ms5us6ns", 3723004005006, "1h2m3.004005006s"},
        {"39h9m14.425s", 140954425000000, "39h9m14.425s"},
        {"52763797000ns", 52763797000, "52.763797s"},
        {"0.3333333333333333333h", 1200000000000, "20m0s"},
        {"0.9223372036854775807h", 3320413933267, "55m20.413933267s"},
        {"0.100000000000000000000h", 360000000000, "6m0s"},
        {"9223372036854775807ns", INT64_MAX, "2562047h47m16.854775807s"},
        {"-9223372036854775808ns", INT64_MIN, "-2562047h47m16.854775808s"},
        {"-2562047h47m16.854775808s", INT64_MIN, "-2562047h47m16.854775808s"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        int64_t got_ns = -1;
        char out[DURATION_TEXT_MAX];
        if (duration_parse(str_c(rows[i].text), &got_ns, &e) < 0 || got_ns != rows[i].want_ns)
            fail_msg("%s: %ld %s", rows[i].text, (long)got_ns, e.text);
        assert_string_equal(duration_print(got_ns, out), rows[i].printed);
    }
}

static void what_is_no_duration_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "3",
        "-",
        "s",
        ".",
        "-.",
        ".s",
        "+.s",
        "1d",
        "1x",
        "5 s",
        "1h 2m",
        "1e3s",
        "1mS",
        "h1",
        "--1s",
        "1ss",
        "\x85\x85",
        "3000000h",
        "9223372036854775808ns",
        "-9223372036854775809ns",
        "9223372036854775.808us",
        "9223372036854775807ns1ns",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        int64_t ns = 7;
        assert_err(duration_parse(str_c(rows[i]), &ns, &e), ERR_INVALID, "is not a duration");
        assert_int_equal(ns, 7);
    }
}

TEST_MAIN(TEST(times_in_rfc_3339_are_understood), TEST(what_is_no_time_is_refused_by_name),
          TEST(every_day_prints_as_the_c_library_says), TEST(precision_and_range_of_printing),
          TEST(durations_read_and_print_as_in_go), TEST(what_is_no_duration_is_refused_by_name))
