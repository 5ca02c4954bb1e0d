/* SPDX-License-Identifier: Apache-2.0
 * One state machine per source, all driven by one loop. A source is either waiting for its next
 * attempt or has one stream open; the stream is a page of a list or a watch, and a watch may
 * begin with the whole state.
 *
 *     version ""  ── open: watch with initial events ──► … bookmark "initial events end" ──► live
 *                 ── or: pages of a list ──► last page ──► version ── open: watch ──► live
 *     live: cut, silent, 5xx ──► wait ──► open: watch from version · 410 ──► version ""
 *
 * The resume point moves with every event of a live stream, including those of objects that
 * cannot be read: these go to quarantine, and the others flow on. Text that is no JSON at all was
 * garbled on its way: the stream is dropped and resumed before it, and after a few times in a row
 * the source begins again. */
#include "control/runtime/watch.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/rand.h"
#include "base/thread.h"
#include "kube/client.h"
#include "kube/prune.h"
#include "kube/split.h"
#include "kube/status.h"

enum {
    QUERY_MAX = 64 * 1024,
    STABLE_MS = 1000,
    FAILURES_MAX = 10,
    PUBLISH_MS = 1000,
    GATHER_MS = 10, /* after some events, for more to come … */
    GATHER_BUSY_MS = 50,
    BUSY_EVENTS = 50, /* … longer when so many came per second */
    REST_MS = 10000,
};

enum phase { PHASE_PAGES, PHASE_INITIAL, PHASE_LIVE };

struct source {
    struct watcher *w;
    struct watch_source what;
    char *ns, *labels, *fields;
    unsigned int index; /* among the sources of its set */

    /* The watch thread's alone. */
    struct kube_stream *stream;
    struct split split;
    struct prune event_prune, item_prune;
    struct buf pruned;
    enum phase phase;
    char version[24]; /* where to resume; "": begin again */
    char *token;      /* of the next page */
    bool cannot_stream;
    unsigned int failures, corrupt;
    int64_t n_events; /* not yet in the metric */
    int64_t next_ms;  /* of the next attempt */
    int64_t opened_ms;
    bool complained; /* the present outage was logged */

    atomic_bool synced, open;
    _Atomic int64_t touched_ms; /* the last byte of a live stream */
};

struct watcher {
    struct watcher_options o;
    struct intern *strings;
    VEC(struct source *) sources;
    struct metric *events, *restarts, *quarantined, *views;
    struct kube_client *client;
    struct ctx ctx;
    struct thread thread;
    int64_t published_ms; /* the watch thread's, like the next */
    bool received, unpublished, busy;
};

static const char *plural(const struct source *s)
{
    return s->what.kind->kube->plural;
}

/* --- Changes --- */

static void tell(struct source *s, struct view_change *c)
{
    const struct view *before = c->before, *now = c->now;
    const bool same = before && now && s->what.kind->same && s->what.kind->same(before, now) &&
                      before->owner == now->owner && memcmp(before->uid, now->uid, 16) == 0;
    if ((before || now) && !same && s->w->o.changed)
        s->w->o.changed(s->w->o.arg, before, now);
    view_change_done(c);
}

static void remove_one(struct source *s, const char *ns, const char *name)
{
    struct view_change c = {0};
    view_del(s->what.set, ns, name, &c);
    tell(s, &c);
}

static void quarantine(struct source *s, const char *ns, const char *name, const struct err *why)
{
    log_error(s->w->ctx.log, "object cannot be read and is left alone", KV("kind", plural(s)),
              KV("namespace", ns), KV("name", name), KV_ERR(why));
    struct view_change c = {0};
    view_quarantine(s->what.set, s->index, ns, name, why->text, &c);
    tell(s, &c);
}

/* The object was parsed: view it or, if that is impossible, quarantine it. */
static void take_object(struct source *s, const json_t *object)
{
    struct err why = {0};
    struct view *v = NULL;
    if (view_make(s->what.kind, object, s->w->strings, &v, &why) < 0) {
        quarantine(s, jstr(object, "metadata.namespace", ""), jstr(object, "metadata.name", ""),
                   &why);
        return;
    }
    struct view_change c = {0};
    view_put(s->what.set, s->index, v, &c);
    tell(s, &c);
}

