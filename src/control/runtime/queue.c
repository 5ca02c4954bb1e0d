/* SPDX-License-Identifier: Apache-2.0
 * A map of entries by key and a heap of those that wait, ordered by due time and then by arrival.
 * An entry lives as long as it waits, is worked on, or remembers failures. */
#include "control/runtime/queue.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/rand.h"
#include "base/thread.h"
#include "base/vec.h"

enum { NOT_WAITING = -1, FAILURES_MAX = 20 };

struct entry {
    int64_t due_ms;
    uint64_t arrived;
    int at; /* place in the heap, or NOT_WAITING */
    bool worked_on, marked;
    int64_t marked_ms; /* when it was asked for while being worked on */
    unsigned int failures;
    unsigned char ns_n; /* the key follows: "ns/name", split here */
    char key[];
};

struct wq {
    const struct clock *clock;
    struct metric *depth, *adds, *retries;

    pthread_mutex_t lock; /* guards: everything below; no other lock is taken under it */
    pthread_cond_t changed;
    struct map entries;
    VEC(struct entry *) heap;
    uint64_t arrivals;
    bool stopped;
};

/* --- The heap; the lock is held --- */

static bool before(const struct entry *a, const struct entry *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->arrived < b->arrived;
}

static void heap_set(struct wq *q, size_t at, struct entry *en)
{
    q->heap.v[at] = en;
    en->at = (int)at;
}

