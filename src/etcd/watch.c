/* SPDX-License-Identifier: Apache-2.0
 * Fragments are always asked for: what a watch missed could otherwise come as one message of any
 * size. Watches are created one after the other, because the refusal of a create does not say
 * which one it means. */
#include "etcd/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/mem.h"
#include "base/vec.h"
#include "etcd/client_internal.h"
#include "etcd/errors.h"
#include "etcd/kv_internal.h"
#include "etcd/watch_internal.h"
#include "etcd/watch_position.h"
#include "net/grpc.h"

enum { BACKOFF_MIN_MS = 50, BACKOFF_MAX_MS = 2000, REQUEST_MAX = 4 << 20 };

static const struct etcd_rpc rpc_watch = {
    .path = "/etcdserverpb.Watch/Watch",
    .response = &pb__watch_response__descriptor,
    .leader = true,
};

struct watch {
    int64_t id;
    struct etcd_watch o; /* key and end are owned */
    struct watch_position position;
    bool announced; /* its creation was reported */
    bool on_stream; /* the server confirmed it on the present stream */
};

struct etcd_watcher {
    struct etcd_client *client;
    struct grpc_call *call; /* NULL: no stream */
    size_t at;
    VEC(struct watch *) watches;
    int64_t last_id;
    int64_t creating; /* the watch whose confirmation we wait for; 0: none */
    bool renewed;     /* a new token was fetched since anything went well */
    int64_t backoff_ms;
    struct err trouble;      /* since the server answered last; ERR_NONE: none */
    struct etcd_reply reply; /* what the last batch points into */
};

struct etcd_watcher *etcd_watcher_new(struct etcd_client *c)
{
    struct etcd_watcher *w = xcalloc(1, sizeof(*w));
    w->client = c;
    return w;
}

static void watch_free(struct watch *x)
{
    free((char *)x->o.key.p);
    free((char *)x->o.end.p);
    free(x);
}

void etcd_watcher_free(struct etcd_watcher *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->watches.n; i++)
        watch_free(w->watches.v[i]);
    vec_done(&w->watches);
    etcd_reply_done(&w->reply);
    grpc_call_free(w->call);
    free(w);
}

static struct str copy(struct str s)
{
    char *p = xmalloc(s.n + 1);
    if (s.n > 0)
        memcpy(p, s.p, s.n);
    return (struct str){p, s.n};
}

int64_t etcd_watch_add(struct etcd_watcher *w, const struct etcd_watch *o)
{
    struct watch *x = xcalloc(1, sizeof(*x));
    *x = (struct watch){.id = ++w->last_id, .o = *o, .position.next = o->start_revision};
    x->o.key = copy(o->key);
    x->o.end = copy(o->end);
    vec_push(&w->watches, x);
    return x->id;
}

static struct watch *find(const struct etcd_watcher *w, int64_t id)
{
    for (size_t i = 0; i < w->watches.n; i++)
        if (w->watches.v[i]->id == id)
            return w->watches.v[i];
    return NULL;
}

static void forget(struct etcd_watcher *w, struct watch *x)
{
    for (size_t i = 0; i < w->watches.n; i++) {
        if (w->watches.v[i] != x)
            continue;
        w->watches.v[i] = w->watches.v[--w->watches.n];
        watch_free(x);
        return;
    }
}

/* --- Sending */

static int send_request(struct etcd_watcher *w, const Pb__WatchRequest *m, struct err *e)
{
    auto_buf struct buf bytes = BUF_INIT(REQUEST_MAX);
    if (message_pack(m, &bytes, e) < 0)
        return -1;
    return grpc_call_send(w->call, buf_str(&bytes), false, e);
}

static int send_create(struct etcd_watcher *w, struct watch *x, struct err *e)
{
    enum { NO_PUT, NO_DELETE };
    int32_t filters[2];
    Pb__WatchCreate create = PB__WATCH_CREATE__INIT;
    create.filters = filters;
    if (x->o.no_put)
        filters[create.n_filters++] = NO_PUT;
    if (x->o.no_delete)
        filters[create.n_filters++] = NO_DELETE;
    create.key = bytes_of_str(x->o.key);
    create.range_end = bytes_of_str(x->o.end);
    create.start_revision = x->position.next;
    create.prev_kv = x->o.prev_kv;
    create.progress_notify = x->o.progress;
    create.watch_id = x->id;
    create.fragment = true;
    watch_position_resume(&x->position);
    Pb__WatchRequest m = PB__WATCH_REQUEST__INIT;
    m.request_case = PB__WATCH_REQUEST__REQUEST_CREATE;
    m.create = &create;
    if (send_request(w, &m, e) < 0)
        return -1;
    w->creating = x->id;
    return 0;
}

