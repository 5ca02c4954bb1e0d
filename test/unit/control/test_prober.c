/* SPDX-License-Identifier: Apache-2.0
 * The prober with a stand-in for etcd: members at "http://silent" keep a round waiting. */
#include "control/cluster/prober.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "base/thread.h"
#include "unit.h"

enum { SILENCE_MS = 400 };

static atomic_int rounds, told_all, told_news, leader, told_of[10];
static atomic_bool slow;

static int stand_in(const struct ctx *ctx, const struct etcd_probe_target *targets, size_t n,
                    struct etcd_probe_answer *answers, struct err *e)
{
    atomic_fetch_add(&rounds, 1);
    bool silent = false;
    for (size_t i = 0; i < n; i++) {
        const bool mute = strstr(targets[i].endpoint.url, "silent") != NULL;
        silent = silent || mute;
        answers[i].outcome = mute ? ETCD_PROBE_TIMED_OUT : ETCD_PROBE_ANSWERED;
        answers[i].status.leader = (uint64_t)atomic_load(&leader);
        answers[i].status.header.cluster_id = targets[i].cluster_id;
    }
    return silent || atomic_load(&slow) ? ctx_sleep(ctx, SILENCE_MS, e) : 0;
}

static void told(void *arg, const struct objkey *key, const struct health *h, bool news)
{
    (void)arg;
    (void)h;
    atomic_fetch_add(&told_all, 1);
    atomic_fetch_add(&told_news, news);
    atomic_fetch_add(&told_of[key->name[0] - '0'], news);
}

struct rig {
    struct cancel stop;
    struct ctx ctx;
    struct prober *p;
};

static void set_up(struct rig *r)
{
    struct err e = {0};
    atomic_store(&rounds, 0);
    atomic_store(&told_all, 0);
    atomic_store(&told_news, 0);
    atomic_store(&slow, false);
    atomic_store(&leader, 1);
    for (size_t i = 0; i < COUNT_OF(told_of); i++)
        atomic_store(&told_of[i], 0);
    assert_ok(cancel_init(&r->stop, &e));
    const struct ctx root = ctx_root(&clock_real, NULL);
    r->ctx = ctx_with_cancel(&root, &r->stop);
    r->p =
        prober_new(&(struct prober_options){.clock = &clock_real, .told = told, .probe = stand_in});
    assert_ok(prober_start(&r->ctx, r->p, &e));
}

static void tear_down(struct rig *r)
{
    cancel_fire(&r->stop);
    prober_join(r->p);
    prober_free(r->p);
    cancel_done(&r->stop);
}

static struct objkey key(int i)
{
    struct objkey k;
    char name[16];
    (void)snprintf(name, sizeof(name), "%d", i);
    assert_true(objkey_set(&k, "ns", name));
    return k;
}

static struct question question(const char *url)
{
    struct question q = {.cluster_id = 5, .n = 1};
    (void)snprintf(q.members[0].url, HEALTH_URL_MAX, "%s", url);
    q.members[0].peer_url = xstrdup("http://peer:2380");
    return q;
}

static bool look(struct rig *r, int i, const char *url, struct health *out)
{
    struct objkey k = key(i);
    struct question q = question(url);
    const bool known = prober_look(r->p, &k, &q, out);
    question_done(&q);
    return known;
}

/* Within two seconds, which is an age for a stand-in. */
static void reaches(atomic_int *value, int at_least)
{
    for (int i = 0; i < 2000 && atomic_load(value) < at_least; i++)
        (void)usleep(1000);
    assert_true(atomic_load(value) >= at_least);
}

static void the_first_look_asks_and_the_answer_is_news(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    set_up(&r);
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&told_news, 1);
    assert_true(look(&r, 1, "http://a", &h));
    assert_int_equal(h.members[0].outcome, ETCD_PROBE_ANSWERED);
    assert_int_equal(h.members[0].cluster_id, 5);
    assert_true(look(&r, 1, "http://a", &h));  /* young enough for a second look */
    assert_false(look(&r, 1, "http://b", &h)); /* another question */
    reaches(&told_news, 2);
    assert_true(look(&r, 1, "http://b", &h));
    tear_down(&r);
}

static void an_old_answer_is_not_looked_at_twice(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    set_up(&r);
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&told_news, 1);
    (void)usleep((PROBER_FRESH_MS + 100) * 1000);
    assert_true(look(&r, 1, "http://a", &h)); /* it was news and nobody had seen it */
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&told_news, 2);
    tear_down(&r);
}

static void while_something_is_under_way_every_answer_is_news(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    const struct objkey k = key(1);
    set_up(&r);
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&told_news, 1);
    for (int n = 2; n < 6; n++) {
        prober_next(r.p, &k, 20, true);
        reaches(&told_news, n);
        assert_true(look(&r, 1, "http://a", &h));
    }
    const int asked = atomic_load(&rounds);
    prober_next(r.p, &k, 0, false); /* at rest: not asked again for a long time */
    (void)usleep(150 * 1000);
    assert_int_equal(atomic_load(&rounds), asked);
    tear_down(&r);
}

