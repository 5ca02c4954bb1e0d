/* SPDX-License-Identifier: Apache-2.0
 * A table of series by subject, type, reason and action. The first occurrence is written at once;
 * later ones only raise the count, which is written after ten seconds, then after ever longer
 * pauses. The name of the API object is chosen when the series begins, so a create whose outcome
 * is unknown can be repeated: it exists then. */
#include "control/runtime/event.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/rand.h"
#include "base/redact.h"
#include "base/thread.h"
#include "base/time.h"
#include "kube/config.h"

enum { SHOWN_MAX = 64 * 1024, ATTEMPTS_MAX = 4, KEY_MAX = 2048, FLUSH_MS = 1000 };

struct series {
    const struct kube_kind *kind, *related_kind;
    char *ns, *name, *uid, *related, *type, *reason, *action, *note;
    char *object; /* metadata.name of the Event */
    int64_t first_us, last_us;
    uint64_t count, written; /* occurrences; how many of them the API knows */
    int64_t due_ms, pause_ms, touched_ms;
    int attempts;
};

struct bucket { /* of one subject */
    int left;
    int64_t refilled_ms;
};

struct events {
    struct events_options o;
    struct kube_client *client;
    struct ctx ctx;
    struct thread thread;
    struct cancel stop;
    struct metric *written, *dropped;

    pthread_mutex_t lock; /* guards: everything below */
    pthread_cond_t changed;
    struct map series, buckets;
    bool stopping, ended;
};

static int64_t now_ms(const struct events *ev)
{
    return clock_boot_ms(ev->o.clock);
}

static void series_free(struct series *s)
{
    if (!s)
        return;
    free(s->ns);
    free(s->name);
    free(s->uid);
    free(s->related);
    free(s->type);
    free(s->reason);
    free(s->action);
    free(s->note);
    free(s->object);
    free(s);
}

/* --- Emitting --- */

static void refill(struct bucket *b, int64_t at_ms)
{
    const int64_t earned = (at_ms - b->refilled_ms) / EVENT_REFILL_MS;
    b->left = b->left + earned > EVENT_BURST ? EVENT_BURST : b->left + (int)earned;
    b->refilled_ms += earned * EVENT_REFILL_MS;
}

/* Subjects that were quiet for long count as new. */
static void forget_full_buckets(struct events *ev, int64_t at_ms)
{
    struct str key;
    void *at = NULL;
    for (size_t i = 0; map_next(&ev->buckets, &i, &key, &at);) {
        struct bucket *b = at;
        refill(b, at_ms);
        if (b->left < EVENT_BURST)
            continue;
        auto_free char *gone = str_dup(key);
        free(map_del(&ev->buckets, (struct str){gone, key.n}));
        i = 0; /* the map moved its slots */
    }
}

/* The lock is held. */
static bool may_begin(struct events *ev, const char *subject)
{
    const int64_t at_ms = now_ms(ev);
    struct bucket *b = map_get(&ev->buckets, str_c(subject));
    if (!b && ev->buckets.n >= EVENT_KEYS_MAX)
        forget_full_buckets(ev, at_ms);
    if (!b && ev->buckets.n >= EVENT_KEYS_MAX)
        return false;
    if (!b) {
        b = xcalloc(1, sizeof(*b));
        *b = (struct bucket){.left = EVENT_BURST, .refilled_ms = at_ms};
        map_put(&ev->buckets, str_c(subject), b);
    }
    refill(b, at_ms);
    if (b->left == 0)
        return false;
    b->left--;
    return true;
}

static char *clean_note(const char *note)
{
    auto_buf struct buf shown = BUF_INIT(SHOWN_MAX);
    (void)redact_text(&shown, str_c(note)); /* cut at its ceiling at worst */
    struct str s = str_first(buf_str(&shown), EVENT_NOTE_MAX);
    while (s.n > 0 && s.n < shown.n && utf8_is_continuation(shown.p[s.n]))
        s.n--;
    return str_dup(s);
}

/* The lock is held. */
static struct series *begin_series(struct events *ev, const struct event_subject *about,
                                   const char *type, const char *reason, const char *action,
                                   const char *note)
{
    struct series *s = xcalloc(1, sizeof(*s));
    s->kind = about->kind;
    s->ns = xstrdup(about->ns ? about->ns : "");
    s->name = xstrdup(about->name);
    s->uid = xstrdup(about->uid ? about->uid : "");
    s->related_kind = about->related_kind;
    s->related = xstrdup(about->related ? about->related : "");
    s->type = xstrdup(type);
    s->reason = xstrdup(reason);
    s->action = xstrdup(action);
    s->note = clean_note(note);
    s->object = xasprintf("%.200s.%016" PRIx64, about->name, rand_u64());
    s->first_us = clock_wall_us(ev->o.clock);
    s->due_ms = now_ms(ev);
    s->pause_ms = EVENT_AGAIN_MS;
    return s;
}

