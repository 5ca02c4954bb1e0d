/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ctx.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

int cancel_init(struct cancel *c, struct err *e)
{
    atomic_init(&c->fired, false);
    c->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (c->fd < 0)
        return err_set_errno(e, errno, "eventfd");
    return 0;
}

void cancel_done(struct cancel *c)
{
    if (c->fd >= 0)
        (void)close(c->fd);
    c->fd = -1;
}

void cancel_fire(struct cancel *c)
{
    const int saved = errno; /* may run inside a signal handler */
    atomic_store(&c->fired, true);
    const uint64_t one = 1;
    /* Nobody drains it, so it only fails when it is full, and then it is readable anyway. */
    ssize_t ignored = write(c->fd, &one, sizeof(one));
    (void)ignored;
    errno = saved;
}

struct ctx ctx_root(const struct clock *clock, const struct log *log)
{
    return (struct ctx){.clock = clock, .log = log, .deadline_ms = CTX_NEVER};
}

struct ctx ctx_with_cancel(const struct ctx *parent, const struct cancel *cancel)
{
    struct ctx child = *parent;
    assert(child.n_cancels < CTX_CANCELS_MAX);
    child.cancels[child.n_cancels++] = cancel;
    return child;
}

struct ctx ctx_with_timeout(const struct ctx *parent, int64_t timeout_ms)
{
    struct ctx child = *parent;
    int64_t deadline_ms = 0;
    if (__builtin_add_overflow(clock_boot_ms(parent->clock), timeout_ms, &deadline_ms))
        deadline_ms = CTX_NEVER;
    if (deadline_ms < child.deadline_ms)
        child.deadline_ms = deadline_ms;
    return child;
}

struct ctx ctx_with_log(const struct ctx *parent, const struct log *log)
{
    struct ctx child = *parent;
    child.log = log;
    return child;
}

bool ctx_canceled(const struct ctx *ctx)
{
    for (size_t i = 0; i < ctx->n_cancels; i++)
        if (atomic_load(&ctx->cancels[i]->fired))
            return true;
    return false;
}

int64_t ctx_left_ms(const struct ctx *ctx)
{
    if (ctx->deadline_ms == CTX_NEVER)
        return CTX_NEVER;
    const int64_t left_ms = ctx->deadline_ms - clock_boot_ms(ctx->clock);
    return left_ms > 0 ? left_ms : 0;
}

int ctx_check(const struct ctx *ctx, struct err *e)
{
    if (ctx_canceled(ctx))
        return err_set(e, ERR_CANCELED, 0, "canceled");
    if (ctx_left_ms(ctx) == 0)
        return err_set(e, ERR_TIMEOUT, 0, "deadline exceeded");
    return 0;
}

size_t ctx_poll_fds(const struct ctx *ctx, struct pollfd out[CTX_CANCELS_MAX])
{
    for (size_t i = 0; i < ctx->n_cancels; i++)
        out[i] = (struct pollfd){.fd = ctx->cancels[i]->fd, .events = POLLIN};
    return ctx->n_cancels;
}

int ctx_poll(const struct ctx *ctx, struct pollfd *fds, size_t n, int64_t max_wait_ms,
             struct err *e)
{
    assert(n <= CTX_POLL_FDS_MAX);
    struct pollfd all[CTX_POLL_FDS_MAX + CTX_CANCELS_MAX];
    if (n > 0)
        memcpy(all, fds, n * sizeof(*fds));
    const size_t n_all = n + ctx_poll_fds(ctx, all + n);
    const int64_t until_ms = max_wait_ms < 0 ? CTX_NEVER : clock_boot_ms(ctx->clock) + max_wait_ms;

    for (;;) {
        if (ctx_check(ctx, e) < 0)
            return -1;
        int64_t wait_ms = ctx_left_ms(ctx);
        if (until_ms != CTX_NEVER) {
            const int64_t left_ms = until_ms - clock_boot_ms(ctx->clock);
            if (left_ms < wait_ms)
                wait_ms = left_ms > 0 ? left_ms : 0;
        }
        const int timeout = wait_ms == CTX_NEVER ? -1 : wait_ms > INT_MAX ? INT_MAX : (int)wait_ms;
        const int ready = poll(all, n_all, timeout);
        if (ready < 0 && errno != EINTR)
            return err_set_errno(e, errno, "poll");
        if (ready > 0 && ctx_canceled(ctx))
            continue; /* ctx_check() says it */
        if (ready > 0) {
            if (n > 0)
                memcpy(fds, all, n * sizeof(*fds));
            return ready;
        }
        if (until_ms != CTX_NEVER && clock_boot_ms(ctx->clock) >= until_ms)
            return ctx_check(ctx, e);
    }
}

int ctx_sleep(const struct ctx *ctx, int64_t ms, struct err *e)
{
    return ctx_poll(ctx, NULL, 0, ms > 0 ? ms : 0, e);
}
