/* SPDX-License-Identifier: Apache-2.0
 * The queue under a clock that stands still until told: a model says what must happen. */
#include "control/runtime/queue.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/thread.h"
#include "unit.h"

static struct objkey key(int i)
{
    struct objkey k;
    char name[16];
    (void)snprintf(name, sizeof(name), "c%d", i);
    assert_true(objkey_set(&k, i % 2 ? "a" : "b", name));
    return k;
}

static int number(const struct objkey *k)
{
    return atoi(k->name + 1);
}

static void a_key_is_handed_out_once(void **state)
{
    (void)state;
    struct clock_fake clock;
    clock_fake_init(&clock, 0);
    AUTO(wq_free_auto) struct wq *q = wq_new(&clock.clock, NULL);
    struct objkey k = key(1), got;
    wq_add(q, &k);
    wq_add(q, &k);
    assert_int_equal(wq_depth(q), 1);
    assert_true(wq_try_get(q, &got));
    assert_memory_equal(&got, &k, sizeof(k));
    assert_false(wq_try_get(q, &got));
    wq_add(q, &k); /* while it is worked on */
    assert_false(wq_try_get(q, &got));
    wq_done(q, &k);
    assert_true(wq_try_get(q, &got));
    wq_done(q, &k);
    assert_false(wq_try_get(q, &got));
    assert_int_equal(wq_next_ms(q), -1);
}

static void the_earliest_delay_wins(void **state)
{
    (void)state;
    struct clock_fake clock;
    clock_fake_init(&clock, 0);
    AUTO(wq_free_auto) struct wq *q = wq_new(&clock.clock, NULL);
    struct objkey k = key(1), got;
    wq_add_after(q, &k, 5000);
    wq_add_after(q, &k, 1000);
    wq_add_after(q, &k, 9000);
    assert_int_equal(wq_next_ms(q), 1000);
    clock_fake_advance(&clock, 999);
    assert_false(wq_try_get(q, &got));
    clock_fake_jump_wall(&clock, 3600 * 1000); /* someone sets the date: no matter */
    assert_false(wq_try_get(q, &got));
    clock_fake_advance(&clock, 1);
    assert_true(wq_try_get(q, &got));
    wq_add_after(q, &k, 700);
    wq_add_after(q, &k, 300);
    wq_done(q, &k);
    assert_int_equal(wq_next_ms(q), 300);
}

static void backoff_doubles_up_to_its_cap_and_is_forgotten(void **state)
{
    (void)state;
    struct clock_fake clock;
    clock_fake_init(&clock, 0);
    AUTO(wq_free_auto) struct wq *q = wq_new(&clock.clock, NULL);
    struct objkey k = key(1), got;
    for (int how = 0; how < 2; how++) {
        const int64_t base_ms = how == WQ_SOON ? WQ_SOON_MS : WQ_CAPPED_MS;
        const int64_t cap_ms = how == WQ_SOON ? WQ_SOON_MAX_MS : WQ_CAPPED_MAX_MS;
        for (int n = 0; n < 40; n++) {
            wq_add_backoff(q, &k, (enum wq_backoff)how, 0);
            int64_t want_ms = n < 20 ? base_ms << n : cap_ms;
            if (want_ms > cap_ms)
                want_ms = cap_ms;
            assert_in_range(wq_next_ms(q), want_ms / 2, want_ms);
            clock_fake_advance(&clock, wq_next_ms(q));
            assert_true(wq_try_get(q, &got));
            wq_done(q, &k);
        }
        wq_forget(q, &k);
    }
    wq_add_backoff(q, &k, WQ_SOON, 20000); /* the server said so */
    assert_int_equal(wq_next_ms(q), 20000);
    wq_add_backoff(q, &k, WQ_SOON, UINT32_MAX);
    assert_int_equal(wq_next_ms(q), 20000);
    wq_add(q, &k); /* an event does not wait for a backoff */
    assert_int_equal(wq_next_ms(q), 0);
}

static void those_due_first_come_first(void **state)
{
    (void)state;
    struct clock_fake clock;
    clock_fake_init(&clock, 0);
    AUTO(wq_free_auto) struct wq *q = wq_new(&clock.clock, NULL);
    for (int i = 0; i < 100; i++) {
        struct objkey k = key(i);
        wq_add_after(q, &k, 100 - i);
    }
    clock_fake_advance(&clock, 1000);
    for (int i = 99; i >= 0; i--) {
        struct objkey got;
        assert_true(wq_try_get(q, &got));
        assert_int_equal(number(&got), i);
        wq_done(q, &got);
    }
}

/* --- Random operations against a model --- */

enum { KEYS = 12 };

struct model {
    bool waiting, worked_on, marked;
    int64_t due_ms, marked_ms;
    int64_t late_ms; /* with a backoff only a range is known: due between due_ms and late_ms */
    int64_t marked_late_ms;
    unsigned int failures;
};

static void model_add(struct model *m, int64_t from_ms, int64_t to_ms)
{
    if (m->worked_on) {
        m->marked_ms = !m->marked || from_ms < m->marked_ms ? from_ms : m->marked_ms;
        m->marked_late_ms = !m->marked || to_ms < m->marked_late_ms ? to_ms : m->marked_late_ms;
        m->marked = true;
        return;
    }
    m->due_ms = !m->waiting || from_ms < m->due_ms ? from_ms : m->due_ms;
    m->late_ms = !m->waiting || to_ms < m->late_ms ? to_ms : m->late_ms;
    m->waiting = true;
}