static void emit(struct events *ev, const struct event_subject *about, const char *type,
                 const char *reason, const char *action, const char *note)
{
    auto_buf struct buf key = BUF_INIT(KEY_MAX);
    buf_addf(&key, "%s|%s|%s|%s|%s|%s|%s|%s", about->kind->plural, about->ns ? about->ns : "",
             about->name, about->uid ? about->uid : "", about->related ? about->related : "", type,
             reason, action);
    bool dropped = key.over;
    if (!dropped) {
        MUTEX_HOLD(&ev->lock);
        struct series *s = map_get(&ev->series, buf_str(&key));
        if (!s && ev->series.n < EVENT_KEYS_MAX &&
            may_begin(ev, about->uid ? about->uid : about->name)) {
            s = begin_series(ev, about, type, reason, action, note);
            map_put(&ev->series, buf_str(&key), s);
        }
        dropped = !s;
        if (s) {
            if (s->written > 0 && s->written == s->count)
                s->due_ms = now_ms(ev) + s->pause_ms;
            s->count++;
            s->last_us = clock_wall_us(ev->o.clock);
            s->touched_ms = now_ms(ev);
            (void)pthread_cond_signal(&ev->changed); /* never fails */
        }
    }
    if (dropped && ev->dropped)
        metric_add(ev->dropped, 1);
}

void event_normal(struct events *ev, const struct event_subject *about, const char *reason,
                  const char *action, const char *note)
{
    emit(ev, about, "Normal", reason, action, note);
}

void event_warning(struct events *ev, const struct event_subject *about, const char *reason,
                   const char *action, const char *note)
{
    emit(ev, about, "Warning", reason, action, note);
}

/* --- Writing --- */

static json_t *micro_time(int64_t at_us)
{
    char text[TIME_TEXT_MAX];
    return js(time_print(at_us, TIME_MICROS, text));
}

static json_t *series_json(const struct series *s)
{
    return JOBJ(J("count", ji((int64_t)s->count)), J("lastObservedTime", micro_time(s->last_us)));
}

static const char *home(const struct series *s)
{
    return s->ns[0] != '\0' ? s->ns : "default"; /* of what has no namespace */
}

static json_t *related_json(const struct series *s)
{
    auto_free char *version = kube_api_version(s->related_kind);
    return JOBJ(J("apiVersion", js(version)), J("kind", js(s->related_kind->kind)),
                J_IF(s->ns[0] != '\0', "namespace", js(s->ns)), J("name", js(s->related)));
}

static json_t *event_json(const struct events *ev, const struct series *s)
{
    auto_free char *version = kube_api_version(s->kind);
    return JOBJ(
        J("apiVersion", js("events.k8s.io/v1")), J("kind", js("Event")),
        J("metadata", JOBJ(J("name", js(s->object)), J("namespace", js(home(s))))),
        J("eventTime", micro_time(s->first_us)), J("type", js(s->type)), J("reason", js(s->reason)),
        J("action", js(s->action)), J("note", js(s->note)),
        J("reportingController", js(ev->o.controller)), J("reportingInstance", js(ev->o.instance)),
        J_IF(s->count > 1, "series", series_json(s)),
        J_IF(s->related_kind, "related", related_json(s)),
        J("regarding", JOBJ(J("apiVersion", js(version)), J("kind", js(s->kind->kind)),
                            J_IF(s->ns[0] != '\0', "namespace", js(s->ns)), J("name", js(s->name)),
                            J_IF(s->uid[0] != '\0', "uid", js(s->uid)))));
}

/* What is to be sent, taken under the lock and sent without it. */
struct letter {
    char *key;
    char *ns, *object;
    bool create;
    json_t *body;
    uint64_t count;
};

static void letter_done(struct letter *l)
{
    free(l->key);
    free(l->ns);
    free(l->object);
    json_decref(l->body);
}

/* The lock is held. Also forgets series that are over. False: nothing is due; *next_ms says when.
 */
static bool next_letter(struct events *ev, struct letter *out, int64_t *next_ms)
{
    const int64_t at_ms = now_ms(ev);
    struct str key;
    void *at = NULL;
    *next_ms = EVENT_FORGET_MS;
    for (size_t i = 0; map_next(&ev->series, &i, &key, &at);) {
        struct series *s = at;
        if (s->written == s->count) {
            if (at_ms - s->touched_ms < EVENT_FORGET_MS)
                continue;
            auto_free char *gone = str_dup(key);
            (void)map_del(&ev->series, (struct str){gone, key.n});
            series_free(s);
            i = 0; /* the map moved its slots */
            continue;
        }
        const int64_t left_ms = ev->stopping && s->attempts == 0 ? 0 : s->due_ms - at_ms;
        if (left_ms > 0) {
            *next_ms = left_ms < *next_ms ? left_ms : *next_ms;
            continue;
        }
        *out = (struct letter){.key = str_dup(key),
                               .ns = xstrdup(home(s)),
                               .object = xstrdup(s->object),
                               .create = s->written == 0,
                               .count = s->count};
        out->body = out->create ? event_json(ev, s) : JOBJ(J("series", series_json(s)));
        return true;
    }
    return false;
}