static void set_version(struct source *s, const char *version)
{
    if (s->phase != PHASE_LIVE || strlen(version) >= sizeof(s->version) || version[0] == '\0')
        return;
    memcpy(s->version, version, strlen(version) + 1);
    s->corrupt = 0;
    s->failures = 0; /* progress: the server works, if not for long */
}

static void end_sync(struct source *s, const char *version)
{
    struct view_change c = {0};
    while (view_sweep(s->what.set, s->index, &c))
        tell(s, &c);
    atomic_store(&s->open, s->phase == PHASE_INITIAL);
    s->phase = PHASE_LIVE;
    set_version(s, version);
    atomic_store(&s->synced, true);
}

/* --- Events --- */

static int take_event(struct source *s, const json_t *event, struct err *e)
{
    const char *type = jstr(event, "type", "");
    const json_t *object = jget(event, "object");
    const char *version = jstr(object, "metadata.resourceVersion", "");
    if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
        take_object(s, object);
    } else if (strcmp(type, "DELETED") == 0) {
        remove_one(s, jstr(object, "metadata.namespace", ""), jstr(object, "metadata.name", ""));
    } else if (strcmp(type, "BOOKMARK") == 0) {
        const char *ended = jannotation(object, "k8s.io/initial-events-end");
        if (s->phase == PHASE_INITIAL && ended && strcmp(ended, "true") == 0)
            end_sync(s, version);
    } else if (strcmp(type, "ERROR") == 0) {
        return kube_status_event(object, e);
    } else {
        return err_set(e, ERR_CORRUPT, 0, "an event of the unknown type \"%s\"", type);
    }
    set_version(s, version);
    return 0;
}

/* The event could not be parsed, but says who it is about. */
static void take_poison(struct source *s, const struct split_id *id, const struct err *why)
{
    if (strcmp(id->type, "DELETED") == 0)
        remove_one(s, id->ns, id->name);
    else
        quarantine(s, id->ns, id->name, why);
    set_version(s, id->version);
}

/* A text of the stream is not to be had as JSON: poison, or noise. */
static int take_unreadable(struct source *s, enum split_mode mode, const struct split_item *item,
                           struct err *e)
{
    struct split_id found;
    const struct split_id *id = item->id;
    bool known = item->salvaged;
    if (item->too_big) {
        err_set(e, ERR_TOO_BIG, 0, "larger than %d bytes", WATCH_EVENT_MAX);
    } else {
        known = split_salvage(mode, item->text, &found);
        id = &found;
    }
    if (!known) {
        e->code = ERR_CORRUPT;
        return -1;
    }
    take_poison(s, id, e);
    return 0;
}

/* A text that does not look like an object is parsed as it is, for its error. */
static int parse(struct source *s, const struct prune *prune, struct str text, json_t **out,
                 struct err *e)
{
    buf_reset(&s->pruned);
    return jparse(prune_text(prune, text, &s->pruned) ? buf_str(&s->pruned) : text, out, e);
}

static int on_event(void *arg, const struct split_item *item, struct err *e)
{
    struct source *s = arg;
    json_auto_t *event = NULL;
    s->n_events++;
    if (item->too_big || parse(s, &s->event_prune, item->text, &event, e) < 0)
        return take_unreadable(s, SPLIT_WATCH, item, e);
    return take_event(s, event, e);
}

static int on_item(void *arg, const struct split_item *item, struct err *e)
{
    struct source *s = arg;
    json_auto_t *object = NULL;
    if (item->too_big || parse(s, &s->item_prune, item->text, &object, e) < 0)
        return take_unreadable(s, SPLIT_LIST, item, e);
    take_object(s, object);
    return 0;
}

static void on_open(void *arg)
{
    struct source *s = arg;
    atomic_store(&s->touched_ms, clock_boot_ms(s->w->ctx.clock));
    atomic_store(&s->open, s->phase == PHASE_LIVE);
}

static int on_data(void *arg, struct str piece, struct err *e)
{
    struct source *s = arg;
    atomic_store(&s->touched_ms, clock_boot_ms(s->w->ctx.clock));
    s->w->received = s->w->unpublished = true;
    return split_feed(&s->split, piece, s->phase == PHASE_PAGES ? on_item : on_event, s, e);
}

/* --- The end of a stream, and what follows --- */

