/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include "unit.h"

static void views_compare_by_content_and_length(void **state)
{
    (void)state;
    assert_true(str_eq((struct str){0}, STR("")));
    assert_true(str_eq(STR("a\0b"), (struct str){"a\0b", 3}));
    assert_false(str_eq(STR("a\0b"), STR("a\0c")));
    assert_true(str_eq_nocase(STR("Bearer"), STR("bEARER")));
    assert_false(str_eq_nocase(STR("["), STR("{"))); /* 0x20 apart, but no letters */
    assert_true(str_starts(STR("abc"), STR("ab")) && str_starts(STR("abc"), STR("")));
    assert_false(str_starts(STR("ab"), STR("abc")));
    assert_true(str_ends(STR("abc"), STR("bc")) && !str_ends(STR("c"), STR("bc")));
    assert_true(str_has_nocase(STR("xPRIVate key"), STR("private")));
    assert_false(str_has_nocase(STR("priv"), STR("private")));
}

static void cutting_splits_at_the_first_separator(void **state)
{
    (void)state;
    struct str head, tail;
    assert_true(str_cut(STR("a=b=c"), '=', &head, &tail));
    assert_true(str_eq(head, STR("a")) && str_eq(tail, STR("b=c")));
    assert_true(str_cut(STR("="), '=', &head, &tail));
    assert_true(head.n == 0 && tail.n == 0);
    assert_false(str_cut(STR("abc"), '=', &head, &tail));
    assert_true(str_eq(head, STR("abc")) && tail.n == 0);
    assert_false(str_cut((struct str){0}, '=', &head, &tail));
    assert_true(str_eq(str_trim(STR(" \t a b\r\n")), STR("a b")));
    assert_int_equal(str_trim(STR(" \n ")).n, 0);
}

static void slices_never_leave_the_string(void **state)
{
    (void)state;
    assert_int_equal(str_from(STR("abc"), 9).n, 0);
    assert_int_equal(str_first(STR("abc"), 9).n, 3);
    assert_int_equal(str_from((struct str){0}, 2).n, 0);
}

static void numbers_are_whole_strings_in_range(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool u_ok, i_ok;
    } rows[] = {
        {"0", true, true},
        {"007", true, true},
        {"18446744073709551615", true, false},
        {"18446744073709551616", false, false},
        {"9223372036854775807", true, true},
        {"9223372036854775808", true, false},
        {"-9223372036854775808", false, true},
        {"-9223372036854775809", false, false},
        {"", false, false},
        {"-", false, false},
        {"+1", false, false},
        {" 1", false, false},
        {"1 ", false, false},
        {"0x10", false, false},
        {"--1", false, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t u = 0;
        int64_t n = 0;
        if (str_u64(str_c(rows[i].text), &u) != rows[i].u_ok ||
            str_i64(str_c(rows[i].text), &n) != rows[i].i_ok)
            fail_msg("\"%s\"", rows[i].text);
    }
    int64_t lowest = 0;
    assert_true(str_i64(STR("-9223372036854775808"), &lowest) && lowest == INT64_MIN);
}

static void only_well_formed_utf8_is_accepted(void **state)
{
    (void)state;
    static const struct {
        struct str bytes;
        size_t want;
    } rows[] = {
        {{"a", 1}, 1},
        {{"\0", 1}, 1},
        {{"\xc3\xa4", 2}, 2},
        {{"\xe2\x82\xac", 3}, 3},
        {{"\xf0\x9f\x98\x80", 4}, 4},
        {{"\xf4\x8f\xbf\xbf", 4}, 4}, /* U+10FFFF, the last */
        {{"\xc3", 1}, 0},             /* cut off */
        {{"\x80", 1}, 0},             /* begins in the middle */
        {{"\xc0\x80", 2}, 0},         /* over-long NUL */
        {{"\xc1\xbf", 2}, 0},         /* over-long */
        {{"\xe0\x9f\xbf", 3}, 0},     /* over-long */
        {{"\xed\xa0\x80", 3}, 0},     /* surrogate */
        {{"\xf0\x8f\xbf\xbf", 4}, 0}, /* over-long */
        {{"\xf4\x90\x80\x80", 4}, 0}, /* past U+10FFFF */
        {{"\xf5\x80\x80\x80", 4}, 0},
        {{"\xe2\x82\x28", 3}, 0},
        {{"", 0}, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (utf8_first(rows[i].bytes) != rows[i].want)
            fail_msg("row %zu", i);
}

TEST_MAIN(TEST(views_compare_by_content_and_length), TEST(cutting_splits_at_the_first_separator),
          TEST(slices_never_leave_the_string), TEST(numbers_are_whole_strings_in_range),
          TEST(only_well_formed_utf8_is_accepted))
