/* SPDX-License-Identifier: Apache-2.0
 * Who ends what, and in which order. A stop (ctx) first keeps new keys from being handed out and
 * gives steps under way some time, because a write that is cancelled in mid-air has an unknown
 * outcome; then it cancels them. Events are flushed while we still lead, the Lease is released
 * when nothing of ours works any more, and the watches end last. A lost lease leaves no time: it
 * cancels everything at once, and nothing is released or flushed. */
#include "control/runtime/manager.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/rand.h"
#include "base/thread.h"
#include "control/runtime/event.h"
#include "control/runtime/leader.h"
#include "control/runtime/queue.h"
#include "kube/config.h"

enum { DENIED_MAX = 256 };

struct manager {
    const struct manager_options *o;
    struct ctx infra; /* of watch and lease: ends when everything else has */
    struct ctx work;  /* of the workers */
    struct cancel stop_infra, stop_work, lost;

    struct wq *queue;
    struct watcher *watcher;
    struct leader *leader;
    struct events *events;
    struct server *health, *metrics;
    struct server_check ready[2];
    struct server_checks ready_checks, live_checks;
    struct thread workers[MANAGER_WORKERS_MAX];
    atomic_int busy;      /* workers that have not ended */
    atomic_bool prepared; /* the first worker has its connection, and has looked ahead */
    struct metric *passes, *seconds;
    int64_t call_ms; /* limit of an API call */

    pthread_mutex_t lock; /* guards: denied, go */
    pthread_cond_t went;
    bool go;           /* the queue may be worked on, or has ended */
    struct map denied; /* texts of missing rights that were logged */
};

/* --- Workers --- */

/* A missing right is said once, not with every retry; anything else each time. */
static bool is_news(struct manager *m, const struct err *e)
{
    if (e->code != ERR_DENIED)
        return true;
    /* "…: the right to create configmaps in namespace a is missing: …" */
    const char *right = strstr(e->text, "the right to ");
    const char *end = right ? strstr(right, " is missing") : NULL;
    const struct str key = end ? (struct str){right, (size_t)(end - right)} : str_c(e->text);
    MUTEX_HOLD(&m->lock);
    if (map_get(&m->denied, key))
        return false;
    if (m->denied.n < DENIED_MAX)
        map_put(&m->denied, key, m);
    return true;
}

static void log_pass(struct manager *m, const struct ctx *ctx, const struct err *e)
{
    if (e->code == ERR_CANCELED)
        log_debug(ctx->log, "pass ended early", KV_ERR(e));
    else if (!is_news(m, e))
        log_debug(ctx->log, "pass failed for a known reason; retrying", KV_ERR(e));
    else if (err_transient(e))
        log_warn(ctx->log, "pass failed; retrying", KV_ERR(e));
    else
        log_error(ctx->log, "pass failed; retrying at the capped backoff", KV_ERR(e));
}

static void one_pass(struct manager *m, struct worker *w, const struct objkey *key)
{
    char id[20];
    (void)snprintf(id, sizeof(id), "%08" PRIx32, (uint32_t)rand_u64());
    const struct log lg = LOG_WITH(m->work.log, KV("controller", m->o->controller.name),
                                   KV("namespace", key->ns), KV("name", key->name), KV("pass", id));
    const struct ctx logged = ctx_with_log(&m->work, &lg);
    const struct ctx ctx = ctx_with_timeout(&logged, MANAGER_PASS_MS);
    const int64_t began_ms = clock_boot_ms(ctx.clock);
    struct outcome next = {0};
    struct err e = {0};
    const int rc = m->o->controller.reconcile(&ctx, w, key, &next, &e);
    const bool soon = err_transient(&e) || e.code == ERR_CANCELED; /* cut short: begin anew */
    if (rc < 0)
        wq_add_backoff(m->queue, key, soon ? WQ_SOON : WQ_CAPPED, e.retry_after_ms);
    else
        wq_forget(m->queue, key);
    if (rc == 0 && next.after_ms > 0)
        wq_add_after(m->queue, key, next.after_ms);
    if (rc < 0)
        log_pass(m, &ctx, &e);
    metric_add(m->passes, 1, rc < 0 ? err_code_name(e.code) : "ok");
    metric_observe(m->seconds, (double)(clock_boot_ms(ctx.clock) - began_ms) / 1000);
    wq_done(m->queue, key);
}