static int send_letter(struct events *ev, const struct letter *l, struct err *e)
{
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
    if (l->create) {
        if (kube_create(&ev->ctx, ev->client, &kube_events, l->ns, l->body, NULL, e) == 0 ||
            e->code == ERR_EXISTS)
            return 0;
        return -1;
    }
    return kube_patch(&ev->ctx, ev->client, &kube_events, l->ns, l->object, &how, l->body, NULL, e);
}

/* The lock is held. */
static void sent(struct events *ev, const struct letter *l, const struct err *failed)
{
    struct series *s = map_get(&ev->series, str_c(l->key));
    if (!s)
        return;
    if (!failed) {
        s->attempts = 0;
        s->written = l->count;
        s->due_ms = now_ms(ev) + s->pause_ms;
        s->pause_ms = s->pause_ms * 2 < EVENT_AGAIN_MAX_MS ? s->pause_ms * 2 : EVENT_AGAIN_MAX_MS;
        return;
    }
    if (failed->code == ERR_NOT_FOUND && !l->create) { /* it lived for an hour: begin a new one */
        s->written = 0;
        s->count -= l->count - 1;
        free(s->object);
        s->object = xasprintf("%.200s.%016" PRIx64, s->name, rand_u64());
        return;
    }
    if (++s->attempts >= ATTEMPTS_MAX || !err_transient(failed)) {
        s->written = s->count; /* given up: an event is not worth more */
        return;
    }
    const int64_t wait_ms = (int64_t)1000 << s->attempts;
    s->due_ms = now_ms(ev) + (wait_ms > failed->retry_after_ms ? wait_ms : failed->retry_after_ms);
}

static void write_all(struct events *ev)
{
    for (;;) {
        AUTO(letter_done) struct letter l = {0};
        {
            MUTEX_HOLD(&ev->lock);
            int64_t next_ms = 0;
            while (!next_letter(ev, &l, &next_ms)) {
                if (ev->stopping)
                    return;
                cond_wait_ms(&ev->changed, &ev->lock, next_ms);
            }
        }
        struct err e = {0};
        const bool good = send_letter(ev, &l, &e) == 0;
        if (!good)
            log_debug(ev->ctx.log, "event not written", KV("event", l.object), KV_ERR(&e));
        if (ev->written)
            metric_add(ev->written, 1, good ? "ok" : err_code_name(e.code));
        MUTEX_HOLD(&ev->lock);
        sent(ev, &l, good ? NULL : &e);
        if (ev->stopping && ctx_canceled(&ev->ctx))
            return;
    }
}

static void run(void *arg)
{
    struct events *ev = arg;
    write_all(ev);
    MUTEX_HOLD(&ev->lock);
    ev->ended = true;
    (void)pthread_cond_broadcast(&ev->changed);
}

/* --- The outside --- */

struct events *events_new(const struct events_options *o)
{
    struct events *ev = xcalloc(1, sizeof(*ev));
    ev->o = *o;
    ev->stop.fd = -1;
    (void)pthread_mutex_init(&ev->lock, NULL); /* cannot fail without attributes */
    cond_init(&ev->changed);
    if (o->metrics) {
        ev->written = metric_register(o->metrics,
                                      &(struct metric_desc){.name = "raftsman_events_written_total",
                                                            .help = "Writes of events to the API.",
                                                            .type = METRIC_COUNTER,
                                                            .labels = {"result"}});
        ev->dropped = metric_register(
            o->metrics, &(struct metric_desc){.name = "raftsman_events_dropped_total",
                                              .help = "Occurrences over the limits of an object.",
                                              .type = METRIC_COUNTER});
    }
    return ev;
}

int events_start(const struct ctx *ctx, struct events *ev, struct err *e)
{
    if (cancel_init(&ev->stop, e) < 0)
        return -1;
    ev->ctx = ctx_with_cancel(ctx, &ev->stop);
    if (kube_client_new(ctx, ev->o.config, &ev->client, e) < 0)
        return -1;
    kube_client_guard(ev->client, ev->o.guard);
    kube_client_limit(ev->client, ev->o.call_ms);
    return thread_start(&ev->thread, "events", run, ev, e);
}

void events_stop(struct events *ev)
{
    if (!ev->thread.started)
        return;
    {
        MUTEX_HOLD(&ev->lock);
        ev->stopping = true;
        (void)pthread_cond_broadcast(&ev->changed);
        const int64_t until_ms = clock_boot_ms(&clock_real) + FLUSH_MS;
        for (int64_t left_ms; !ev->ended && (left_ms = until_ms - clock_boot_ms(&clock_real)) > 0;)
            cond_wait_ms(&ev->changed, &ev->lock, left_ms);
    }
    cancel_fire(&ev->stop);
    thread_join(&ev->thread);
}

void events_free(struct events *ev)
{
    if (!ev)
        return;
    kube_client_free(ev->client);
    void *at = NULL;
    for (size_t i = 0; map_next(&ev->series, &i, NULL, &at);)
        series_free(at);
    for (size_t i = 0; map_next(&ev->buckets, &i, NULL, &at);)
        free(at);
    map_done(&ev->series);
    map_done(&ev->buckets);
    cancel_done(&ev->stop);
    (void)pthread_cond_destroy(&ev->changed);
    (void)pthread_mutex_destroy(&ev->lock);
    free(ev);
}
