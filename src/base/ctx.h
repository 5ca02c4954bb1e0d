/* SPDX-License-Identifier: Apache-2.0
 * What goes down every blocking call: until when, whether to stop, and where to log.
 *
 * A struct ctx is a small value on the caller's stack. A narrower one is derived from it for a
 * sub-task; nothing is freed. Cancellation is a struct cancel, owned by whoever may pull it; it
 * wakes every blocking call that polls through ctx_poll() or takes ctx_poll_fds() into its own
 * poll loop. */
#pragma once
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct clock;
struct log;

struct cancel {
    atomic_bool fired;
    int fd; /* eventfd; readable from the moment it fired and for ever after */
};

NODISCARD int cancel_init(struct cancel *c, struct err *e);
void cancel_done(struct cancel *c); /* only after every ctx that carries it is gone */
void cancel_fire(struct cancel *c); /* thread-safe, async-signal-safe, idempotent */

enum { CTX_CANCELS_MAX = 4 };
#define CTX_NEVER INT64_MAX

struct ctx {
    const struct clock *clock;
    const struct log *log;
    int64_t deadline_ms; /* boot time; CTX_NEVER = none */
    const struct cancel *cancels[CTX_CANCELS_MAX];
    size_t n_cancels;
};

struct ctx ctx_root(const struct clock *clock, const struct log *log);
struct ctx ctx_with_cancel(const struct ctx *parent, const struct cancel *cancel);
/* The earlier of the parent's deadline and now + timeout_ms. */
struct ctx ctx_with_timeout(const struct ctx *parent, int64_t timeout_ms);
struct ctx ctx_with_log(const struct ctx *parent, const struct log *log);

bool ctx_canceled(const struct ctx *ctx);
int64_t ctx_left_ms(const struct ctx *ctx); /* 0 when over, CTX_NEVER without a deadline */

/* 0, or ERR_CANCELED, or ERR_TIMEOUT. */
NODISCARD int ctx_check(const struct ctx *ctx, struct err *e);

/* The descriptors whose readability means "canceled", for a foreign poll loop. Returns how many
 * of the CTX_CANCELS_MAX places were filled. */
size_t ctx_poll_fds(const struct ctx *ctx, struct pollfd out[CTX_CANCELS_MAX]);

enum { CTX_POLL_FDS_MAX = 64 };

/* poll(2) on up to CTX_POLL_FDS_MAX descriptors that also ends at the deadline or cancellation.
 * Returns the number of ready descriptors, 0 when max_wait_ms passed first (negative: no such
 * limit), or -1: ERR_CANCELED · ERR_TIMEOUT · ERR_IO. */
NODISCARD int ctx_poll(const struct ctx *ctx, struct pollfd *fds, size_t n, int64_t max_wait_ms,
                       struct err *e);

/* 0 after ms, -1 earlier with ERR_CANCELED or ERR_TIMEOUT. */
NODISCARD int ctx_sleep(const struct ctx *ctx, int64_t ms, struct err *e);
