/* SPDX-License-Identifier: Apache-2.0
 * One thread. As a standby it watches the Lease and acts when it is free or has been unchanged
 * for as long as its holder said; as the leader it renews and does nothing else, so that no slow
 * work can starve the renewal.
 *
 * Our own lease ends `duration` after the moment the last successful renewal was *sent*: others
 * start counting when they see it, which is later. Every write of ours has to end before. */
#include "control/runtime/leader.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/rand.h"
#include "base/thread.h"
#include "control/runtime/watch.h"
#include "kube/config.h"
#include "kube/lease.h"
#include "kube/split.h"

enum { IDENTITY_MAX = 256, EVENT_MAX = 256 * 1024, NOT_LEADING = 0 };

struct leader {
    struct leader_options o;
    char ns[64], name[254], identity[IDENTITY_MAX];
    struct metric *leading;
    struct ctx ctx;
    struct thread thread;
    struct kube_client *client;

    /* The thread's alone. */
    struct lease seen;
    int64_t seen_ms; /* when it was first seen like this */
    bool absent;     /* the server says there is none */
    struct kube_stream *stream;
    struct split split;
    bool stream_ended;

    _Atomic int64_t ends_ms; /* boot time at which our lease ends; NOT_LEADING */
    pthread_mutex_t lock;    /* guards: nothing but the wait for `changed` */
    pthread_cond_t changed;
};

static int64_t now_ms(const struct leader *l)
{
    return clock_boot_ms(l->ctx.clock);
}

static int64_t wall_us(const struct leader *l)
{
    return clock_wall_us(l->ctx.clock);
}

int leader_may_write(void *arg, int64_t within_ms, struct err *e)
{
    struct leader *l = arg;
    const int64_t ends_ms = atomic_load(&l->ends_ms);
    if (ends_ms == NOT_LEADING)
        return err_set(e, ERR_CANCELED, 0, "not the leader");
    const int64_t at_ms = now_ms(l);
    if (within_ms == CTX_NEVER || at_ms + within_ms >= ends_ms)
        return err_set(e, ERR_CANCELED, 0, "the lease may end (in %" PRId64 " ms) before the call",
                       ends_ms - at_ms);
    return 0;
}

int64_t leader_spare_ms(const struct leader *l)
{
    return l->o.duration_ms - l->o.renew_ms;
}

bool leader_leads(struct leader *l)
{
    const int64_t ends_ms = atomic_load(&l->ends_ms);
    return ends_ms != NOT_LEADING && now_ms(l) < ends_ms;
}

static void set_end(struct leader *l, int64_t ends_ms)
{
    atomic_store(&l->ends_ms, ends_ms);
    if (l->leading)
        metric_set(l->leading, ends_ms != NOT_LEADING ? 1 : 0, l->name);
    MUTEX_HOLD(&l->lock);
    (void)pthread_cond_broadcast(&l->changed); /* never fails */
}

int leader_wait(const struct ctx *ctx, struct leader *l, struct err *e)
{
    MUTEX_HOLD(&l->lock);
    while (!leader_leads(l)) {
        if (ctx_check(ctx, e) < 0)
            return -1;
        cond_wait_ms(&l->changed, &l->lock, 50); /* a cancelled ctx signals nobody */
    }
    return 0;
}

/* --- What we see --- */

static void observe(struct leader *l, struct lease *take_lease)
{
    l->absent = false;
    if (lease_same(&l->seen, take_lease)) {
        lease_done(take_lease);
        return;
    }
    lease_done(&l->seen);
    l->seen = *take_lease;
    l->seen_ms = now_ms(l);
}

