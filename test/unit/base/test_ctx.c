/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ctx.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "unit.h"

static void a_child_is_never_later_than_its_parent(void **state)
{
    (void)state;
    struct clock_fake clock;
    clock_fake_init(&clock, 1000);
    struct err e = {0};
    const struct ctx root = ctx_root(&clock.clock, NULL);
    assert_true(ctx_left_ms(&root) == CTX_NEVER);
    const struct ctx outer = ctx_with_timeout(&root, 100);
    const struct ctx inner = ctx_with_timeout(&outer, 500);
    const struct ctx shorter = ctx_with_timeout(&outer, 40);
    const struct ctx huge = ctx_with_timeout(&root, INT64_MAX);
    assert_int_equal(ctx_left_ms(&inner), 100);
    assert_int_equal(ctx_left_ms(&shorter), 40);
    assert_true(ctx_left_ms(&huge) > INT64_MAX / 2);

    clock_fake_jump_wall(&clock, 3600 * 1000); /* someone sets the date: no deadline moves */
    assert_ok(ctx_check(&shorter, &e));
    clock_fake_advance(&clock, 40);
    assert_err(ctx_check(&shorter, &e), ERR_TIMEOUT, "deadline");
    assert_ok(ctx_check(&inner, &e));
    clock_fake_advance(&clock, 60);
    assert_int_equal(ctx_left_ms(&inner), 0);
    assert_err(ctx_check(&inner, &e), ERR_TIMEOUT, "deadline");
    assert_ok(ctx_check(&root, &e));
}

static void cancellation_reaches_descendants_but_not_ancestors(void **state)
{
    (void)state;
    struct err e = {0};
    struct cancel all, one;
    assert_ok(cancel_init(&all, &e));
    assert_ok(cancel_init(&one, &e));
    const struct ctx root = ctx_root(&clock_real, NULL);
    const struct ctx parent = ctx_with_cancel(&root, &all);
    const struct ctx child = ctx_with_cancel(&parent, &one);
    cancel_fire(&one);
    assert_true(ctx_canceled(&child) && !ctx_canceled(&parent));
    assert_err(ctx_check(&child, &e), ERR_CANCELED, "canceled");
    cancel_fire(&all);
    cancel_fire(&all);
    assert_true(ctx_canceled(&parent) && !ctx_canceled(&root));
    cancel_done(&one);
    cancel_done(&all);
}

static void polling_ends_at_the_deadline(void **state)
{
    (void)state;
    struct err e = {0};
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    const struct ctx root = ctx_root(&clock_real, NULL);
    const struct ctx ctx = ctx_with_timeout(&root, 30);
    struct pollfd p = {.fd = fds[0], .events = POLLIN};
    const int64_t begin_ms = clock_boot_ms(&clock_real);
    assert_int_equal(ctx_poll(&ctx, &p, 1, -1, &e), -1);
    assert_int_equal(e.code, ERR_TIMEOUT);
    assert_true(clock_boot_ms(&clock_real) - begin_ms >= 30);

    assert_int_equal(ctx_poll(&root, &p, 1, 5, &e), 0); /* its own limit is no error */
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(ctx_poll(&root, &p, 1, -1, &e), 1);
    assert_true(p.revents & POLLIN);
    close(fds[0]);
    close(fds[1]);
}

static void fire_later(void *arg)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
    cancel_fire(arg);
}

static void a_sleeper_wakes_at_once_when_another_thread_cancels(void **state)
{
    (void)state;
    struct err e = {0};
    struct cancel cancel;
    assert_ok(cancel_init(&cancel, &e));
    const struct ctx root = ctx_root(&clock_real, NULL);
    const struct ctx ctx = ctx_with_cancel(&root, &cancel);
    struct thread t;
    const int64_t begin_ms = clock_boot_ms(&clock_real);
    assert_ok(thread_start(&t, "canceler", fire_later, &cancel, &e));
    assert_err(ctx_sleep(&ctx, 60000, &e), ERR_CANCELED, "canceled");
    assert_true(clock_boot_ms(&clock_real) - begin_ms < 5000);
    thread_join(&t);
    assert_err(ctx_sleep(&ctx, 0, &e), ERR_CANCELED, "canceled"); /* and stays canceled */
    cancel_done(&cancel);
}

static void a_full_sleep_is_success(void **state)
{
    (void)state;
    struct err e = {0};
    const struct ctx root = ctx_root(&clock_real, NULL);
    const int64_t begin_ms = clock_boot_ms(&clock_real);
    assert_ok(ctx_sleep(&root, 15, &e));
    assert_true(clock_boot_ms(&clock_real) - begin_ms >= 15);
}

TEST_MAIN(TEST(a_child_is_never_later_than_its_parent),
          TEST(cancellation_reaches_descendants_but_not_ancestors),
          TEST(polling_ends_at_the_deadline),
          TEST(a_sleeper_wakes_at_once_when_another_thread_cancels), TEST(a_full_sleep_is_success))
