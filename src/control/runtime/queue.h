/* SPDX-License-Identifier: Apache-2.0
 * De-duplicating work queue with delays. Thread-safe.
 *
 * A key that is handed out is not handed out again before wq_done(); adding it meanwhile marks it,
 * and done queues it again. Of several delays the earliest wins. Backoff is per key, exponential
 * and jittered; wq_forget() ends it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "control/runtime/objkey.h"

struct clock;
struct metrics;
struct wq;

enum {
    WQ_SOON_MS = 200, /* first retry of what is likely to pass by itself … */
    WQ_SOON_MAX_MS = 30 * 1000,
    WQ_CAPPED_MS = 5 * 1000, /* … and of what needs somebody: a repaired right sends no event */
    WQ_CAPPED_MAX_MS = 5 * 60 * 1000,
};

enum wq_backoff { WQ_SOON, WQ_CAPPED };

struct wq *wq_new(const struct clock *clock, struct metrics *metrics) NONNULL; /* metrics or NULL */
void wq_free(struct wq *q); /* NULL-safe; no thread may use it any more */
AUTO_DEFINE(struct wq, wq_free)

void wq_add(struct wq *q, const struct objkey *key);
void wq_add_after(struct wq *q, const struct objkey *key, int64_t ms);
/* Waits at least at_least_ms (0: nothing was said), never longer than WQ_CAPPED_MAX_MS. */
void wq_add_backoff(struct wq *q, const struct objkey *key, enum wq_backoff how,
                    uint32_t at_least_ms);
void wq_forget(struct wq *q, const struct objkey *key);

/* Blocks until a key is due; false: wq_stop() was called. */
NODISCARD bool wq_get(struct wq *q, struct objkey *out);
NODISCARD bool wq_try_get(struct wq *q, struct objkey *out); /* false: nothing is due */
void wq_done(struct wq *q, const struct objkey *key);

void wq_stop(struct wq *q); /* from now on nothing is handed out; idempotent */

/* Keys that wait or are due; those being worked on are not counted. */
size_t wq_depth(struct wq *q);
/* Milliseconds until the next key is due; 0: now; -1: none waits. */
int64_t wq_next_ms(struct wq *q);