static void check_hand_out(struct wq *q, struct model *all, int64_t now_ms)
{
    struct objkey got;
    if (!wq_try_get(q, &got)) {
        for (int i = 0; i < KEYS; i++)
            if (all[i].waiting && all[i].late_ms <= now_ms)
                fail_msg("key %d is due and lost", i);
        return;
    }
    struct model *m = &all[number(&got)];
    assert_true(m->waiting);    /* nothing out of nowhere */
    assert_false(m->worked_on); /* never twice at once */
    assert_true(m->due_ms <= now_ms);
    m->waiting = false;
    m->worked_on = true;
}

static void random_use_matches_the_model(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        uint64_t rnd = seed;
        struct model all[KEYS] = {0};
        struct clock_fake clock;
        clock_fake_init(&clock, 0);
        struct wq *q = wq_new(&clock.clock, NULL);
        for (int step = 0; step < 5000; step++) {
            const int64_t now_ms = clock_boot_ms(&clock.clock);
            const int i = (int)test_below(&rnd, KEYS);
            struct objkey k = key(i);
            struct model *m = &all[i];
            const int64_t delay_ms = (int64_t)test_below(&rnd, 3000);
            switch (test_below(&rnd, 7)) {
            case 0:
                wq_add(q, &k);
                model_add(m, now_ms, now_ms);
                break;
            case 1:
                wq_add_after(q, &k, delay_ms);
                model_add(m, now_ms + delay_ms, now_ms + delay_ms);
                break;
            case 2: {
                int64_t step_ms = (int64_t)WQ_SOON_MS << m->failures;
                step_ms = step_ms > WQ_SOON_MAX_MS ? WQ_SOON_MAX_MS : step_ms;
                wq_add_backoff(q, &k, WQ_SOON, 0);
                model_add(m, now_ms + step_ms / 2, now_ms + step_ms);
                m->failures += m->failures < 20;
                break;
            }
            case 3:
                wq_forget(q, &k);
                m->failures = 0;
                break;
            case 4:
                clock_fake_advance(&clock, delay_ms / 10);
                break;
            case 5:
                check_hand_out(q, all, now_ms);
                break;
            default:
                if (!m->worked_on)
                    break;
                wq_done(q, &k);
                m->worked_on = false;
                if (m->marked) {
                    m->marked = false;
                    model_add(m, m->marked_ms, m->marked_late_ms);
                }
            }
        }
        wq_free(q);
    }
}

/* --- Threads --- */

struct crowd {
    struct wq *q;
    atomic_int owners[KEYS]; /* workers on a key at this moment */
    atomic_int asked[KEYS], served[KEYS];
    atomic_bool twice;
};

static void serve(void *arg)
{
    struct crowd *c = arg;
    struct objkey k;
    while (wq_get(c->q, &k)) {
        const int i = number(&k);
        if (atomic_fetch_add(&c->owners[i], 1) != 0)
            atomic_store(&c->twice, true);
        atomic_store(&c->served[i], atomic_load(&c->asked[i])); /* sees all that was asked */
        atomic_fetch_sub(&c->owners[i], 1);
        wq_done(c->q, &k);
    }
}

static void ask(void *arg)
{
    struct crowd *c = arg;
    uint64_t rnd = (uint64_t)(uintptr_t)&rnd;
    for (int n = 0; n < 3000; n++) {
        const int i = (int)test_below(&rnd, KEYS);
        struct objkey k = key(i);
        atomic_fetch_add(&c->asked[i], 1);
        wq_add_after(c->q, &k, (int64_t)test_below(&rnd, 3));
    }
}

static void no_request_is_lost_between_threads(void **state)
{
    (void)state;
    struct err e = {0};
    struct crowd c = {.q = wq_new(&clock_real, NULL)};
    struct thread workers[4], askers[3];
    for (size_t i = 0; i < COUNT_OF(workers); i++)
        assert_ok(thread_start(&workers[i], "worker", serve, &c, &e));
    for (size_t i = 0; i < COUNT_OF(askers); i++)
        assert_ok(thread_start(&askers[i], "asker", ask, &c, &e));
    for (size_t i = 0; i < COUNT_OF(askers); i++)
        thread_join(&askers[i]);
    for (int tries = 0; tries < 2000; tries++) {
        bool all = wq_depth(c.q) == 0;
        for (int i = 0; i < KEYS; i++)
            all = all && atomic_load(&c.served[i]) == atomic_load(&c.asked[i]);
        if (all)
            break;
        usleep(1000);
    }
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(atomic_load(&c.served[i]), atomic_load(&c.asked[i]));
    wq_stop(c.q);
    for (size_t i = 0; i < COUNT_OF(workers); i++)
        thread_join(&workers[i]);
    assert_false(atomic_load(&c.twice));
    struct objkey k = key(1);
    wq_add(c.q, &k);
    assert_false(wq_get(c.q, &k)); /* stopped */
    wq_free(c.q);
}

TEST_MAIN(TEST(a_key_is_handed_out_once), TEST(the_earliest_delay_wins),
          TEST(backoff_doubles_up_to_its_cap_and_is_forgotten), TEST(those_due_first_come_first),
          TEST(random_use_matches_the_model), TEST(no_request_is_lost_between_threads))