static void wait_before_next(struct source *s, uint32_t at_least_ms)
{
    int64_t step_ms = (int64_t)WATCH_RETRY_MS << s->failures;
    if (step_ms > WATCH_RETRY_MAX_MS)
        step_ms = WATCH_RETRY_MAX_MS;
    int64_t wait_ms = step_ms / 2 + (int64_t)(rand_u64() % (uint64_t)(step_ms / 2 + 1));
    if (wait_ms < at_least_ms)
        wait_ms = at_least_ms;
    if (s->failures < FAILURES_MAX)
        s->failures++;
    s->next_ms = clock_boot_ms(s->w->ctx.clock) + wait_ms;
}

/* Once per outage; a missing right stays missing, so it is said once and not every time. */
static void complain(struct source *s, const struct err *why)
{
    if (s->complained) {
        log_debug(s->w->ctx.log, "watch still interrupted", KV("kind", plural(s)), KV_ERR(why));
        return;
    }
    s->complained = true;
    if (why->code == ERR_DENIED)
        log_error(s->w->ctx.log, "watch is not allowed; retrying", KV("kind", plural(s)),
                  KV_ERR(why));
    else
        log_warn(s->w->ctx.log, "watch interrupted; retrying", KV("kind", plural(s)), KV_ERR(why));
}

static void begin_again(struct source *s)
{
    s->version[0] = '\0';
    free(TAKE(s->token));
    s->corrupt = 0;
}

static void failed(struct source *s, const struct err *why)
{
    if (s->w->restarts)
        metric_add(s->w->restarts, 1, plural(s), err_code_name(why->code));
    if (why->code == ERR_INVALID && s->phase == PHASE_INITIAL && !s->cannot_stream) {
        s->cannot_stream = true; /* an older server: it takes pages */
        s->next_ms = clock_boot_ms(s->w->ctx.clock);
        return;
    }
    s->corrupt += why->code == ERR_CORRUPT;
    if (why->code == ERR_EXPIRED || s->corrupt >= WATCH_CORRUPT_MAX ||
        /* The server was restored from a backup. */
        (why->origin == 504 && strstr(why->text, "Too large resource version")))
        begin_again(s);
    if (s->phase == PHASE_PAGES)
        free(TAKE(s->token)); /* half a list is no list */
    /* A server that moves on is no outage worth a line, one that keeps failing is. */
    if (why->code != ERR_EXPIRED)
        complain(s, why);
    wait_before_next(s, why->retry_after_ms);
}

static void page_ended(struct source *s)
{
    s->token = TAKE(s->split.token);
    s->next_ms = clock_boot_ms(s->w->ctx.clock);
    if (!s->token)
        end_sync(s, s->split.version);
}

/* A stream that has been open for a moment is good: the outage, if there was one, is over. */
static void settle(struct source *s, int64_t now_ms)
{
    if (!atomic_load(&s->open) || now_ms - s->opened_ms < STABLE_MS)
        return;
    s->failures = 0;
    s->complained = false;
}

static void on_end(void *arg, const struct err *why)
{
    struct source *s = arg;
    struct err e = *why;
    const int64_t now_ms = clock_boot_ms(s->w->ctx.clock);
    settle(s, now_ms);
    s->stream = NULL;
    atomic_store(&s->open, false);
    if (e.code == ERR_NONE && split_end(&s->split, &e) == 0 && s->phase == PHASE_PAGES) {
        page_ended(s);
    } else if (e.code != ERR_NONE) {
        failed(s, &e);
    } else if (s->phase == PHASE_LIVE && now_ms - s->opened_ms >= STABLE_MS) {
        s->next_ms = now_ms; /* servers end watches after some minutes: go on where it stopped */
    } else {
        wait_before_next(s, 0);
    }
    split_done(&s->split);
}

/* --- Opening --- */

static void query_of(struct source *s, struct buf *q)
{
    char number[24];
    kube_query_add(q, "labelSelector", s->labels);
    kube_query_add(q, "fieldSelector", s->fields);
    if (s->phase == PHASE_PAGES) {
        (void)snprintf(number, sizeof(number), "%d", KUBE_PAGE);
        kube_query_add(q, "limit", number);
        kube_query_add(q, "continue", s->token);
        return;
    }
    /* Spread, so that the watches of a fleet do not end together. */
    (void)snprintf(number, sizeof(number), "%" PRIu64, 300 + rand_u64() % 300);
    kube_query_add(q, "watch", "true");
    kube_query_add(q, "allowWatchBookmarks", "true");
    kube_query_add(q, "timeoutSeconds", number);
    if (s->phase == PHASE_INITIAL) {
        kube_query_add(q, "sendInitialEvents", "true");
        kube_query_add(q, "resourceVersionMatch", "NotOlderThan");
    } else {
        kube_query_add(q, "resourceVersion", s->version);
    }
}

