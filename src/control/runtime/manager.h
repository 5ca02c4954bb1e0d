/* SPDX-License-Identifier: Apache-2.0
 * Runs a controller: watches, queue, workers, leader election, events, health and metrics, and
 * brings all of it to an orderly end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "control/runtime/objkey.h"
#include "control/runtime/watch.h"
#include "kube/client.h"
#include "net/server.h"

struct ctx;
struct events;
struct kube_config;
struct metrics;
struct wq;

enum {
    MANAGER_WORKERS = 4,
    MANAGER_WORKERS_MAX = 64,
    MANAGER_SOURCES_MAX = 512,
    MANAGER_GRACE_MS = 3000, /* for steps under way when a stop comes */
    MANAGER_CALL_MS = 5000,  /* a worker's API call; less if the lease leaves less */
    MANAGER_PASS_MS = 60000, /* one reconcile */
};

/* What a pass asks for: to look again after so long; 0: only when something happens. */
struct outcome {
    int64_t after_ms;
};

/* What a worker hands to a pass. `kube` is the worker's own, and asks the guard by itself; who
 * changes something by another way asks it right before. */
struct worker {
    struct kube_client *kube;
    struct kube_guard guard;
    struct events *events;
    struct watcher *watcher; /* whose age says how old the views may be */
    void *arg;               /* the controller's */
};

struct controller {
    const char *name;
    /* One pass over one key: re-read the world, act, report. A transient error is tried again
     * soon, any other at the capped backoff. */
    int (*reconcile)(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                     struct outcome *next, struct err *e);
    /* What can be looked up beside the first lists, by the first worker's client, also on a
     * standby; may be NULL. Whoever needs it looks at what came of it in `start`. */
    void (*prepare)(const struct ctx *ctx, struct kube_client *kube, void *arg);
    /* Threads of the controller's own; may be NULL. `start` is called before the first pass, when
     * this process leads and has seen the world; `stop` after the last one, when ctx is
     * cancelled. The queue may be fed until then. */
    int (*start)(const struct ctx *ctx, struct wq *queue, void *arg, struct err *e);
    void (*stop)(void *arg);
    void *arg;
};

struct manager_options {
    struct kube_config *config;
    struct metrics *metrics;
    struct controller controller;
    /* What is watched. The sets are the caller's, freed after manager_run(). A change enqueues
     * the owner of the view (before and after), or the view itself if it has none. */
    const struct watch_source *sources;
    size_t n_sources;
    int workers;      /* 0: MANAGER_WORKERS */
    int64_t idle_ms;  /* of watches; 0: WATCH_IDLE_MS */
    bool paged_lists; /* instead of streamed ones */

    /* Leader election; lease NULL: none. */
    const char *lease_ns, *lease;
    const char *identity;
    int64_t lease_ms, renew_ms, retry_ms;

    const char *health_address, *metrics_address; /* NULL: not served */
    const struct server_route *routes;            /* more of them, on the metrics server */
    size_t n_routes;
};

/* Returns 0 after ctx was cancelled and everything ended, within five seconds; -1 when it could
 * not start, or when leadership was lost (ERR_CANCELED), then within one. The process should end
 * in either case: the next one starts from the state of the world. */
NODISCARD int manager_run(const struct ctx *ctx, const struct manager_options *o, struct err *e);