/* -1: a watch that cannot even be asked for ends; *out_id says which. */
static int create_next(struct etcd_watcher *w, int64_t *out_id, struct err *e)
{
    for (size_t i = 0; i < w->watches.n && w->creating == 0; i++) {
        struct watch *x = w->watches.v[i];
        if (x->on_stream || send_create(w, x, e) == 0)
            continue;
        *out_id = x->id;
        forget(w, x);
        return -1;
    }
    return 0;
}

void etcd_watch_cancel(struct etcd_watcher *w, int64_t id)
{
    struct watch *x = find(w, id);
    if (!x)
        return;
    const bool known = x->on_stream || w->creating == id;
    forget(w, x);
    if (!w->call || !known)
        return;
    Pb__WatchCancel cancel = PB__WATCH_CANCEL__INIT;
    cancel.watch_id = id;
    Pb__WatchRequest m = PB__WATCH_REQUEST__INIT;
    m.request_case = PB__WATCH_REQUEST__REQUEST_CANCEL;
    m.cancel = &cancel;
    struct err ignored; /* what still comes of it is dropped */
    (void)send_request(w, &m, &ignored);
}

void etcd_watch_ask_progress(struct etcd_watcher *w)
{
    if (!w->call)
        return;
    Pb__Empty empty = PB__EMPTY__INIT;
    Pb__WatchRequest m = PB__WATCH_REQUEST__INIT;
    m.request_case = PB__WATCH_REQUEST__REQUEST_PROGRESS;
    m.progress = &empty;
    struct err ignored; /* the next stream can be asked again */
    (void)send_request(w, &m, &ignored);
}

/* --- The stream */

static void hang_up(struct etcd_watcher *w)
{
    grpc_call_free(TAKE(w->call));
    w->creating = 0;
    for (size_t i = 0; i < w->watches.n; i++)
        w->watches.v[i]->on_stream = false;
}

/* Whether to go on after *e: waits a little if so. */
static bool recover(const struct ctx *ctx, struct etcd_watcher *w, struct err *e)
{
    struct err over;
    w->trouble = *e;
    const bool stale = w->call && etcd_stream_failed(w->client, w->at, e);
    hang_up(w);
    if (stale && !w->renewed) {
        w->renewed = true;
        return true;
    }
    if (e->code != ERR_UNAVAILABLE && e->code != ERR_TIMEOUT && e->code != ERR_NOT_READY &&
        e->code != ERR_IO)
        return false;
    w->backoff_ms = w->backoff_ms < BACKOFF_MIN_MS ? BACKOFF_MIN_MS : w->backoff_ms * 2;
    if (w->backoff_ms > BACKOFF_MAX_MS)
        w->backoff_ms = BACKOFF_MAX_MS;
    if (ctx_sleep(ctx, w->backoff_ms, &over) == 0)
        return true;
    err_wrap(e, "%s", over.text); /* why it took so long is more useful than that it did */
    e->code = over.code;
    return false;
}

/* --- Receiving */

/* A watch ended. -1 with *e, or 0 if the stream should be opened again instead. */
static int ended(struct etcd_watcher *w, struct watch *x, const Pb__WatchResponse *r,
                 struct etcd_watch_batch *out, struct err *e)
{
    const struct str reason = str_c(r->cancel_reason);
    if (r->compact_revision > 0) {
        err_set(e, ERR_EXPIRED, 0, "revision %lld is compacted, up to %lld",
                (long long)x->position.next, (long long)r->compact_revision);
    } else {
        err_set(e, ERR_IO, 0, "%s", reason.n > 0 ? reason.p : "ended by the server");
        (void)etcd_error_map(reason, false, e);
    }
    out->watch = x->id;
    out->compact_revision = r->compact_revision;
    forget(w, x);
    return err_wrap(e, "watch");
}

static bool worth_reopening(const Pb__WatchResponse *r)
{
    const enum etcd_error why = etcd_error_of(str_c(r->cancel_reason));
    return r->compact_revision == 0 &&
           (why == ETCD_NO_LEADER || why == ETCD_BAD_TOKEN || why == ETCD_OLD_TOKEN ||
            why == ETCD_NO_CREDENTIALS || why == ETCD_STOPPED);
}

struct etcd_event etcd_event_of(const Pb__Event *m)
{
    return (struct etcd_event){
        .type = m->type == 0 ? ETCD_PUT : ETCD_DELETE,
        .kv = etcd_kv_of(m->kv),
        .prev = etcd_kv_of(m->prev_kv),
        .has_prev = m->prev_kv != NULL,
    };
}

