/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>

#include "base/str.h"
#include "unit.h"

static void setting_returns_minus_one_and_forgets_the_past(void **state)
{
    (void)state;
    struct err e = {.retry_after_ms = 9, .reason = "old"};
    assert_int_equal(err_set(&e, ERR_DENIED, 403, "no %s", "way"), -1);
    assert_int_equal(e.code, ERR_DENIED);
    assert_int_equal(e.origin, 403);
    assert_int_equal(e.retry_after_ms, 0);
    assert_string_equal(e.reason, "");
    assert_string_equal(e.text, "no way");
}

static void wrapping_reads_from_the_outside_in_and_keeps_the_code(void **state)
{
    (void)state;
    struct err e = {0};
    err_set(&e, ERR_UNAVAILABLE, 111, "connection refused");
    err_wrap(&e, "%s:%d", "10.0.0.4", 2379);
    assert_int_equal(err_wrap(&e, "list members of %s", "prod"), -1);
    assert_string_equal(e.text, "list members of prod: 10.0.0.4:2379: connection refused");
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    assert_int_equal(e.origin, 111);
}

static bool is_utf8(const char *text)
{
    struct str s = str_c(text);
    for (size_t n = 0; s.n > 0; s = str_from(s, n))
        if ((n = utf8_first(s)) == 0)
            return false;
    return true;
}

/* Prefixes and texts of every length around the limits, in characters of two bytes. */
static void a_long_text_is_cut_in_the_middle_and_stays_utf8(void **state)
{
    (void)state;
    char umlauts[1201];
    for (size_t i = 0; i < sizeof(umlauts) - 1; i += 2)
        memcpy(umlauts + i, "\xc3\xa4", 2);
    for (int prefix = 0; prefix < 600; prefix++) {
        for (int inner = 440; inner < 520; inner += 7) {
            struct err e = {0};
            err_set(&e, ERR_IO, 0, "%.*s|root cause", inner / 2 * 2, umlauts);
            const bool whole = strlen(e.text) == (size_t)inner / 2 * 2 + strlen("|root cause");
            err_wrap(&e, "begin%.*s", prefix / 2 * 2, umlauts);
            assert_true(strlen(e.text) < sizeof(e.text));
            assert_true(is_utf8(e.text));
            assert_true(strncmp(e.text, "begin", 5) == 0);
            if (whole)
                assert_true(str_ends(str_c(e.text), STR("|root cause")));
        }
    }
}

static void an_oversized_text_is_marked_where_it_was_cut(void **state)
{
    (void)state;
    char big[2000];
    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    struct err e = {0};
    err_set(&e, ERR_IO, 0, "%s", big);
    assert_true(str_ends(str_c(e.text), STR("\xe2\x80\xa6")));
    assert_int_equal(strlen(e.text), sizeof(e.text) - 1);
}

static void errno_becomes_a_code_and_a_description(void **state)
{
    (void)state;
    static const struct {
        int value;
        enum err_code want;
    } rows[] = {
        {ENOENT, ERR_NOT_FOUND},  {EEXIST, ERR_EXISTS},
        {EACCES, ERR_DENIED},     {ECONNREFUSED, ERR_UNAVAILABLE},
        {ETIMEDOUT, ERR_TIMEOUT}, {ENOSPC, ERR_IO},
        {EFBIG, ERR_TOO_BIG},     {ECONNRESET, ERR_IO},
        {99999, ERR_IO},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        assert_int_equal(err_set_errno(&e, rows[i].value, "open %s", "x"), -1);
        assert_int_equal(e.code, rows[i].want);
        assert_int_equal(e.origin, rows[i].value);
        assert_true(strncmp(e.text, "open x: ", 8) == 0);
        assert_true(strlen(e.text) > 8);
    }
}

/* A reset in mid-flight may follow a request that was carried out: it is not "certainly not
 * done", so it must not become ERR_UNAVAILABLE by default. */
static void only_certainly_undone_failures_are_unavailable(void **state)
{
    (void)state;
    struct err e = {0};
    err_set_errno(&e, EPIPE, "send");
    assert_int_not_equal(e.code, ERR_UNAVAILABLE);
    err_set_errno(&e, ECONNRESET, "send");
    assert_int_not_equal(e.code, ERR_UNAVAILABLE);
}

static void every_code_has_a_name_and_a_verdict(void **state)
{
    (void)state;
    int transient = 0;
    for (int code = ERR_NONE; code <= ERR_BUG; code++) {
        const struct err e = {.code = (enum err_code)code};
        assert_true(strlen(err_code_name(e.code)) > 1);
        transient += err_transient(&e);
    }
    assert_int_equal(transient, 7);
    assert_string_equal(err_code_name(ERR_OUTCOME_UNKNOWN), "OUTCOME_UNKNOWN");
    assert_string_equal(err_code_name((enum err_code)1000), "UNKNOWN");
    assert_false(err_transient(&(struct err){.code = ERR_CANCELED}));
    assert_false(err_transient(&(struct err){.code = ERR_INVALID}));
    assert_true(err_transient(&(struct err){.code = ERR_NOT_READY}));
}

TEST_MAIN(TEST(setting_returns_minus_one_and_forgets_the_past),
          TEST(wrapping_reads_from_the_outside_in_and_keeps_the_code),
          TEST(a_long_text_is_cut_in_the_middle_and_stays_utf8),
          TEST(an_oversized_text_is_marked_where_it_was_cut),
          TEST(errno_becomes_a_code_and_a_description),
          TEST(only_certainly_undone_failures_are_unavailable),
          TEST(every_code_has_a_name_and_a_verdict))
