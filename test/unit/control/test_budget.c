/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/budget.h"

#include <stdio.h>

#include "base/clock.h"
#include "unit.h"

static struct objkey key(int i)
{
    struct objkey k;
    char name[16];
    (void)snprintf(name, sizeof(name), "c%d", i);
    assert_true(objkey_set(&k, "ns", name));
    return k;
}

static void only_so_many_at_once(void **state)
{
    (void)state;
    struct clock_fake clock;
    clock_fake_init(&clock, 0);
    struct budget *b = budget_new(&clock.clock, 2);
    const struct objkey one = key(1), two = key(2), three = key(3);
    assert_true(budget_take(b, &one));
    assert_true(budget_take(b, &two));
    assert_false(budget_take(b, &three));
    assert_true(budget_take(b, &one)); /* a further step of the same change */
    budget_release(b, &three);         /* holds none */
    assert_false(budget_take(b, &three));
    budget_release(b, &one);
    assert_true(budget_take(b, &three));
    assert_false(budget_take(b, &one));
    budget_free(b);
}

static void one_that_never_gets_well_does_not_hold_up_the_others(void **state)
{
    (void)state;
    struct clock_fake clock;
    clock_fake_init(&clock, 0);
    struct budget *b = budget_new(&clock.clock, 1);
    const struct objkey stuck = key(1), other = key(2);
    assert_true(budget_take(b, &stuck));
    clock_fake_advance(&clock, BUDGET_HOLD_MS - 1);
    assert_false(budget_take(b, &other));
    clock_fake_advance(&clock, 1);
    assert_true(budget_take(b, &other));
    assert_false(budget_take(b, &stuck)); /* it has to wait its turn again */
    budget_free(b);
}

TEST_MAIN(TEST(only_so_many_at_once), TEST(one_that_never_gets_well_does_not_hold_up_the_others))