static int look(struct leader *l, struct err *e)
{
    json_auto_t *object = NULL;
    struct lease lease = {0};
    if (kube_get(&l->ctx, l->client, &kube_leases, l->ns, l->name, &object, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        lease_done(&l->seen);
        l->absent = true;
        return 0;
    }
    if (lease_read(object, &lease, e) < 0)
        return -1;
    observe(l, &lease);
    return 0;
}

static bool is_free(const struct leader *l)
{
    return l->absent || (l->seen.holder && l->seen.holder[0] == '\0');
}

/* Boot time at which the Lease we see may be taken. */
static int64_t free_at_ms(const struct leader *l)
{
    if (is_free(l))
        return 0;
    const int64_t said_ms = l->seen.duration_ms > 0 ? l->seen.duration_ms : l->o.duration_ms;
    return l->seen_ms + said_ms;
}

/* --- Acquiring and renewing --- */

static int keep(struct leader *l, const json_t *object, int64_t sent_ms, struct err *e)
{
    struct lease lease = {0};
    if (lease_read(object, &lease, e) < 0)
        return -1;
    observe(l, &lease);
    set_end(l, sent_ms + l->o.duration_ms);
    return 0;
}

static int write_lease(struct leader *l, json_t *take_patch, struct err *e)
{
    json_auto_t *patch = take_patch;
    json_auto_t *object = NULL;
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE, .resource_version = l->seen.version};
    const int64_t sent_ms = now_ms(l);
    if (kube_patch(&l->ctx, l->client, &kube_leases, l->ns, l->name, &how, patch, &object, e) < 0)
        return -1;
    return keep(l, object, sent_ms, e);
}

/* A live look decides; the precondition makes one of several candidates win. */
static int try_acquire(struct leader *l, struct err *e)
{
    if (look(l, e) < 0)
        return -1;
    if (now_ms(l) < free_at_ms(l))
        return 0;
    if (!l->absent)
        return write_lease(l, lease_take(&l->seen, l->identity, l->o.duration_ms, wall_us(l)), e);
    json_auto_t *fresh = lease_object(l->ns, l->name, l->identity, l->o.duration_ms, wall_us(l));
    json_auto_t *object = NULL;
    const int64_t sent_ms = now_ms(l);
    if (kube_create(&l->ctx, l->client, &kube_leases, l->ns, fresh, &object, e) < 0)
        return -1;
    return keep(l, object, sent_ms, e);
}

static bool is_ours(const struct leader *l)
{
    return !l->absent && l->seen.holder && strcmp(l->seen.holder, l->identity) == 0;
}

/* One renewal. After a conflict or an unknown outcome a look says whether it is still ours; the
 * end of the lease then moves only with the next renewal that is certain. */
static int renew(struct leader *l, struct err *e)
{
    if (write_lease(l, lease_renew(l->identity, wall_us(l)), e) == 0)
        return 0;
    if (e->code != ERR_CONFLICT && e->code != ERR_OUTCOME_UNKNOWN && e->code != ERR_NOT_FOUND)
        return -1;
    struct err why = *e;
    if (look(l, e) < 0)
        return -1;
    if (!is_ours(l))
        return err_set(e, ERR_DENIED, 0, "the lease is held by \"%s\"",
                       l->seen.holder ? l->seen.holder : "");
    *e = why;
    return -1;
}

/* Once per outage. */
static void complain(struct leader *l, const char *what, const struct err *e, bool *complained)
{
    if (*complained)
        log_debug(l->ctx.log, what, KV_ERR(e));
    else
        log_warn(l->ctx.log, what, KV_ERR(e));
    *complained = true;
}

/* --- As the leader --- */

static void lead(struct leader *l)
{
    log_info(l->ctx.log, "leading", KV("lease", l->name), KV("identity", l->identity));
    kube_client_limit(l->client, l->o.renew_ms / 2);
    int64_t renewed_ms = atomic_load(&l->ends_ms) - l->o.duration_ms;
    struct err e = {0};
    bool complained = false; /* about the present outage */
    for (;;) {
        const int64_t next_ms = renewed_ms + l->o.retry_ms - now_ms(l);
        struct err cancelled = {0};
        if (ctx_sleep(&l->ctx, next_ms > 100 ? next_ms : 100, &cancelled) < 0)
            return; /* a stop: leader_release() follows */
        if (now_ms(l) >= renewed_ms + l->o.duration_ms) {
            err_set(&e, ERR_TIMEOUT, 0, "this process was held up until the lease had run out");
            break;
        }
        if (renew(l, &e) == 0) {
            renewed_ms = atomic_load(&l->ends_ms) - l->o.duration_ms;
            complained = false;
            continue;
        }
        if (ctx_canceled(&l->ctx))
            return;
        if (e.code == ERR_DENIED && e.origin == 0)
            break;
        if (now_ms(l) - renewed_ms >= l->o.renew_ms)
            break;
        complain(l, "lease not renewed; retrying", &e, &complained);
    }
    set_end(l, NOT_LEADING);
    cancel_fire(l->o.lost);
    if (complained)
        err_set(&e, ERR_TIMEOUT, 0, "not renewed for %" PRId64 " ms", now_ms(l) - renewed_ms);
    log_error(l->ctx.log, "leadership lost", KV_ERR(&e));
}

