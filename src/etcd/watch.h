/* SPDX-License-Identifier: Apache-2.0
 * Watches: every change of a range from a revision on, in order, none twice and none missing.
 *
 * One watcher is one stream that carries any number of watches. When it breaks (restart, network,
 * leader lost, token expired) it is opened again, on another endpoint if need be, and each watch
 * goes on exactly where it was. It ends in one error only: ERR_EXPIRED, when compaction took
 * revisions it had not delivered yet, or what the server gave as reason.
 *
 * Not thread-safe; shares the connection of its client, and goes before it. A reader that does
 * not call next() stops the stream: memory is bounded. */
#pragma once
#include "etcd/client.h"
#include "etcd/kv.h"

struct etcd_watcher;

struct etcd_watch {
    struct str key, end;    /* copied; as in etcd_range */
    int64_t start_revision; /* 0: from now on */
    bool prev_kv;
    bool no_put, no_delete;
    bool progress; /* tell now and then (10 min) how far an idle watch is */
};

struct etcd_watcher *etcd_watcher_new(struct etcd_client *c) NONNULL;
void etcd_watcher_free(struct etcd_watcher *w); /* NULL-safe */
AUTO_DEFINE(struct etcd_watcher, etcd_watcher_free)

/* Does not block: the server hears of it with the next etcd_watcher_next(). The ID is never
 * reused. */
int64_t etcd_watch_add(struct etcd_watcher *w, const struct etcd_watch *o);
void etcd_watch_cancel(struct etcd_watcher *w, int64_t id); /* no more of it comes out */

/* Asks all watches how far they are; the answer is a batch of kind ETCD_WATCH_PROGRESS for watch
 * -1. Before etcd 3.4.25 and 3.5.8 it may overtake events: see etcd/version.h. */
void etcd_watch_ask_progress(struct etcd_watcher *w);

struct etcd_event {
    enum { ETCD_PUT, ETCD_DELETE } type;
    struct etcd_kv kv; /* of a delete: key and mod_revision */
    struct etcd_kv prev;
    bool has_prev;
};

struct etcd_watch_batch {
    int64_t watch; /* of an error: which watch ended; 0: none did */
    enum { ETCD_WATCH_EVENTS, ETCD_WATCH_CREATED, ETCD_WATCH_PROGRESS } kind;
    const struct etcd_event *v; /* borrowed until the next call */
    size_t n;
    bool partial;             /* more events of the last revision may follow in the next batch */
    int64_t revision;         /* of the store; progress: everything up to it was delivered */
    int64_t compact_revision; /* with ERR_EXPIRED: where to begin anew */
};

/* Why nothing comes at present: what broke the stream last, while it is being opened again. NULL
 * once the server has answered. */
const struct err *etcd_watcher_trouble(const struct etcd_watcher *w);

/* Blocks until something happened to a watch. -1: out->watch says which one ended and the others
 * go on; 0 there means none did: ERR_TIMEOUT or ERR_CANCELED (ctx; call again to go on),
 * ERR_DENIED, ERR_CONFLICT, or ERR_NOT_FOUND when there is no watch left. */
NODISCARD int etcd_watcher_next(const struct ctx *ctx, struct etcd_watcher *w,
                                struct etcd_watch_batch *out, struct err *e);
