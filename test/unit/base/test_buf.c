/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include "unit.h"

static void it_grows_and_stays_terminated(void **state)
{
    (void)state;
    auto_buf struct buf b = BUF_INIT(100000);
    assert_string_equal(buf_cstr(&b), "");
    for (int i = 0; i < 10000; i++) {
        assert_true(buf_addf(&b, "%d,", i % 10));
        assert_int_equal(b.p[b.n], '\0');
    }
    assert_int_equal(b.n, 20000);
    assert_true(str_starts(buf_str(&b), STR("0,1,2,")));
    buf_trim_to(&b, 3);
    assert_string_equal(buf_cstr(&b), "0,1");
    buf_trim_to(&b, 99); /* longer: nothing happens */
    assert_int_equal(b.n, 3);
}

static void exactly_the_ceiling_fits_and_one_more_byte_does_not(void **state)
{
    (void)state;
    struct err e = {0};
    auto_buf struct buf b = BUF_INIT(10);
    assert_true(buf_add_c(&b, "0123456789"));
    assert_ok(buf_check(&b, "it", &e));
    assert_true(b.cap <= 11);
    assert_true(buf_add(&b, "", 0));
    assert_false(buf_add_char(&b, 'x'));
    assert_string_equal(buf_cstr(&b), "0123456789");
    assert_err(buf_check(&b, "the body", &e), ERR_TOO_BIG, "the body: more than 10 bytes");
}

static void a_refused_append_sticks_until_reset(void **state)
{
    (void)state;
    struct err e = {0};
    auto_buf struct buf b = BUF_INIT(4);
    assert_true(buf_add_c(&b, "ab"));
    assert_false(buf_addf(&b, "%s", "cde"));
    assert_string_equal(buf_cstr(&b), "ab"); /* nothing of the refused piece */
    assert_false(buf_add_c(&b, "c"));        /* would fit, but the text has a hole */
    assert_int_equal(buf_check(&b, "x", &e), -1);
    buf_reset(&b);
    assert_true(buf_add_c(&b, "cdef"));
    assert_ok(buf_check(&b, "x", &e));
}

static void a_huge_length_does_not_wrap(void **state)
{
    (void)state;
    auto_buf struct buf b = BUF_INIT(100);
    assert_true(buf_add_c(&b, "abc"));
    assert_null(buf_reserve(&b, SIZE_MAX));
    assert_null(buf_reserve(&b, SIZE_MAX - 2));
}

static void taking_hands_the_bytes_over(void **state)
{
    (void)state;
    auto_buf struct buf b = BUF_INIT(10);
    auto_free char *nothing = buf_take(&b);
    assert_string_equal(nothing, "");
    assert_true(buf_add(&b, "a\0b", 3));
    auto_free char *taken = buf_take(&b);
    assert_memory_equal(taken, "a\0b", 4);
    assert_int_equal(b.n, 0);
    assert_true(buf_add_c(&b, "again"));
    buf_done(&b);
    buf_done(&b);
    buf_done(NULL);
}

TEST_MAIN(TEST(it_grows_and_stays_terminated),
          TEST(exactly_the_ceiling_fits_and_one_more_byte_does_not),
          TEST(a_refused_append_sticks_until_reset), TEST(a_huge_length_does_not_wrap),
          TEST(taking_hands_the_bytes_over))