/* --- As a standby --- */

static int on_event(void *arg, const struct split_item *item, struct err *e)
{
    struct leader *l = arg;
    json_auto_t *event = NULL;
    if (item->too_big || jparse(item->text, &event, e) < 0)
        return err_set(e, ERR_CORRUPT, 0, "unreadable event");
    const char *type = jstr(event, "type", "");
    struct lease lease = {0};
    if (strcmp(type, "DELETED") == 0) {
        lease_done(&l->seen);
        l->absent = true;
    } else if (strcmp(type, "ADDED") == 0 || strcmp(type, "MODIFIED") == 0) {
        if (lease_read(jget(event, "object"), &lease, e) < 0)
            return -1;
        observe(l, &lease);
    } else if (strcmp(type, "ERROR") == 0) {
        return err_set(e, ERR_EXPIRED, 0, "the watch has to begin again");
    }
    return 0;
}

static int on_data(void *arg, struct str piece, struct err *e)
{
    struct leader *l = arg;
    return split_feed(&l->split, piece, on_event, l, e);
}

static void on_end(void *arg, const struct err *why)
{
    struct leader *l = arg;
    if (why->code != ERR_NONE)
        log_debug(l->ctx.log, "watch of the lease ended", KV_ERR(why));
    l->stream = NULL;
    l->stream_ended = true;
    split_done(&l->split);
}

static void open_watch(struct leader *l)
{
    auto_buf struct buf query = BUF_INIT(4096);
    auto_free char *field = xasprintf("metadata.name=%s", l->name);
    kube_query_add(&query, "watch", "true");
    kube_query_add(&query, "allowWatchBookmarks", "true");
    kube_query_add(&query, "fieldSelector", field);
    kube_query_add(&query, "timeoutSeconds", "300");
    const struct kube_stream_request req = {
        .kind = &kube_leases,
        .ns = l->ns,
        .query = buf_cstr(&query),
        .watch = true,
        .idle_ms = WATCH_IDLE_MS,
        .on_data = on_data,
        .on_end = on_end,
        .arg = l,
    };
    struct err e = {0};
    split_init(&l->split, SPLIT_WATCH, EVENT_MAX);
    l->stream_ended = false;
    if (kube_stream_open(&l->ctx, l->client, &req, &l->stream, &e) < 0) {
        split_done(&l->split);
        l->stream_ended = true;
        log_debug(l->ctx.log, "watch of the lease", KV_ERR(&e));
    }
}

/* While the watch tells us, until the Lease may be taken. Renewals move that moment on. */
static void follow_watch(struct leader *l)
{
    struct err e = {0};
    for (int64_t left_ms; !l->stream_ended && (left_ms = free_at_ms(l) - now_ms(l)) > 0;)
        if (kube_run(&l->ctx, l->client, left_ms, &e) < 0)
            return;
}

