/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/prober.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/thread.h"
#include "base/vec.h"

enum {
    ROUND_MAX = 16,                                       /* clusters asked together */
    ROUND_MEMBERS_MAX = ROUND_MAX * OBSERVED_MEMBERS_MAX, /* and so many connections at most */
    EAGER_SHARE = 100,    /* a pause is at least this part of the time nothing has changed */
    LANE_IDLE_MS = 60000, /* how long a lane with nothing to ask sleeps */
};

#define NOT_DUE INT64_MAX /* until somebody looks */

enum lane { PROMPT, PATIENT, LANES };

/* One cluster. Taken out of the table it lives on until its round is over. */
struct subject {
    struct objkey key;
    struct question question;
    struct health health;
    enum lane lane;
    bool known;       /* health answers question */
    bool unseen;      /* it was news, and nobody looked at it yet */
    bool always;      /* every answer is news */
    bool busy;        /* in a round */
    bool dropped;     /* forgotten while busy */
    bool again;       /* the question changed while busy */
    int64_t eager_ms; /* while something is under way: the pause; 0: at rest */
    int64_t due_ms, answered_ms, changed_ms;
    unsigned silent;         /* rounds in a row nobody answered … */
    int64_t silent_since_ms; /* … beginning with this one */
};

struct lane_arg {
    struct prober *prober;
    enum lane lane;
};

struct prober {
    struct prober_options o;
    struct ctx ctx; /* of the threads */
    struct thread threads[LANES];
    struct lane_arg args[LANES];
    pthread_mutex_t lock; /* guards: subjects and all in them, eager, stopping */
    pthread_cond_t wake;
    struct map subjects; /* "ns/name" -> struct subject */
    size_t eager;        /* of them, those that are not at rest */
    bool stopping;
};

static struct subject *find(struct prober *p, const struct objkey *key)
{
    char text[OBJKEY_TEXT_MAX];
    return map_get(&p->subjects, objkey_text(key, text));
}

static void subject_free(struct subject *s)
{
    question_done(&s->question);
    free(s);
}

/* --- One round ------------------------------------------------------------------------------ */

struct round {
    struct subject *subjects[ROUND_MAX];
    struct question questions[ROUND_MAX]; /* as asked: a subject's may change meanwhile */
    size_t n;
};

/* Those of the lane that are due; how long until the next one is. Locked. */
static int64_t gather(struct prober *p, enum lane lane, struct round *r)
{
    const int64_t now_ms = clock_boot_ms(p->o.clock);
    int64_t wait_ms = LANE_IDLE_MS;
    void *value = NULL;
    for (size_t at = 0; map_next(&p->subjects, &at, NULL, &value);) {
        struct subject *s = value;
        if (s->lane != lane || s->busy)
            continue;
        if (s->due_ms > now_ms) {
            wait_ms = s->due_ms - now_ms < wait_ms ? s->due_ms - now_ms : wait_ms;
            continue;
        }
        if (r->n == ROUND_MAX)
            break;
        s->busy = true;
        r->questions[r->n] = question_copy(&s->question);
        r->subjects[r->n++] = s;
    }
    return wait_ms;
}

static bool anybody_answered(const struct health *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->members[i].outcome == ETCD_PROBE_ANSWERED)
            return true;
    return false;
}

static bool anybody_silent(const struct health *h)
{
    for (size_t i = 0; i < h->n; i++)
        if (h->members[i].outcome == ETCD_PROBE_TIMED_OUT)
            return true;
    return false;
}

/* Spread, so that clusters found at the same moment are not asked at the same moment for ever. */
static int64_t steady_ms(const struct prober *p)
{
    const int64_t ms = PROBER_STEADY_MS + PROBER_SPREAD_MS * (int64_t)p->subjects.n;
    return ms - (int64_t)(rand_u64() % (uint64_t)(ms / 4));
}

/* Until the next question: longer the longer nothing has changed, and the longer nobody has
 * answered. */