static void open_stream(struct source *s)
{
    struct watcher *w = s->w;
    const bool fresh = s->version[0] == '\0';
    s->phase = !fresh ? PHASE_LIVE : s->cannot_stream ? PHASE_PAGES : PHASE_INITIAL;
    if (fresh && !s->token)
        view_sync_begin(s->what.set, s->index);
    auto_buf struct buf query = BUF_INIT(QUERY_MAX);
    query_of(s, &query);
    free(TAKE(s->token));
    buf_done(&s->pruned); /* one large object must not cost us its size for ever */
    s->pruned = BUF_INIT(WATCH_EVENT_MAX + 64);
    split_init(&s->split, s->phase == PHASE_PAGES ? SPLIT_LIST : SPLIT_WATCH, WATCH_EVENT_MAX);
    const struct kube_stream_request req = {
        .kind = s->what.kind->kube,
        .ns = s->ns,
        .query = buf_cstr(&query),
        .watch = s->phase != PHASE_PAGES,
        .idle_ms = w->o.idle_ms,
        .on_open = on_open,
        .on_data = on_data,
        .on_end = on_end,
        .arg = s,
    };
    struct err e = {0};
    s->opened_ms = clock_boot_ms(w->ctx.clock);
    if (kube_stream_open(&w->ctx, w->client, &req, &s->stream, &e) < 0) {
        split_done(&s->split);
        failed(s, &e);
    }
}

static void publish_source(const struct watcher *w, const struct source *s)
{
    if (!w->views)
        return;
    metric_add(w->events, (double)s->n_events, plural(s));
    metric_set(w->views, (double)view_count(s->what.set), plural(s));
    metric_set(w->quarantined, (double)view_quarantined(s->what.set, NULL, NULL), plural(s));
}

static void publish(struct watcher *w, int64_t now_ms)
{
    const int64_t since_ms = now_ms - w->published_ms;
    int64_t n = 0;
    if (since_ms < PUBLISH_MS)
        return;
    w->published_ms = now_ms;
    w->unpublished = false;
    for (size_t i = 0; i < w->sources.n; i++) {
        struct source *s = w->sources.v[i];
        publish_source(w, s);
        n += s->n_events;
        s->n_events = 0;
    }
    w->busy = n * 1000 >= BUSY_EVENTS * since_ms;
}

static void run(void *arg)
{
    struct watcher *w = arg;
    struct err e = {0};
    while (!ctx_canceled(&w->ctx)) {
        const int64_t now_ms = clock_boot_ms(w->ctx.clock);
        int64_t wait_ms = REST_MS;
        for (size_t i = 0; i < w->sources.n; i++) {
            struct source *s = w->sources.v[i];
            if (!s->stream && s->next_ms <= now_ms)
                open_stream(s);
            settle(s, now_ms);
            int64_t until_ms = wait_ms;
            if (!s->stream)
                until_ms = s->next_ms - now_ms;
            else if (s->phase == PHASE_LIVE && now_ms - s->opened_ms < STABLE_MS)
                until_ms = s->opened_ms + STABLE_MS - now_ms;
            if (until_ms < wait_ms)
                wait_ms = until_ms > 0 ? until_ms : 0;
        }
        publish(w, now_ms);
        if (w->unpublished && w->published_ms + PUBLISH_MS - now_ms < wait_ms)
            wait_ms = w->published_ms + PUBLISH_MS - now_ms;
        w->received = false;
        if (kube_run(&w->ctx, w->client, wait_ms, &e) < 0 && e.code == ERR_IO)
            log_error(w->ctx.log, "watch loop", KV_ERR(&e));
        /* Events come in bursts, and waking up costs more than reading one of them. */
        if (w->received && watcher_synced(w))
            (void)!ctx_sleep(&w->ctx, w->busy ? GATHER_BUSY_MS : GATHER_MS, &e);
    }
    for (size_t i = 0; i < w->sources.n; i++) {
        struct source *s = w->sources.v[i];
        if (s->stream)
            split_done(&s->split);
        kube_stream_close(TAKE(s->stream));
        free(TAKE(s->token));
    }
}