static void stand_by(struct leader *l)
{
    bool complained = false;
    while (!ctx_canceled(&l->ctx)) {
        struct err e = {0}, ignored = {0}; /* of the sleeps: the loop looks at ctx */
        int64_t wait_ms = l->o.retry_ms;
        if (try_acquire(l, &e) < 0) {
            if (e.code == ERR_CONFLICT || e.code == ERR_EXISTS)
                wait_ms = 50; /* another candidate was faster: see what it did */
            else if (!ctx_canceled(&l->ctx))
                complain(l, "lease not acquired; retrying", &e, &complained);
            if (wait_ms < e.retry_after_ms)
                wait_ms = e.retry_after_ms;
            (void)!ctx_sleep(&l->ctx, wait_ms, &ignored);
            continue;
        }
        complained = false;
        if (atomic_load(&l->ends_ms) != NOT_LEADING)
            break;
        if (!l->stream)
            open_watch(l);
        follow_watch(l);
        const int64_t left_ms = free_at_ms(l) - now_ms(l);
        if (l->stream_ended && left_ms > 0) /* no right to watch, or an outage: ask again soon */
            (void)!ctx_sleep(&l->ctx, left_ms < wait_ms ? left_ms : wait_ms, &ignored);
    }
    if (l->stream)
        split_done(&l->split);
    kube_stream_close(TAKE(l->stream));
}

static void run(void *arg)
{
    struct leader *l = arg;
    stand_by(l);
    if (atomic_load(&l->ends_ms) != NOT_LEADING && !ctx_canceled(&l->ctx))
        lead(l);
}

void leader_release(const struct ctx *ctx, struct leader *l)
{
    struct err e = {0};
    if (atomic_load(&l->ends_ms) == NOT_LEADING)
        return;
    l->ctx = ctx_with_timeout(ctx, 1000);
    json_auto_t *patch = lease_release(wall_us(l));
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE, .resource_version = l->seen.version};
    set_end(l, NOT_LEADING);
    if (kube_patch(&l->ctx, l->client, &kube_leases, l->ns, l->name, &how, patch, NULL, &e) < 0)
        log_warn(ctx->log, "lease not released; it runs out by itself", KV_ERR(&e));
    else
        log_info(ctx->log, "lease released", KV("lease", l->name));
}

int leader_new(const struct leader_options *o, struct leader **out, struct err *e)
{
    struct leader *l = xcalloc(1, sizeof(*l));
    l->o = *o;
    l->o.duration_ms = o->duration_ms > 0 ? o->duration_ms : LEASE_DURATION_MS;
    l->o.renew_ms = o->renew_ms > 0 ? o->renew_ms : LEASE_RENEW_MS;
    l->o.retry_ms = o->retry_ms > 0 ? o->retry_ms : LEASE_RETRY_MS;
    if (l->o.duration_ms % 1000 != 0 || l->o.duration_ms <= l->o.renew_ms ||
        l->o.renew_ms <= l->o.retry_ms) {
        free(l);
        return err_set(e, ERR_INVALID, 0,
                       "leader election: lease duration > renew deadline > retry period, the "
                       "first in whole seconds");
    }
    (void)snprintf(l->ns, sizeof(l->ns), "%s", o->ns);
    (void)snprintf(l->name, sizeof(l->name), "%s", o->name);
    char host[128] = "unknown";
    (void)gethostname(host, sizeof(host) - 1); /* only to be recognised by people */
    if (o->identity)
        (void)snprintf(l->identity, sizeof(l->identity), "%s", o->identity);
    else
        (void)snprintf(l->identity, sizeof(l->identity), "%s_%016" PRIx64, host, rand_u64());
    if (o->metrics)
        l->leading =
            metric_register(o->metrics, &(struct metric_desc){.name = "raftsman_leader",
                                                              .help = "Whether this process leads.",
                                                              .type = METRIC_GAUGE,
                                                              .labels = {"lease"}});
    (void)pthread_mutex_init(&l->lock, NULL); /* cannot fail without attributes */
    cond_init(&l->changed);
    *out = l;
    return 0;
}

void leader_free(struct leader *l)
{
    if (!l)
        return;
    kube_client_free(l->client);
    lease_done(&l->seen);
    (void)pthread_cond_destroy(&l->changed);
    (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

int leader_start(const struct ctx *ctx, struct leader *l, struct err *e)
{
    l->ctx = *ctx;
    if (kube_client_new(ctx, l->o.config, &l->client, e) < 0)
        return -1;
    kube_client_limit(l->client, l->o.renew_ms / 2);
    return thread_start(&l->thread, "lease", run, l, e);
}

void leader_join(struct leader *l)
{
    thread_join(&l->thread);
}
