/* SPDX-License-Identifier: Apache-2.0
 * The watch thread: keeps view sets in step with the API server, for all kinds, over one
 * connection where the server speaks HTTP/2.
 *
 * Each source is one filtered list and watch. It begins by streaming the current state
 * (sendInitialEvents), or by pages where the server cannot; it resumes where it was cut, begins
 * again when that is too old (410), and detects what was deleted meanwhile. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "control/runtime/view.h"

struct ctx;
struct kube_config;
struct metrics;
struct watcher;

enum {
    WATCH_EVENT_MAX = 1024 * 1024, /* larger objects go to quarantine */
    WATCH_IDLE_MS = 120 * 1000,    /* bookmarks come about once a minute */
    WATCH_RETRY_MS = 200,
    WATCH_RETRY_MAX_MS = 30 * 1000,
    WATCH_CORRUPT_MAX = 3, /* garbled in a row at one place: begin again */
};

struct watcher_options {
    struct kube_config *config;
    struct metrics *metrics; /* may be NULL */
    int64_t idle_ms;         /* 0: WATCH_IDLE_MS */
    bool paged;              /* do not stream the initial state */
    /* Called by the watch thread for every change that matters (see view_kind.same); must not
     * block. `before` is NULL for what is new, `now` for what is gone. */
    void (*changed)(void *arg, const struct view *before, const struct view *now);
    void *arg;
};

struct watch_source {
    struct view_set *set;
    const struct view_kind *kind;
    const char *ns; /* NULL: all; these strings are copied */
    const char *labels, *fields;
};

struct watcher *watcher_new(const struct watcher_options *o) NONNULL;
/* Before the start. At most VIEW_SOURCES_MAX per set. */
void watcher_add(struct watcher *w, const struct watch_source *source);
/* The thread ends with ctx (which must outlive it). */
NODISCARD int watcher_start(const struct ctx *ctx, struct watcher *w, struct err *e);
void watcher_join(struct watcher *w); /* after ctx was cancelled */
void watcher_free(struct watcher *w); /* NULL-safe; joined, and the view sets are freed */

/* --- Thread-safe --- */

bool watcher_synced(struct watcher *w); /* every source has seen its whole list once */
/* For how long the oldest source has been out of touch; 0 while all streams are open. */
int64_t watcher_age_ms(struct watcher *w);
struct intern *watcher_strings(struct watcher *w); /* the table its views are made with */