/* From now on workers take what the queue gives. */
static void let_go(struct manager *m)
{
    MUTEX_HOLD(&m->lock);
    m->go = true;
    (void)pthread_cond_broadcast(&m->went); /* never fails */
}

static void wait_to_go(struct manager *m)
{
    MUTEX_HOLD(&m->lock);
    while (!m->go)
        (void)pthread_cond_wait(&m->went, &m->lock); /* never fails */
}

/* The first worker is there before there is work, and connects meanwhile. */
static void prepare(struct manager *m, struct kube_client *kube)
{
    const struct controller *c = &m->o->controller;
    if (c->prepare && !atomic_load(&m->prepared))
        c->prepare(&m->work, kube, c->arg);
    atomic_store(&m->prepared, true);
}

static void work(void *arg)
{
    struct manager *m = arg;
    struct err e = {0};
    struct worker w = {.events = m->events, .watcher = m->watcher, .arg = m->o->controller.arg};
    if (kube_client_new(&m->work, m->o->config, &w.kube, &e) < 0) {
        log_error(m->work.log, "worker did not start", KV_ERR(&e));
    } else {
        kube_client_limit(w.kube, m->call_ms);
        if (m->leader)
            w.guard = leader_guard(m->leader);
        kube_client_guard(w.kube, w.guard);
        prepare(m, w.kube);
        wait_to_go(m);
        struct objkey key;
        while (wq_get(m->queue, &key))
            one_pass(m, &w, &key);
        kube_client_free(w.kube);
    }
    atomic_store(&m->prepared, true); /* or never will be */
    atomic_fetch_sub(&m->busy, 1);
}

/* --- Changes become keys --- */

static void enqueue_owner(struct manager *m, const struct view *v)
{
    struct objkey key;
    struct str ns = {0}, name = {0};
    if (!v)
        return;
    if (!v->owner) {
        if (objkey_set(&key, v->ns->text, v->name))
            wq_add(m->queue, &key);
        return;
    }
    if (!str_cut(str_c(v->owner->text), '/', &ns, &name))
        return;
    auto_free char *ns_text = str_dup(ns);
    if (objkey_set(&key, ns_text, name.p))
        wq_add(m->queue, &key);
}

static void changed(void *arg, const struct view *before, const struct view *now)
{
    struct manager *m = arg;
    enqueue_owner(m, now);
    if (before && (!now || before->owner != now->owner))
        enqueue_owner(m, before);
}

/* --- Health --- */

static int check_watches(void *arg, struct err *e)
{
    const struct manager *m = arg;
    if (!watcher_synced(m->watcher))
        return err_set(e, ERR_NOT_READY, 0, "the first lists are not complete");
    const int64_t age_ms = watcher_age_ms(m->watcher);
    return age_ms > WATCH_IDLE_MS
               ? err_set(e, ERR_NOT_READY, 0, "out of touch for %" PRId64 " s", age_ms / 1000)
               : 0;
}

static int start_servers(struct manager *m, struct err *e)
{
    m->ready[0] = (struct server_check){.name = "watches", .check = check_watches, .arg = m};
    m->ready_checks = (struct server_checks){.v = m->ready, .n = 1};
    const struct server_route health[] = {
        {"/healthz", server_answer_checks, &m->live_checks},
        {"/readyz", server_answer_checks, &m->ready_checks},
    };
    if (m->o->health_address &&
        server_start(m->o->health_address, health, COUNT_OF(health), &m->health, e) < 0)
        return -1;
    if (!m->o->metrics_address)
        return 0;
    VEC(struct server_route) routes = {0};
    vec_push(&routes, (struct server_route){"/metrics", server_answer_metrics, m->o->metrics});
    for (size_t i = 0; i < m->o->n_routes; i++)
        vec_push(&routes, m->o->routes[i]);
    const int rc = server_start(m->o->metrics_address, routes.v, routes.n, &m->metrics, e);
    vec_done(&routes);
    return rc;
}