static void heap_up(struct wq *q, size_t at)
{
    struct entry *en = q->heap.v[at];
    while (at > 0 && before(en, q->heap.v[(at - 1) / 2])) {
        heap_set(q, at, q->heap.v[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_set(q, at, en);
}

static void heap_down(struct wq *q, size_t at)
{
    struct entry *en = q->heap.v[at];
    for (size_t child; (child = 2 * at + 1) < q->heap.n; at = child) {
        if (child + 1 < q->heap.n && before(q->heap.v[child + 1], q->heap.v[child]))
            child++;
        if (!before(q->heap.v[child], en))
            break;
        heap_set(q, at, q->heap.v[child]);
    }
    heap_set(q, at, en);
}

static void heap_push(struct wq *q, struct entry *en, int64_t due_ms)
{
    en->due_ms = due_ms;
    en->arrived = q->arrivals++;
    vec_push(&q->heap, en);
    heap_up(q, q->heap.n - 1);
}

static struct entry *heap_pop(struct wq *q)
{
    struct entry *first = q->heap.v[0];
    struct entry *last = q->heap.v[--q->heap.n];
    first->at = NOT_WAITING;
    if (q->heap.n > 0) {
        heap_set(q, 0, last);
        heap_down(q, 0);
    }
    return first;
}

/* --- Entries; the lock is held --- */

static struct entry *find(struct wq *q, const struct objkey *key)
{
    char text[OBJKEY_TEXT_MAX];
    return map_get(&q->entries, objkey_text(key, text));
}

static struct entry *find_or_make(struct wq *q, const struct objkey *key)
{
    char text[OBJKEY_TEXT_MAX];
    const struct str k = objkey_text(key, text);
    struct entry *en = map_get(&q->entries, k);
    if (en)
        return en;
    en = xcalloc(1, sizeof(*en) + k.n + 1);
    en->at = NOT_WAITING;
    en->ns_n = (unsigned char)strlen(key->ns);
    memcpy(en->key, k.p, k.n);
    map_put(&q->entries, k, en);
    return en;
}

static void drop_if_idle(struct wq *q, struct entry *en)
{
    if (en->at != NOT_WAITING || en->worked_on || en->failures > 0)
        return;
    map_del(&q->entries, str_c(en->key));
    free(en);
}

static void schedule(struct wq *q, struct entry *en, int64_t due_ms)
{
    if (en->worked_on) {
        if (!en->marked || due_ms < en->marked_ms)
            en->marked_ms = due_ms;
        en->marked = true;
    } else if (en->at == NOT_WAITING) {
        heap_push(q, en, due_ms);
    } else if (due_ms < en->due_ms) {
        en->due_ms = due_ms;
        heap_up(q, (size_t)en->at);
    }
    (void)pthread_cond_signal(&q->changed); /* never fails */
}

/* The upper half of the exponential step: spread, but never above the cap. */
static int64_t backoff_ms(unsigned int failures, enum wq_backoff how)
{
    const int64_t base_ms = how == WQ_SOON ? WQ_SOON_MS : WQ_CAPPED_MS;
    const int64_t max_ms = how == WQ_SOON ? WQ_SOON_MAX_MS : WQ_CAPPED_MAX_MS;
    int64_t step_ms = base_ms << failures;
    if (step_ms > max_ms)
        step_ms = max_ms;
    return step_ms / 2 + (int64_t)(rand_u64() % (uint64_t)(step_ms / 2 + 1));
}

/* --- The queue --- */

struct wq *wq_new(const struct clock *clock, struct metrics *metrics)
{
    struct wq *q = xcalloc(1, sizeof(*q));
    q->clock = clock;
    (void)pthread_mutex_init(&q->lock, NULL); /* cannot fail without attributes */
    cond_init(&q->changed);
    if (metrics) {
        q->depth =
            metric_register(metrics, &(struct metric_desc){.name = "raftsman_queue_depth",
                                                           .help = "Keys that wait or are due.",
                                                           .type = METRIC_GAUGE});
        q->adds = metric_register(
            metrics, &(struct metric_desc){.name = "raftsman_queue_adds_total",
                                           .help = "Keys handed in, duplicates included.",
                                           .type = METRIC_COUNTER});
        q->retries = metric_register(
            metrics, &(struct metric_desc){.name = "raftsman_queue_retries_total",
                                           .help = "Keys queued again after a failure.",
                                           .type = METRIC_COUNTER});
    }
    return q;
}

void wq_free(struct wq *q)
{
    if (!q)
        return;
    void *en = NULL;
    for (size_t at = 0; map_next(&q->entries, &at, NULL, &en);)
        free(en);
    map_done(&q->entries);
    vec_done(&q->heap);
    (void)pthread_cond_destroy(&q->changed);
    (void)pthread_mutex_destroy(&q->lock);
    free(q);
}

static void count(struct wq *q, struct metric *also)
{
    if (!q->depth)
        return;
    if (also)
        metric_add(also, 1);
    metric_set(q->depth, (double)wq_depth(q));
}

void wq_add_after(struct wq *q, const struct objkey *key, int64_t ms)
{
    {
        MUTEX_HOLD(&q->lock);
        schedule(q, find_or_make(q, key), clock_boot_ms(q->clock) + (ms > 0 ? ms : 0));
    }
    count(q, q->adds);
}

void wq_add(struct wq *q, const struct objkey *key)
{
    wq_add_after(q, key, 0);
}

void wq_add_backoff(struct wq *q, const struct objkey *key, enum wq_backoff how,
                    uint32_t at_least_ms)
{
    {
        MUTEX_HOLD(&q->lock);
        struct entry *en = find_or_make(q, key);
        int64_t wait_ms = backoff_ms(en->failures, how);
        if (wait_ms < at_least_ms)
            wait_ms = at_least_ms < WQ_CAPPED_MAX_MS ? at_least_ms : WQ_CAPPED_MAX_MS;
        if (en->failures < FAILURES_MAX)
            en->failures++;
        schedule(q, en, clock_boot_ms(q->clock) + wait_ms);
    }
    count(q, q->retries);
}

void wq_forget(struct wq *q, const struct objkey *key)
{
    MUTEX_HOLD(&q->lock);
    struct entry *en = find(q, key);
    if (!en)
        return;
    en->failures = 0;
    drop_if_idle(q, en);
}

/* The lock is held. */
static bool take_due(struct wq *q, struct objkey *out)
{
    if (q->stopped || q->heap.n == 0 || q->heap.v[0]->due_ms > clock_boot_ms(q->clock))
        return false;
    struct entry *en = heap_pop(q);
    en->worked_on = true;
    memset(out, 0, sizeof(*out));
    memcpy(out->ns, en->key, (size_t)en->ns_n);
    memcpy(out->name, en->key + en->ns_n + 1, strlen(en->key + en->ns_n + 1));
    return true;
}

bool wq_try_get(struct wq *q, struct objkey *out)
{
    MUTEX_HOLD(&q->lock);
    return take_due(q, out);
}

/* The lock is held. */
static int64_t next_ms(const struct wq *q)
{
    if (q->heap.n == 0)
        return -1;
    const int64_t left_ms = q->heap.v[0]->due_ms - clock_boot_ms(q->clock);
    return left_ms > 0 ? left_ms : 0;
}

bool wq_get(struct wq *q, struct objkey *out)
{
    {
        MUTEX_HOLD(&q->lock);
        while (!take_due(q, out)) {
            if (q->stopped)
                return false;
            cond_wait_ms(&q->changed, &q->lock, next_ms(q));
        }
        /* One signal wakes one waiter: pass it on if there is more. */
        if (next_ms(q) == 0)
            (void)pthread_cond_signal(&q->changed);
    }
    count(q, NULL);
    return true;
}

void wq_done(struct wq *q, const struct objkey *key)
{
    {
        MUTEX_HOLD(&q->lock);
        struct entry *en = find(q, key);
        assert(en && en->worked_on && "done with what was not handed out");
        en->worked_on = false;
        if (en->marked) {
            en->marked = false;
            schedule(q, en, en->marked_ms);
        } else {
            drop_if_idle(q, en);
        }
    }
    count(q, NULL);
}

void wq_stop(struct wq *q)
{
    MUTEX_HOLD(&q->lock);
    q->stopped = true;
    (void)pthread_cond_broadcast(&q->changed);
}

size_t wq_depth(struct wq *q)
{
    MUTEX_HOLD(&q->lock);
    return q->heap.n;
}

int64_t wq_next_ms(struct wq *q)
{
    MUTEX_HOLD(&q->lock);
    return next_ms(q);
}
