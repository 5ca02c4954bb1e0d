/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "net/grpc_internal.h"

enum { SEND_MAX = 64 << 20, HEADERS_OWN = 8, HEADERS_EXTRA = 8 };

/* --- The end of a call */

static void unlink_call(struct grpc_call *call)
{
    struct grpc_conn *c = call->conn;
    if (!c)
        return;
    if (call->prev)
        call->prev->next = call->next;
    else
        c->calls = call->next;
    if (call->next)
        call->next->prev = call->prev;
    call->next = call->prev = NULL;
    call->conn = NULL;
    if (call->stream_id > 0) /* fails when the stream is gone, and then nobody asks */
        (void)nghttp2_session_set_stream_user_data(c->session, call->stream_id, NULL);
}

void grpc_call_end(struct grpc_call *call, const struct err *why)
{
    if (call->over)
        return;
    unlink_call(call);
    call->over = true;
    call->ok = why == NULL;
    if (why)
        call->why = *why;
    buf_wipe(&call->tx);
}

void grpc_call_broken(struct grpc_call *call, const struct err *why)
{
    struct err e = *why;
    const bool certain = call->refused || !call->sent || e.code == ERR_DENIED;
    if (call->mutating && !certain)
        e.code = ERR_OUTCOME_UNKNOWN;
    grpc_call_end(call, &e);
}

int grpc_call_abandoned(const struct grpc_call *call, struct err *e)
{
    if (!call->mutating)
        return -1;
    if (call->sent && !call->refused) {
        e->code = ERR_OUTCOME_UNKNOWN;
        return err_wrap(e, "request sent, no answer yet");
    }
    if (e->code == ERR_TIMEOUT)
        e->code = ERR_UNAVAILABLE;
    return err_wrap(e, "request not sent yet");
}

/* --- Sending */

static ssize_t read_request(nghttp2_session *session, int32_t stream_id, uint8_t *into, size_t cap,
                            uint32_t *flags, nghttp2_data_source *source, void *arg)
{
    (void)source;
    (void)arg;
    struct grpc_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    if (!call)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* canceled: a reset is on its way */
    const size_t left = call->tx.n - call->tx_at;
    if (left == 0 && !call->tx_last)
        return NGHTTP2_ERR_DEFERRED;
    const size_t n = left < cap ? left : cap;
    if (n > 0)
        memcpy(into, call->tx.p + call->tx_at, n);
    call->tx_at += n;
    if (n == left) {
        buf_wipe(&call->tx);
        call->tx_at = 0;
        if (call->tx_last) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
            call->sent = true;
        }
    }
    return (ssize_t)n;
}

static nghttp2_nv nv_of(const char *name, struct str value, bool secret)
{
    return (nghttp2_nv){
        .name = (uint8_t *)name,
        .value = (uint8_t *)value.p,
        .namelen = strlen(name),
        .valuelen = value.n,
        .flags = secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE,
    };
}

/* Eight digits at most: past a day and a bit, seconds. */
static void print_timeout(int64_t ms, char *out, size_t size)
{
    if (ms < 100000000)
        (void)snprintf(out, size, "%lldm", (long long)ms);
    else
        (void)snprintf(out, size, "%lldS",
                       (long long)(ms / 1000 < 99999999 ? ms / 1000 : 99999999));
}

static int submit(struct grpc_call *call, const struct grpc_call_options *o)
{
    struct grpc_conn *c = call->conn;
    char timeout[24];
    nghttp2_nv nv[HEADERS_OWN + HEADERS_EXTRA] = {
        nv_of(":method", STR("POST"), false),
        nv_of(":scheme", c->ep.tls ? STR("https") : STR("http"), false),
        nv_of(":path", str_c(o->path), false),
        nv_of(":authority", str_c(c->authority), false),
        nv_of("te", STR("trailers"), false),
        nv_of("content-type", STR("application/grpc"), false),
        nv_of("user-agent", STR("raftsman"), false),
    };
    size_t n = HEADERS_OWN - 1;
    if (o->timeout_ms > 0) {
        print_timeout(o->timeout_ms, timeout, sizeof(timeout));
        nv[n++] = nv_of("grpc-timeout", str_c(timeout), true); /* never the same: not indexed */
    }
    assert(o->n_headers <= HEADERS_EXTRA);
    for (size_t i = 0; i < o->n_headers; i++)
        nv[n++] = nv_of(o->headers[i].name, o->headers[i].value, o->headers[i].secret);
    const nghttp2_data_provider body = {.read_callback = read_request};
    return nghttp2_submit_request(c->session, NULL, nv, n, &body, call);
}