/* --- Life --- */

static void register_metrics(struct manager *m)
{
    m->passes =
        metric_register(m->o->metrics, &(struct metric_desc){.name = "raftsman_reconcile_total",
                                                             .help = "Passes by result.",
                                                             .type = METRIC_COUNTER,
                                                             .labels = {"result"}});
    m->seconds = metric_register(
        m->o->metrics, &(struct metric_desc){.name = "raftsman_reconcile_seconds",
                                             .help = "Duration of a pass.",
                                             .type = METRIC_HISTOGRAM,
                                             .buckets = {0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60}});
}

static int set_up(const struct ctx *ctx, struct manager *m, struct err *e)
{
    const struct manager_options *o = m->o;
    m->call_ms = MANAGER_CALL_MS;
    m->stop_infra.fd = m->stop_work.fd = m->lost.fd = -1;
    (void)pthread_mutex_init(&m->lock, NULL); /* cannot fail without attributes */
    (void)pthread_cond_init(&m->went, NULL);
    if (cancel_init(&m->stop_infra, e) < 0 || cancel_init(&m->stop_work, e) < 0 ||
        cancel_init(&m->lost, e) < 0)
        return -1;
    /* Not under ctx: a stop is orderly, see end(). */
    const struct ctx calm = ctx_root(ctx->clock, ctx->log);
    m->infra = ctx_with_cancel(&calm, &m->stop_infra);
    const struct ctx work_ctx = ctx_with_cancel(&calm, &m->stop_work);
    m->work = ctx_with_cancel(&work_ctx, &m->lost);
    register_metrics(m);
    m->queue = wq_new(ctx->clock, o->metrics);
    m->watcher = watcher_new(&(struct watcher_options){.config = o->config,
                                                       .metrics = o->metrics,
                                                       .idle_ms = o->idle_ms,
                                                       .paged = o->paged_lists,
                                                       .changed = changed,
                                                       .arg = m});
    for (size_t i = 0; i < o->n_sources; i++)
        watcher_add(m->watcher, &o->sources[i]);
    if (o->lease) {
        const struct leader_options leader = {.config = o->config,
                                              .ns = o->lease_ns,
                                              .name = o->lease,
                                              .identity = o->identity,
                                              .duration_ms = o->lease_ms,
                                              .renew_ms = o->renew_ms,
                                              .retry_ms = o->retry_ms,
                                              .lost = &m->lost,
                                              .metrics = o->metrics};
        if (leader_new(&leader, &m->leader, e) < 0)
            return -1;
        /* Until the renewal is given up, what is left of the lease is enough for a call. */
        const int64_t spare_ms = leader_spare_ms(m->leader);
        m->call_ms = spare_ms < m->call_ms ? spare_ms : m->call_ms;
    }
    m->events = events_new(&(struct events_options){
        .config = o->config,
        .controller = o->controller.name,
        .instance = o->identity ? o->identity : o->controller.name,
        .guard = m->leader ? leader_guard(m->leader) : (struct kube_guard){0},
        .metrics = o->metrics,
        .call_ms = m->call_ms,
        .clock = ctx->clock});
    return 0;
}

static int start_worker(struct manager *m, int i, struct err *e)
{
    char name[24];
    (void)snprintf(name, sizeof(name), "worker-%d", i);
    atomic_fetch_add(&m->busy, 1);
    if (thread_start(&m->workers[i], name, work, m, e) == 0)
        return 0;
    atomic_fetch_sub(&m->busy, 1);
    return -1;
}

