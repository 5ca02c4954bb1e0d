/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include "unit.h"

static void a_fake_clock_moves_only_when_told(void **state)
{
    (void)state;
    struct clock_fake f;
    clock_fake_init(&f, 1000);
    const int64_t boot_ms = clock_boot_ms(&f.clock);
    assert_int_equal(clock_now_s(&f.clock), 1000);
    clock_fake_advance(&f, 2500);
    assert_int_equal(clock_wall_us(&f.clock), 1002500000);
    assert_int_equal(clock_boot_ms(&f.clock), boot_ms + 2500);
}

static void setting_the_date_does_not_move_boot_time(void **state)
{
    (void)state;
    struct clock_fake f;
    clock_fake_init(&f, 1000);
    const int64_t boot_ms = clock_boot_ms(&f.clock);
    clock_fake_jump_wall(&f, -500000);
    assert_int_equal(clock_now_s(&f.clock), 500);
    assert_int_equal(clock_boot_ms(&f.clock), boot_ms);
}

static void the_real_clock_is_in_this_century_and_does_not_go_back(void **state)
{
    (void)state;
    assert_true(clock_now_s(&clock_real) > 1700000000 && clock_now_s(&clock_real) < 4102444800);
    const int64_t first_ms = clock_boot_ms(&clock_real);
    assert_true(first_ms > 0 && clock_boot_ms(&clock_real) >= first_ms);
}

TEST_MAIN(TEST(a_fake_clock_moves_only_when_told), TEST(setting_the_date_does_not_move_boot_time),
          TEST(the_real_clock_is_in_this_century_and_does_not_go_back))