/* --- The outside --- */

struct watcher *watcher_new(const struct watcher_options *o)
{
    struct watcher *w = xcalloc(1, sizeof(*w));
    w->o = *o;
    if (w->o.idle_ms == 0)
        w->o.idle_ms = WATCH_IDLE_MS;
    w->strings = intern_new();
    if (!o->metrics)
        return w;
    w->events =
        metric_register(o->metrics, &(struct metric_desc){.name = "raftsman_watch_events_total",
                                                          .help = "Events received.",
                                                          .type = METRIC_COUNTER,
                                                          .labels = {"kind"}});
    w->restarts = metric_register(
        o->metrics, &(struct metric_desc){.name = "raftsman_watch_failures_total",
                                          .help = "Watches and lists that ended with a failure.",
                                          .type = METRIC_COUNTER,
                                          .labels = {"kind", "code"}});
    w->views = metric_register(o->metrics, &(struct metric_desc){.name = "raftsman_views",
                                                                 .help = "Views held.",
                                                                 .type = METRIC_GAUGE,
                                                                 .labels = {"kind"}});
    w->quarantined = metric_register(
        o->metrics, &(struct metric_desc){.name = "raftsman_quarantined_objects",
                                          .help = "Objects that cannot be read and are left alone.",
                                          .type = METRIC_GAUGE,
                                          .labels = {"kind"}});
    return w;
}

static void set_prune(struct prune *p, const char *under, const struct view_kind *kind)
{
    prune_add(p, under, "metadata.managedFields");
    for (const char *const *path = kind->unread; path && *path; path++)
        prune_add(p, under, *path);
}

void watcher_add(struct watcher *w, const struct watch_source *what)
{
    struct source *s = xcalloc(1, sizeof(*s));
    s->w = w;
    s->what = *what;
    s->ns = what->ns ? xstrdup(what->ns) : NULL;
    s->labels = what->labels ? xstrdup(what->labels) : NULL;
    s->fields = what->fields ? xstrdup(what->fields) : NULL;
    s->cannot_stream = w->o.paged;
    s->pruned = BUF_INIT(WATCH_EVENT_MAX + 64);
    set_prune(&s->event_prune, "object", what->kind);
    set_prune(&s->item_prune, "", what->kind);
    for (size_t i = 0; i < w->sources.n; i++)
        s->index += w->sources.v[i]->what.set == what->set;
    vec_push(&w->sources, s);
}

int watcher_start(const struct ctx *ctx, struct watcher *w, struct err *e)
{
    w->ctx = *ctx;
    if (kube_client_new(ctx, w->o.config, &w->client, e) < 0)
        return -1;
    return thread_start(&w->thread, "watch", run, w, e);
}

void watcher_join(struct watcher *w)
{
    thread_join(&w->thread);
}

void watcher_free(struct watcher *w)
{
    if (!w)
        return;
    kube_client_free(w->client);
    for (size_t i = 0; i < w->sources.n; i++) {
        struct source *s = w->sources.v[i];
        free(s->ns);
        free(s->labels);
        free(s->fields);
        buf_done(&s->pruned);
        free(s);
    }
    vec_done(&w->sources);
    intern_free(w->strings);
    free(w);
}

bool watcher_synced(struct watcher *w)
{
    for (size_t i = 0; i < w->sources.n; i++)
        if (!atomic_load(&w->sources.v[i]->synced))
            return false;
    return true;
}

int64_t watcher_age_ms(struct watcher *w)
{
    int64_t oldest_ms = 0;
    const int64_t now_ms = clock_boot_ms(&clock_real);
    for (size_t i = 0; i < w->sources.n; i++) {
        struct source *s = w->sources.v[i];
        const int64_t age_ms = now_ms - atomic_load(&s->touched_ms);
        if (!atomic_load(&s->open) && age_ms > oldest_ms)
            oldest_ms = age_ms;
    }
    return oldest_ms;
}

struct intern *watcher_strings(struct watcher *w)
{
    return w->strings;
}