static int start_work(struct manager *m, struct err *e)
{
    const struct controller *c = &m->o->controller;
    if (c->start && c->start(&m->work, m->queue, c->arg, e) < 0)
        return -1;
    let_go(m);
    int n = m->o->workers > 0 ? m->o->workers : MANAGER_WORKERS;
    if (n > MANAGER_WORKERS_MAX)
        n = MANAGER_WORKERS_MAX;
    for (int i = 1; i < n; i++)
        if (start_worker(m, i, e) < 0)
            return -1;
    return 0;
}

/* Until a stop or the loss of the lease. */
static int run(const struct ctx *ctx, struct manager *m, struct err *e)
{
    const struct ctx waiting = ctx_with_cancel(ctx, &m->lost);
    struct err stopped = {0};
    if (start_servers(m, e) < 0 || watcher_start(&m->infra, m->watcher, e) < 0 ||
        (m->leader && leader_start(&m->infra, m->leader, e) < 0) ||
        events_start(&m->work, m->events, e) < 0 || start_worker(m, 0, e) < 0)
        return -1;
    if (m->leader && leader_wait(&waiting, m->leader, &stopped) < 0)
        return 0; /* stopped as a standby */
    /* A worker that acts before the first lists are complete would see half a world. */
    while (!watcher_synced(m->watcher) || !atomic_load(&m->prepared))
        if (ctx_sleep(&waiting, 1, &stopped) < 0)
            return 0;
    if (start_work(m, e) < 0)
        return -1;
    (void)!ctx_sleep(&waiting, INT64_MAX / 4, &stopped); /* ends by cancellation */
    return 0;
}

static void end(const struct ctx *ctx, struct manager *m)
{
    const bool lost = ctx_canceled(&m->work);
    if (m->queue)
        wq_stop(m->queue);
    let_go(m);
    const struct ctx calm = ctx_root(ctx->clock, ctx->log);
    const struct ctx grace = ctx_with_timeout(&calm, MANAGER_GRACE_MS);
    struct err e = {0};
    while (!lost && atomic_load(&m->busy) > 0 && ctx_sleep(&grace, 5, &e) == 0)
        ;
    if (m->events && !lost)
        events_stop(m->events);
    cancel_fire(&m->stop_work);
    for (size_t i = 0; i < MANAGER_WORKERS_MAX; i++)
        thread_join(&m->workers[i]);
    if (m->o->controller.stop)
        m->o->controller.stop(m->o->controller.arg);
    if (m->events)
        events_stop(m->events);
    cancel_fire(&m->stop_infra);
    if (m->leader) {
        leader_join(m->leader);
        leader_release(&calm, m->leader);
    }
    if (m->watcher)
        watcher_join(m->watcher);
    server_stop(m->health);
    server_stop(m->metrics);
}

static void tear_down(struct manager *m)
{
    events_free(m->events);
    leader_free(m->leader);
    wq_free(m->queue);
    map_done(&m->denied);
    cancel_done(&m->stop_infra);
    cancel_done(&m->stop_work);
    cancel_done(&m->lost);
    (void)pthread_cond_destroy(&m->went);
    (void)pthread_mutex_destroy(&m->lock);
}

int manager_run(const struct ctx *ctx, const struct manager_options *o, struct err *e)
{
    struct manager *m = xcalloc(1, sizeof(*m));
    m->o = o;
    int rc = set_up(ctx, m, e);
    if (rc == 0)
        rc = run(ctx, m, e);
    const bool lost = atomic_load(&m->lost.fired);
    end(ctx, m);
    for (size_t i = 0; i < o->n_sources; i++)
        view_set_clear(o->sources[i].set); /* views hold strings of the watcher */
    watcher_free(m->watcher);
    tear_down(m);
    free(m);
    if (rc == 0 && lost)
        return err_set(e, ERR_CANCELED, 0, "leadership lost");
    return rc;
}