struct grpc_call *grpc_call_new(struct grpc_conn *c, const struct grpc_call_options *o)
{
    struct grpc_call *call = xcalloc(1, sizeof(*call));
    *call = (struct grpc_call){.mutating = o->mutating, .tx = BUF_INIT(SEND_MAX)};
    grpc_frames_init(&call->rx, o->max_message_bytes > 0 ? o->max_message_bytes : GRPC_MESSAGE_MAX);
    if (!grpc_conn_usable(c)) {
        struct err e = c->why;
        call->refused = !c->dead;
        if (call->refused)
            err_set(&e, ERR_UNAVAILABLE, 0, "%s: server takes no more calls (GOAWAY)",
                    c->ep.authority);
        grpc_call_end(call, &e);
        return call;
    }
    call->conn = c;
    const int rc = submit(call, o);
    if (rc < 0) { /* stream ids used up: the connection lived for 2^30 calls */
        struct err e;
        err_set(&e, ERR_UNAVAILABLE, rc, "%s: %s", c->ep.authority, nghttp2_strerror(rc));
        call->conn = NULL;
        c->draining = true;
        grpc_call_end(call, &e);
        return call;
    }
    call->stream_id = rc;
    call->next = c->calls;
    if (c->calls)
        c->calls->prev = call;
    c->calls = call;
    const int64_t now_ms = clock_boot_ms(c->clock);
    if (c->ping_ms == 0 && now_ms > c->heard_ms)
        c->heard_ms = now_ms;
    return call;
}

void grpc_call_free(struct grpc_call *call)
{
    if (!call)
        return;
    struct grpc_conn *c = call->conn;
    if (c) {
        (void)nghttp2_submit_rst_stream(c->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                        NGHTTP2_CANCEL); /* fails only on OOM */
        unlink_call(call);
        grpc_conn_step(c);
    }
    grpc_frames_done(&call->rx);
    buf_wipe(&call->tx);
    free(call);
}

int grpc_call_send(struct grpc_call *call, struct str message, bool last, struct err *e)
{
    if (call->over)
        return 0; /* peek() says why */
    assert(!call->tx_last);
    if (message.n > UINT32_MAX)
        return err_set(e, ERR_TOO_BIG, 0, "request of %zu bytes", message.n);
    char head[GRPC_FRAME_HEAD];
    grpc_frame_head(message.n, head);
    if (!buf_reserve(&call->tx, sizeof(head) + message.n))
        return buf_check(&call->tx, "request", e);
    buf_add(&call->tx, head, sizeof(head));
    buf_add_str(&call->tx, message);
    call->tx_last = last;
    (void)nghttp2_session_resume_data(call->conn->session, call->stream_id); /* if it waited */
    return 0;
}

/* --- Receiving */

const struct grpc_status *grpc_call_status(const struct grpc_call *call)
{
    return &call->status;
}

bool grpc_call_refused(const struct grpc_call *call)
{
    return call->refused;
}

bool grpc_call_over(const struct grpc_call *call)
{
    return call->over;
}

int grpc_call_peek(struct grpc_call *call, struct str *message, bool *over, struct err *e)
{
    *over = false;
    const int whole = grpc_frames_peek(&call->rx, message, e);
    if (whole > 0)
        return 1;
    if (whole < 0 && call->conn) { /* the bad head stood behind a good message */
        (void)nghttp2_submit_rst_stream(call->conn->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                        NGHTTP2_CANCEL);
        grpc_call_broken(call, e);
    }
    if (!call->over)
        return 0;
    *over = true;
    if (!call->ok) {
        *e = call->why;
        return -1;
    }
    if (grpc_status_result(&call->status, call->mutating, e) < 0)
        return -1;
    if (!grpc_frames_empty(&call->rx))
        return err_set(e, call->mutating ? ERR_OUTCOME_UNKNOWN : ERR_CORRUPT, 0,
                       "stream ended inside a message");
    return 0;
}