static int deliver(struct etcd_watcher *w, struct watch *x, const Pb__WatchResponse *r,
                   struct etcd_watch_batch *out, struct err *e)
{
    struct etcd_event *v = arena_array(w->reply.own, r->n_events, sizeof(*v));
    size_t n = 0;
    for (size_t i = 0; i < r->n_events; i++) {
        const Pb__Event *event = r->events[i];
        const int64_t revision = event->kv ? event->kv->mod_revision : 0;
        const enum watch_verdict verdict = watch_position_event(&x->position, revision);
        if (verdict == WATCH_DISORDER) {
            out->watch = x->id;
            forget(w, x);
            return err_set(e, ERR_CORRUPT, 0, "watch: event of revision %lld out of order",
                           (long long)revision);
        }
        if (verdict == WATCH_DROP)
            continue;
        v[n++] = etcd_event_of(event);
    }
    watch_position_response(&x->position, r->fragment);
    out->kind = ETCD_WATCH_EVENTS;
    out->v = v;
    out->n = n;
    out->partial = r->fragment;
    return n > 0 ? 1 : 0;
}

enum { TAKE_ENDED = -1, TAKE_GO_ON, TAKE_NEWS, TAKE_BROKEN };

/* TAKE_ENDED: one watch, with *e. TAKE_BROKEN: the stream, with *e. */
static int take(struct etcd_watcher *w, struct etcd_watch_batch *out, struct err *e)
{
    const Pb__WatchResponse *r = w->reply.message;
    struct watch *x = find(w, r->created && r->watch_id < 0 ? w->creating : r->watch_id);
    out->revision = r->header ? r->header->revision : 0;
    if (r->created)
        w->creating = 0;
    if (r->watch_id < 0 && !r->created && !r->canceled) {
        out->watch = -1;
        out->kind = ETCD_WATCH_PROGRESS;
        return 1;
    }
    if (!x)
        return 0; /* canceled meanwhile */
    out->watch = x->id;
    if (r->canceled) {
        if (!worth_reopening(r))
            return ended(w, x, r, out, e);
        err_set(e, ERR_UNAVAILABLE, 0, "%s", r->cancel_reason);
        (void)etcd_error_map(str_c(r->cancel_reason), false, e);
        return TAKE_BROKEN;
    }
    w->backoff_ms = 0;
    w->trouble = (struct err){0};
    w->renewed = false;
    if (r->created) {
        x->on_stream = true;
        if (x->position.next == 0 && out->revision > 0)
            x->position.next = out->revision + 1; /* "now", from here on */
        const bool news = !x->announced;
        x->announced = true;
        out->kind = ETCD_WATCH_CREATED;
        return news ? 1 : 0;
    }
    if (r->n_events == 0) {
        watch_position_progress(&x->position, out->revision);
        out->kind = ETCD_WATCH_PROGRESS;
        return 1;
    }
    return deliver(w, x, r, out, e);
}

const struct err *etcd_watcher_trouble(const struct etcd_watcher *w)
{
    return w->trouble.code != ERR_NONE ? &w->trouble : NULL;
}

int etcd_watcher_next(const struct ctx *ctx, struct etcd_watcher *w, struct etcd_watch_batch *out,
                      struct err *e)
{
    for (;;) {
        etcd_reply_done(&w->reply);
        *out = (struct etcd_watch_batch){0};
        if (w->watches.n == 0)
            return err_set(e, ERR_NOT_FOUND, 0, "nothing is watched");
        int got = 0;
        if (!w->call && etcd_stream(ctx, w->client, ETCD_ANY, &rpc_watch, &w->call, &w->at, e) < 0)
            got = -1;
        if (got == 0 && create_next(w, &out->watch, e) < 0)
            return err_wrap(e, "watch");
        if (got == 0) {
            got = etcd_stream_next(ctx, w->client, w->at, &rpc_watch, w->call, &w->reply, e);
            struct err over;
            if (got < 0 && ctx_check(ctx, &over) < 0) {
                *e = over; /* the stream stays: call again */
                return err_wrap(e, "watch");
            }
            if (got == 0) {
                err_set(e, ERR_UNAVAILABLE, 0, "server ended the stream");
                got = -1;
            }
        }
        if (got < 0) {
            if (!recover(ctx, w, e))
                return err_wrap(e, "watch");
            continue;
        }
        const int news = take(w, out, e);
        if (news == TAKE_BROKEN && !recover(ctx, w, e))
            return err_wrap(e, "watch");
        if (news == TAKE_NEWS || news == TAKE_ENDED)
            return news == TAKE_NEWS ? 0 : -1;
    }
}