static int64_t pause_ms(const struct prober *p, const struct subject *s)
{
    if (s->eager_ms == 0)
        return steady_ms(p);
    int64_t ms = (clock_boot_ms(p->o.clock) - s->changed_ms) / EAGER_SHARE;
    ms = ms > PROBER_EAGER_MAX_MS ? PROBER_EAGER_MAX_MS : ms;
    if (s->silent > 0) {
        const unsigned doublings = s->silent > 6 ? 6 : s->silent - 1;
        ms = (int64_t)PROBER_SILENT_MS << doublings;
        ms = ms > PROBER_SILENT_MAX_MS ? PROBER_SILENT_MAX_MS : ms;
    }
    ms = ms > s->eager_ms ? ms : s->eager_ms;
    int64_t spread_ms = PROBER_EAGER_SPREAD_MS * (int64_t)(p->eager - 1); /* it is one itself */
    spread_ms = spread_ms > PROBER_EAGER_MAX_MS ? PROBER_EAGER_MAX_MS : spread_ms;
    return ms > spread_ms ? ms : spread_ms;
}

/* Locked. */
static void set_eager(struct prober *p, struct subject *s, int64_t eager_ms)
{
    p->eager += (eager_ms > 0) - (s->eager_ms > 0);
    s->eager_ms = eager_ms;
}

/* Takes an answer in. Returns whether it is news. Locked. */
static bool take(struct prober *p, struct subject *s, const struct health *h)
{
    const int64_t now_ms = clock_boot_ms(p->o.clock);
    s->busy = false;
    if (s->again) { /* it answers a question nobody asks any more */
        s->again = false;
        s->due_ms = now_ms;
        return false;
    }
    const bool waited_for = !s->known || s->always;
    const bool changed = !s->known || !health_same(&s->health, h);
    if (changed)
        s->changed_ms = now_ms;
    s->health = *h;
    s->known = true;
    s->unseen = waited_for || changed;
    s->answered_ms = now_ms;
    s->lane = anybody_silent(h) ? PATIENT : PROMPT;
    s->silent = !anybody_answered(h) && anybody_silent(h) ? s->silent + 1 : 0;
    if (s->silent == 1)
        s->silent_since_ms = now_ms;
    s->due_ms = now_ms + pause_ms(p, s); /* a pass that follows may ask for less */
    return s->unseen;
}

static void end_round(struct prober *p, struct round *r, const struct etcd_probe_answer *answers,
                      size_t *first)
{
    for (size_t i = 0; i < r->n; i++) {
        struct subject *s = r->subjects[i];
        struct health h;
        struct objkey key = s->key;
        health_read(&r->questions[i], answers + first[i], &h);
        bool news = false, gone = false;
        {
            MUTEX_HOLD(&p->lock);
            gone = s->dropped;
            if (!gone)
                news = take(p, s, &h);
        }
        if (gone)
            subject_free(s);
        else if (!ctx_canceled(&p->ctx))
            p->o.told(p->o.arg, &key, &h, news);
        question_done(&r->questions[i]);
    }
}

static void run_round(struct prober *p, struct round *r)
{
    auto_free struct etcd_probe_target *targets = xcalloc(ROUND_MEMBERS_MAX, sizeof(*targets));
    auto_free struct etcd_probe_answer *answers = xcalloc(ROUND_MEMBERS_MAX, sizeof(*answers));
    size_t first[ROUND_MAX] = {0}, n = 0;
    for (size_t i = 0; i < r->n; i++) {
        first[i] = n;
        n += question_targets(&r->questions[i], targets + n);
    }
    struct err ignored = {0}; /* each answer says what became of it */
    (void)!p->o.probe(&p->ctx, targets, n, answers, &ignored);
    end_round(p, r, answers, first);
    for (size_t i = 0; i < n; i++)
        etcd_probe_answer_done(&answers[i]);
}

static void run_lane(void *arg)
{
    const struct lane_arg *a = arg;
    struct prober *p = a->prober;
    while (!ctx_canceled(&p->ctx)) {
        struct round r = {0};
        {
            MUTEX_HOLD(&p->lock);
            const int64_t wait_ms = gather(p, a->lane, &r);
            if (r.n == 0 && !p->stopping)
                cond_wait_ms(&p->wake, &p->lock, wait_ms);
        }
        if (r.n > 0)
            run_round(p, &r);
    }
}