static void an_eager_cluster_is_asked_on_and_told_of_changes_only(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    const struct objkey k = key(1);
    set_up(&r);
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&told_news, 1);
    assert_true(look(&r, 1, "http://a", &h));
    prober_next(r.p, &k, 20, false);
    reaches(&rounds, 4); /* without anybody looking in between */
    assert_int_equal(atomic_load(&told_news), 1);
    assert_true(look(&r, 1, "http://a", &h)); /* what was asked meanwhile is young enough */
    tear_down(&r);
}

static void the_more_clusters_are_under_way_the_less_often_each_is_asked(void **state)
{
    (void)state;
    enum { MANY = 20 };
    struct rig r;
    struct health h;
    set_up(&r);
    for (int i = 1; i <= MANY; i++)
        assert_false(look(&r, i, "http://a", &h));
    reaches(&told_news, MANY);
    for (int again = 0; again < 2; again++) /* the first time, those before do not know of them */
        for (int i = 1; i <= MANY; i++) {
            const struct objkey k = key(i);
            prober_next(r.p, &k, 20, false);
        }
    const int asked = atomic_load(&rounds);
    (void)usleep(PROBER_EAGER_SPREAD_MS * MANY / 3 * 1000);
    assert_int_equal(atomic_load(&rounds), asked);
    for (int i = 2; i <= MANY; i++) {
        const struct objkey k = key(i);
        prober_forget(r.p, &k);
    }
    const struct objkey last = key(1);
    prober_next(r.p, &last, 20, false);
    (void)usleep(PROBER_EAGER_SPREAD_MS * MANY / 3 * 1000);
    assert_true(atomic_load(&rounds) > asked); /* alone, it is asked as often as it wants */
    tear_down(&r);
}

static void a_step_makes_what_was_known_stale(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    const struct objkey k = key(1);
    set_up(&r);
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&told_news, 1);
    prober_stale(r.p, &k, true);
    reaches(&told_news, 2);
    assert_true(look(&r, 1, "http://a", &h));
    prober_stale(r.p, &k, false); /* the queue says when: nothing is asked, nobody is told */
    (void)usleep(100 * 1000);
    assert_int_equal(atomic_load(&told_news), 2);
    assert_false(look(&r, 1, "http://a", &h)); /* but what was known is not used */
    reaches(&told_news, 3);
    assert_true(look(&r, 1, "http://a", &h));
    tear_down(&r);
}

static void an_answer_to_the_former_question_does_not_count(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    set_up(&r);
    atomic_store(&slow, true);
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&rounds, 1);
    assert_false(look(&r, 1, "http://b", &h)); /* while the round for a is under way */
    atomic_store(&slow, false);
    reaches(&told_news, 1);
    assert_true(atomic_load(&rounds) >= 2);
    assert_true(look(&r, 1, "http://b", &h));
    tear_down(&r);
}

static void a_silent_member_delays_only_its_like(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    const struct objkey other = key(2);
    set_up(&r);
    assert_false(look(&r, 1, "http://silent", &h));
    reaches(&told_of[1], 1); /* from now on it is asked among its like */
    assert_false(look(&r, 2, "http://a", &h));
    reaches(&told_of[2], 1);
    const struct objkey quiet = key(1);
    prober_stale(r.p, &quiet, true);
    (void)usleep(30 * 1000); /* the silent one is being waited for */
    const int64_t began_ms = clock_boot_ms(&clock_real);
    const int before = atomic_load(&told_of[2]);
    prober_stale(r.p, &other, true);
    reaches(&told_of[2], before + 1);
    assert_true(clock_boot_ms(&clock_real) - began_ms < SILENCE_MS / 2);
    tear_down(&r);
}

static void those_forgotten_are_told_of_no_more(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    const struct objkey k = key(1);
    set_up(&r);
    atomic_store(&slow, true);
    assert_false(look(&r, 1, "http://a", &h));
    reaches(&rounds, 1);
    prober_forget(r.p, &k); /* in mid-round */
    prober_forget(r.p, &k);
    (void)usleep((SILENCE_MS + 100) * 1000);
    assert_int_equal(atomic_load(&told_all), 0);
    tear_down(&r);
}

static void a_stop_does_not_wait_for_the_silent(void **state)
{
    (void)state;
    struct rig r;
    struct health h;
    set_up(&r);
    assert_false(look(&r, 1, "http://silent", &h));
    reaches(&rounds, 1);
    const int64_t began_ms = clock_boot_ms(&clock_real);
    tear_down(&r);
    assert_true(clock_boot_ms(&clock_real) - began_ms < SILENCE_MS / 2);
    assert_int_equal(atomic_load(&told_all), 0);
}

TEST_MAIN(TEST(the_first_look_asks_and_the_answer_is_news),
          TEST(an_old_answer_is_not_looked_at_twice),
          TEST(while_something_is_under_way_every_answer_is_news),
          TEST(an_eager_cluster_is_asked_on_and_told_of_changes_only),
          TEST(the_more_clusters_are_under_way_the_less_often_each_is_asked),
          TEST(a_step_makes_what_was_known_stale),
          TEST(an_answer_to_the_former_question_does_not_count),
          TEST(a_silent_member_delays_only_its_like), TEST(those_forgotten_are_told_of_no_more),
          TEST(a_stop_does_not_wait_for_the_silent))
