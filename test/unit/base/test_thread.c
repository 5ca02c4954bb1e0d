/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

#include "base/clock.h"
#include "unit.h"

struct shared {
    pthread_mutex_t lock; /* guards: count */
    int count;
};

static void count_up(void *arg)
{
    struct shared *s = arg;
    for (int i = 0; i < 10000; i++) {
        MUTEX_HOLD(&s->lock);
        s->count++;
    }
}

/* Under the thread sanitizer a lock that is not held, or not released, is a finding. */
static void a_held_mutex_excludes_and_is_released_with_its_scope(void **state)
{
    (void)state;
    struct err e = {0};
    struct shared s = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct thread threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_ok(thread_start(&threads[i], "counter", count_up, &s, &e));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        thread_join(&threads[i]);
    assert_int_equal(s.count, 40000);
    assert_int_equal(pthread_mutex_trylock(&s.lock), 0);
    pthread_mutex_unlock(&s.lock);
}

struct seen {
    char name[16];
    bool term_blocked, bus_blocked;
};

static void look_around(void *arg)
{
    struct seen *s = arg;
    sigset_t mask;
    (void)pthread_getname_np(pthread_self(), s->name, sizeof(s->name));
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    s->term_blocked = sigismember(&mask, SIGTERM) == 1;
    s->bus_blocked = sigismember(&mask, SIGBUS) == 1;
}

static void threads_are_named_and_leave_signals_to_main(void **state)
{
    (void)state;
    struct err e = {0};
    struct seen s = {0};
    struct thread t;
    assert_ok(thread_start(&t, "a-name-longer-than-the-kernel-allows", look_around, &s, &e));
    thread_join(&t);
    thread_join(&t); /* harmless */
    thread_join(NULL);
    assert_string_equal(s.name, "a-name-longer-t");
    assert_true(s.term_blocked);
    assert_false(s.bus_blocked); /* a fault of its own has a handler */
    sigset_t mask;
    (void)pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_int_equal(sigismember(&mask, SIGTERM), 0); /* the starter's own mask is back */
}

struct bell {
    pthread_mutex_t lock;
    pthread_cond_t rung;
    bool done;
};

static void ring(void *arg)
{
    struct bell *b = arg;
    MUTEX_HOLD(&b->lock);
    b->done = true;
    (void)pthread_cond_signal(&b->rung);
}

static void a_wait_ends_by_signal_or_time(void **state)
{
    (void)state;
    struct err e = {0};
    struct bell b = {.lock = PTHREAD_MUTEX_INITIALIZER};
    struct thread t;
    cond_init(&b.rung);
    const int64_t began_ms = clock_boot_ms(&clock_real);
    {
        MUTEX_HOLD(&b.lock);
        while (clock_boot_ms(&clock_real) - began_ms < 30)
            cond_wait_ms(&b.rung, &b.lock, 1030 - (clock_boot_ms(&clock_real) - began_ms) - 1000);
    }
    assert_ok(thread_start(&t, "ringer", ring, &b, &e));
    {
        MUTEX_HOLD(&b.lock);
        while (!b.done)
            cond_wait_ms(&b.rung, &b.lock, b.done ? 0 : -1);
    }
    thread_join(&t);
    (void)pthread_cond_destroy(&b.rung);
}

TEST_MAIN(TEST(a_wait_ends_by_signal_or_time),
          TEST(a_held_mutex_excludes_and_is_released_with_its_scope),
          TEST(threads_are_named_and_leave_signals_to_main))
