/* SPDX-License-Identifier: Apache-2.0
 * test/integration/test_quantity.py compares with a real API server; these are the rules. */
#include "base/quantity.h"

#include <stdio.h>

#include "unit.h"

static struct quantity parsed(const char *text)
{
    struct err e = {0};
    struct quantity q = {0};
    if (quantity_parse(str_c(text), &q, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    return q;
}

static void canonical_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        /* the examples of Kubernetes' documentation */
        {"1.5", "1500m"},
        {"1.5Gi", "1536Mi"},
        {"0.1m", "100u"},
        {"128974848", "128974848"},
        {"129e6", "129e6"},
        {"129M", "129M"},
        {"128974848000m", "128974848"},
        {"123Mi", "123Mi"},
        {"0.5", "500m"},
        {"100m", "100m"},
        {"0.1", "100m"},
        /* every suffix, at its smallest canonical value */
        {"1n", "1n"},
        {"1u", "1u"},
        {"1m", "1m"},
        {"1", "1"},
        {"1k", "1k"},
        {"1M", "1M"},
        {"1G", "1G"},
        {"1T", "1T"},
        {"1P", "1P"},
        {"1E", "1E"},
        {"1Ki", "1Ki"},
        {"1Mi", "1Mi"},
        {"1Gi", "1Gi"},
        {"1Ti", "1Ti"},
        {"1Pi", "1Pi"},
        {"1Ei", "1Ei"},
        /* the largest suffix that leaves an integer */
        {"1000", "1k"},
        {"1000k", "1M"},
        {"1024Ki", "1Mi"},
        {"1025Ki", "1025Ki"},
        {"1e1", "10"},
        {"1e4", "10e3"},
        {"1E6", "1e6"},
        {"1e-1", "100e-3"},
        {"1e-9", "1e-9"},
        {"1e+3", "1e3"},
        /* small or fractional binary amounts turn decimal, exactly */
        {"0.5Ki", "512"},
        {"1.5Ki", "1536"},
        {"1.1Mi", "1153433600m"},
        {"0.0001Ki", "102400u"},
        {"0.00001Mi", "10485760u"},
        /* rounding away from zero at a billionth */
        {"0.1n", "1n"},
        {"1.0000000001", "1000000001n"},
        {"-0.1n", "-1n"},
        {"1e-30", "1e-9"},
        {"0.00000000000000000000000000001Ki", "1n"},
        /* caps and signs */
        {"8Ei", "9223372036854775807"},
        {"9000000000Ei", "9223372036854775807"},
        {"-8Ei", "-9223372036854775807"},
        {"7Ei", "7Ei"},
        {"-1.5Gi", "-1536Mi"},
        {"+5", "5"},
        {"999E", "999E"},
        {"999999999999999999999", "999999999999999999999"},
        /* odd but legal spellings */
        {"1.", "1"},
        {".5", "500m"},
        {"0005k", "5k"},
        {"0", "0"},
        {"0Ki", "0"},
        {"-0", "0"},
        {"0e99999", "0"},
        {"0.000", "0"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct quantity q = parsed(rows[i].text);
        char out[QUANTITY_TEXT_MAX];
        if (strcmp(quantity_print(&q, out), rows[i].want) != 0)
            fail_msg("%s: %s, not %s", rows[i].text, out, rows[i].want);
    }
}

static void what_is_no_quantity_is_refused_by_name(void **state)
{
    (void)state;
    static const char *const rows[] = {
        "",
        "-",
        ".",
        "Ki",
        "1K",
        "1ki",
        "1i",
        "1mi",
        "1KiB",
        "1 Gi",
        "Gi1",
        "--1",
        "1e",
        "1e+",
        "1e++3",
        "1e1.5",
        "0x10",
        "1,5",
        "1.2.3",
        "1e3Ki",
        "1 ",
        " 1",
        "1B",
        "NaN",
        "inf",
        "1Ee",
        "1e--3",
        "1000E",
        "1e21",
        "1e999999999999999999",
        "1e99999999999999999999",
        "1000000000000000000000",
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct quantity q = {.nano = 7};
        assert_err(quantity_parse(str_c(rows[i]), &q, &e), ERR_INVALID, "is not a quantity");
        assert_true(strstr(e.text, rows[i]) != NULL && q.nano == 7);
    }
}

static void values_compare_across_formats(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        int want;
    } rows[] = {
        {"1Ki", "1024", 0}, {"1Ki", "1k", 1},     {"1000m", "1", 0}, {"1e3", "1k", 0},
        {"-1", "1n", -1},   {"8Ei", "7.99Ei", 1}, {"0", "-0Ki", 0},  {"1n", "0.9n", 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct quantity a = parsed(rows[i].a), b = parsed(rows[i].b);
        if (quantity_cmp(&a, &b) != rows[i].want || quantity_cmp(&b, &a) != -rows[i].want)
            fail_msg("%s ? %s", rows[i].a, rows[i].b);
    }
}

static void whole_units_are_rounded_away_from_zero_and_clamped(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t want;
    } rows[] = {
        {"1n", 1}, {"-1n", -1},      {"1.5", 2},         {"2", 2},
        {"0", 0},  {"1Gi", 1 << 30}, {"99E", INT64_MAX}, {"-99E", INT64_MIN},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct quantity q = parsed(rows[i].text);
        if (quantity_ceil(&q) != rows[i].want)
            fail_msg("%s: %ld", rows[i].text, (long)quantity_ceil(&q));
    }
}

/* Any value printed and read again is the same value, and its canonical form does not change. */
static void printing_and_parsing_are_inverse(void **state)
{
    (void)state;
    static const char *const suffixes[] = {"",  "n",  "u",  "m",  "k",  "M",  "G",  "T",  "P",
                                           "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "e-6"};
    uint64_t rnd = 42;
    for (int i = 0; i < 200000; i++) {
        char text[64], once[QUANTITY_TEXT_MAX], twice[QUANTITY_TEXT_MAX];
        const int digits = (int)test_below(&rnd, 4);
        (void)snprintf(text, sizeof(text), "%s%lu.%0*lu%s", test_below(&rnd, 2) ? "-" : "",
                       (unsigned long)test_below(&rnd, 999), digits + 1,
                       (unsigned long)test_below(&rnd, 9999),
                       suffixes[test_below(&rnd, COUNT_OF(suffixes))]);
        const struct quantity q = parsed(text);
        quantity_print(&q, once);
        const struct quantity again = parsed(once);
        if (quantity_cmp(&q, &again) != 0 || strcmp(quantity_print(&again, twice), once) != 0)
            fail_msg("%s printed %s, then %s", text, once, twice);
    }
}

TEST_MAIN(TEST(canonical_forms), TEST(what_is_no_quantity_is_refused_by_name),
          TEST(values_compare_across_formats),
          TEST(whole_units_are_rounded_away_from_zero_and_clamped),
          TEST(printing_and_parsing_are_inverse))