void grpc_call_pop(struct grpc_call *call)
{
    grpc_frames_pop(&call->rx);
    const size_t n = grpc_frames_credit(&call->rx);
    if (n > 0 && call->conn)
        (void)nghttp2_session_consume_stream(call->conn->session, call->stream_id, n);
}

/* One turn: step, then wait for the socket, the timers or the end of ctx. */
static int turn(const struct ctx *ctx, struct grpc_conn *c, struct err *e)
{
    struct pollfd fd;
    int64_t until_ms = CTX_NEVER;
    grpc_conn_poll(c, &fd, &until_ms);
    int64_t wait_ms = -1;
    if (until_ms != CTX_NEVER) {
        const int64_t left_ms = until_ms - clock_boot_ms(c->clock);
        wait_ms = left_ms > 0 ? left_ms : 0;
    }
    if (ctx_poll(ctx, &fd, fd.fd >= 0 ? 1 : 0, wait_ms, e) < 0)
        return -1;
    return 0;
}

/* A call that is not over has its connection do what it can, after a wait unless it is the first
 * time. What nobody waits for any more is not sent. */
static int go_on(const struct ctx *ctx, struct grpc_call *call, bool first, struct err *e)
{
    struct grpc_conn *c = call->conn;
    if (!c)
        return err_set(e, ERR_BUG, 0, "call without connection");
    if ((first ? ctx_check(ctx, e) : turn(ctx, c, e)) < 0)
        return grpc_call_abandoned(call, e);
    grpc_conn_step(c);
    return 0;
}

int grpc_call_next(const struct ctx *ctx, struct grpc_call *call, struct str *message,
                   struct err *e)
{
    if (ctx_check(ctx, e) < 0) /* also while messages wait: a slow reader has a deadline too */
        return grpc_call_abandoned(call, e);
    for (bool first = true;; first = false) {
        bool over = false;
        const int got = grpc_call_peek(call, message, &over, e);
        if (got != 0 || over)
            return got;
        if (go_on(ctx, call, first, e) < 0)
            return -1;
    }
}

int grpc_unary_ready(struct grpc_call *call, struct str *response, struct err *e)
{
    bool over = false;
    if (!call->over)
        return 0; /* the verdict is in the trailers, behind the message */
    if (!call->ok) {
        *e = call->why;
        return -1;
    }
    if (grpc_status_result(&call->status, call->mutating, e) < 0)
        return -1;
    const int got = grpc_call_peek(call, response, &over, e);
    if (got < 0)
        return -1;
    if (got == 0 || call->rx.n - call->rx.at != GRPC_FRAME_HEAD + response->n)
        return err_set(e, call->mutating ? ERR_OUTCOME_UNKNOWN : ERR_CORRUPT, 0,
                       "expected one message and got %s", got == 0 ? "none" : "more");
    return 1;
}

int grpc_unary_wait(const struct ctx *ctx, struct grpc_call *call, struct str *response,
                    struct err *e)
{
    for (bool first = true;; first = false) {
        const int got = grpc_unary_ready(call, response, e);
        if (got != 0)
            return got < 0 ? -1 : 0;
        if (go_on(ctx, call, first, e) < 0)
            return -1;
    }
}

int grpc_conn_wait_open(const struct ctx *ctx, struct grpc_conn *c, struct err *e)
{
    for (bool first = true;; first = false) {
        if (c->dead) {
            *e = c->why;
            return -1;
        }
        if (!first && turn(ctx, c, e) < 0)
            return err_wrap(e, "%s: connecting", c->ep.authority);
        grpc_conn_step(c);
        if (grpc_conn_open(c))
            return 0;
    }
}