/* --- Life ----------------------------------------------------------------------------------- */

struct prober *prober_new(const struct prober_options *o)
{
    struct prober *p = xcalloc(1, sizeof(*p));
    p->o = *o;
    (void)pthread_mutex_init(&p->lock, NULL); /* cannot fail without attributes */
    cond_init(&p->wake);
    return p;
}

void prober_free(struct prober *p)
{
    if (!p)
        return;
    void *value = NULL;
    for (size_t at = 0; map_next(&p->subjects, &at, NULL, &value);)
        subject_free(value);
    map_done(&p->subjects);
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    free(p);
}

int prober_start(const struct ctx *ctx, struct prober *p, struct err *e)
{
    p->ctx = *ctx;
    for (enum lane i = 0; i < LANES; i++) {
        p->args[i] = (struct lane_arg){p, i};
        if (thread_start(&p->threads[i], i == PROMPT ? "prober" : "prober-patient", run_lane,
                         &p->args[i], e) < 0)
            return -1;
    }
    return 0;
}

void prober_join(struct prober *p)
{
    if (!p)
        return;
    {
        MUTEX_HOLD(&p->lock);
        p->stopping = true;
        (void)pthread_cond_broadcast(&p->wake);
    }
    for (enum lane i = 0; i < LANES; i++)
        thread_join(&p->threads[i]);
}

/* --- Workers -------------------------------------------------------------------------------- */

/* Asks at once, or right after the round under way. Locked. */
static void ask_now(struct prober *p, struct subject *s)
{
    s->known = false;
    s->again = s->busy;
    s->due_ms = clock_boot_ms(p->o.clock);
    (void)pthread_cond_broadcast(&p->wake);
}

bool prober_look(struct prober *p, const struct objkey *key, const struct question *q,
                 struct health *out)
{
    MUTEX_HOLD(&p->lock);
    char text[OBJKEY_TEXT_MAX];
    struct subject *s = find(p, key);
    if (!s) {
        s = xcalloc(1, sizeof(*s));
        s->key = *key;
        s->question = question_copy(q);
        (void)map_put(&p->subjects, objkey_text(key, text), s);
        ask_now(p, s);
        return false;
    }
    if (!question_same(&s->question, q)) {
        question_done(&s->question);
        s->question = question_copy(q);
        s->lane = PROMPT;
        ask_now(p, s);
        return false;
    }
    const int64_t age_ms = clock_boot_ms(p->o.clock) - s->answered_ms;
    if (s->known && (s->unseen || age_ms <= PROBER_FRESH_MS)) {
        s->unseen = false;
        *out = s->health;
        out->stable_ms = clock_boot_ms(p->o.clock) - s->changed_ms;
        out->silent_ms = s->silent > 0 ? clock_boot_ms(p->o.clock) - s->silent_since_ms : 0;
        return true;
    }
    if (s->known || s->due_ms == NOT_DUE)
        ask_now(p, s);
    return false;
}

void prober_next(struct prober *p, const struct objkey *key, int64_t eager_ms, bool always)
{
    MUTEX_HOLD(&p->lock);
    struct subject *s = find(p, key);
    if (!s || !s->known)
        return; /* it is being asked */
    s->always = always;
    set_eager(p, s, eager_ms);
    s->due_ms = clock_boot_ms(p->o.clock) + pause_ms(p, s);
    (void)pthread_cond_broadcast(&p->wake);
}

void prober_stale(struct prober *p, const struct objkey *key, bool at_once)
{
    MUTEX_HOLD(&p->lock);
    struct subject *s = find(p, key);
    if (!s)
        return;
    ask_now(p, s);
    if (!at_once && !s->busy)
        s->due_ms = NOT_DUE;
}

void prober_forget(struct prober *p, const struct objkey *key)
{
    MUTEX_HOLD(&p->lock);
    char text[OBJKEY_TEXT_MAX];
    struct subject *s = map_del(&p->subjects, objkey_text(key, text));
    if (!s)
        return;
    set_eager(p, s, 0);
    if (s->busy)
        s->dropped = true;
    else
        subject_free(s);
}
