/* SPDX-License-Identifier: Apache-2.0
 * The HTTP/2 session is a sans-I/O engine: bytes from the wire go in, bytes for the wire come
 * out, callbacks tell what happened. Reading comes before writing in every step, so that a
 * connection the server closed while idle is noticed before a request is put on it.
 *
 * Flow control: the connection's window is given back at once and each stream's only as its
 * reader takes messages. So a slow reader stops its own stream and no other, and memory is
 * bounded by one window and one message per stream. */
#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "net/grpc_internal.h"
#include "net/wire.h"

enum {
    READ_BYTES = 32 * 1024,  /* per read; on the stack */
    READ_BUDGET = 8,         /* reads per step: others want their turn */
    WRITE_BYTES = 20 * 1024, /* frames gathered into one write */
    UNSENT_MAX = 256 * 1024, /* we stop asking the engine long before */
    CONN_WINDOW = 16 << 20,
    HEADERS_MAX = 64 * 1024, /* of all header blocks of one call, as HPACK counts */
};

/* Tokens and passwords pass through the engine's memory: it is wiped when given back. */
static void wiping_free(void *p, void *arg)
{
    (void)arg;
    if (p)
        explicit_bzero(p, malloc_usable_size(p));
    free(p);
}

static void *plain_malloc(size_t n, void *arg)
{
    (void)arg;
    return xmalloc(n);
}

static void *plain_calloc(size_t n, size_t size, void *arg)
{
    (void)arg;
    return xcalloc(n, size);
}

static void *wiping_realloc(void *p, size_t n, void *arg)
{
    void *fresh = xmalloc(n);
    if (p) {
        const size_t had = malloc_usable_size(p);
        memcpy(fresh, p, had < n ? had : n);
        wiping_free(p, arg);
    }
    return fresh;
}

static void conn_fail(struct grpc_conn *c, const struct err *why)
{
    if (c->dead)
        return;
    c->dead = true;
    c->why = *why;
    err_wrap(&c->why, "%s", c->ep.authority);
    while (c->calls)
        grpc_call_broken(c->calls, &c->why);
    wire_free(TAKE(c->wire));
    buf_wipe(&c->unsent);
}

/* --- What the engine tells us */

static struct grpc_call *call_of(nghttp2_session *session, int32_t stream_id)
{
    return nghttp2_session_get_stream_user_data(session, stream_id);
}

/* NOLINTNEXTLINE(readability-function-size): the engine says how many parameters there are */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_n, const uint8_t *value, size_t value_n, uint8_t flags, void *arg)
{
    (void)flags;
    (void)arg;
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (!call)
        return 0;
    call->header_bytes += name_n + value_n + 32;
    if (call->header_bytes > HEADERS_MAX) {
        struct err e;
        err_set(&e, ERR_TOO_BIG, 0, "more than %d bytes of headers", HEADERS_MAX);
        grpc_call_broken(call, &e);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE; /* resets the stream */
    }
    grpc_status_header(&call->status, (struct str){(const char *)name, name_n},
                       (struct str){(const char *)value, value_n});
    return 0;
}

static void give_back(nghttp2_session *session, struct grpc_call *call)
{
    const size_t n = grpc_frames_credit(&call->rx);
    if (n > 0)
        (void)nghttp2_session_consume_stream(session, call->stream_id, n); /* fails when gone */
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *bytes,
                   size_t n, void *arg)
{
    (void)flags;
    (void)arg;
    (void)nghttp2_session_consume_connection(session, n); /* fails only when it is over */
    struct grpc_call *call = call_of(session, stream_id);
    if (!call || call->status.http != 200 || !call->status.grpc_type) {
        /* Canceled meanwhile, or the error page of a proxy: read and forgotten. */
        (void)nghttp2_session_consume_stream(session, stream_id, n);
        return 0;
    }
    grpc_frames_add(&call->rx, bytes, n);
    struct str message = {0};
    struct err e;
    if (grpc_frames_peek(&call->rx, &message, &e) < 0) {
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream_id, NGHTTP2_CANCEL);
        grpc_call_broken(call, &e);
        return 0;
    }
    give_back(session, call);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *arg)
{
    struct grpc_conn *c = arg;
    if (frame->hd.type == NGHTTP2_GOAWAY)
        c->draining = true; /* streams past its last id are closed by the engine, as refused */
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (!call)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && call->status.http / 100 == 1)
        call->status.http = 0; /* interim; the answer follows */
    const bool data = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    if (!data || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    /* We may still be sending: the server has said all it will say. */
    const int32_t id = call->stream_id;
    const bool half_open = !(call->tx_last && call->tx_at == call->tx.n);
    grpc_call_end(call, NULL);
    if (half_open)
        (void)nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t code, void *arg)
{
    (void)arg;
    struct grpc_call *call = call_of(session, stream_id);
    if (!call)
        return 0;
    if (call->status.has_code) {
        grpc_call_end(call, NULL);
        return 0;
    }
    struct err e;
    call->refused = code == NGHTTP2_REFUSED_STREAM;
    err_set(&e, ERR_UNAVAILABLE, (int)code, "%s",
            call->refused ? "server refused the call before looking at it" : "stream reset");
    if (!call->refused)
        err_wrap(&e, "%s", nghttp2_http2_strerror(code));
    grpc_call_broken(call, &e);
    return 0;
}

static int setup_session(struct grpc_conn *c, struct err *e)
{
    nghttp2_session_callbacks *callbacks = NULL;
    nghttp2_option *option = NULL;
    nghttp2_mem mem = {NULL, plain_malloc, wiping_free, plain_calloc, wiping_realloc};
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, GRPC_STREAM_WINDOW},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADERS_MAX},
    };
    if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0)
        abort(); /* small allocations */
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_option_set_no_auto_window_update(option, 1);
    nghttp2_option_set_peer_max_concurrent_streams(option, 1000); /* until its SETTINGS come */
    int rc = nghttp2_session_client_new3(&c->session, callbacks, c, option, &mem);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_option_del(option);
    if (rc == 0)
        rc = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, COUNT_OF(settings));
    if (rc == 0)
        rc = nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONN_WINDOW);
    return rc == 0 ? 0 : err_set(e, ERR_BUG, rc, "HTTP/2 set-up: %s", nghttp2_strerror(rc));
}

/* --- Life */

int grpc_conn_new(const struct clock *clock, const struct grpc_conn_options *o,
                  struct grpc_conn **out, struct err *e)
{
    struct endpoint ep = {0};
    if (endpoint_parse(o->url, o->tls != NULL, &ep, e) < 0)
        return -1;
    if (o->server_name && server_name_check(o->server_name, e) < 0) {
        endpoint_done(&ep);
        return -1;
    }
    const char *name = o->server_name ? o->server_name : ep.host;
    struct grpc_conn *c = xcalloc(1, sizeof(*c));
    *c = (struct grpc_conn){
        .clock = clock,
        .ep = ep,
        .server_name = name ? host_without_zone(name) : NULL,
        .unsent = BUF_INIT(UNSENT_MAX),
        .dial_timeout_ms = o->dial_timeout_ms > 0 ? o->dial_timeout_ms : GRPC_DIAL_TIMEOUT_MS,
        .keepalive_ms = o->keepalive_ms > 0 ? o->keepalive_ms : GRPC_KEEPALIVE_MS,
        .keepalive_answer_ms =
            o->keepalive_answer_ms > 0 ? o->keepalive_answer_ms : GRPC_KEEPALIVE_ANSWER_MS,
    };
    if (c->keepalive_ms < GRPC_KEEPALIVE_MIN_MS)
        c->keepalive_ms = GRPC_KEEPALIVE_MIN_MS;
    c->authority = ep.port ? host_with_port(c->server_name, ep.port) : xstrdup(ep.authority);
    c->wire = wire_new(&c->ep, c->server_name, o->tls, "h2");
    if (setup_session(c, e) < 0) {
        grpc_conn_free(c);
        return -1;
    }
    *out = c;
    return 0;
}

void grpc_conn_free(struct grpc_conn *c)
{
    if (!c)
        return;
    struct err e;
    err_set(&e, ERR_UNAVAILABLE, 0, "connection closed on our side");
    conn_fail(c, &e);
    nghttp2_session_del(c->session);
    endpoint_done(&c->ep);
    free(c->server_name);
    free(c->authority);
    free(c);
}

bool grpc_conn_usable(const struct grpc_conn *c)
{
    return !c->dead && !c->draining;
}

bool grpc_conn_open(const struct grpc_conn *c)
{
    return !c->dead && wire_open(c->wire);
}

const struct err *grpc_conn_error(const struct grpc_conn *c)
{
    return c->dead ? &c->why : NULL;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void grpc_conn_poll(const struct grpc_conn *c, struct pollfd *out, int64_t *until_ms)
{
    *out = (struct pollfd){.fd = -1};
    *until_ms = CTX_NEVER;
    if (c->dead)
        return;
    out->fd = wire_fd(c->wire);
    out->events = wire_events(c->wire);
    if (!wire_open(c->wire)) {
        *until_ms = earlier(c->dial_until_ms, wire_timer_ms(c->wire));
        if (out->fd < 0)
            *until_ms = 0;
        return;
    }
    out->events |= POLLIN;
    if (c->more)
        *until_ms = 0;
    else if (c->ping_ms > 0)
        *until_ms = c->ping_ms + c->keepalive_answer_ms;
    else if (c->calls)
        *until_ms = c->heard_ms + c->keepalive_ms;
}

/* --- Moving bytes */

int grpc_conn_feed(struct grpc_conn *c, const uint8_t *bytes, size_t n, struct err *e)
{
    const ssize_t used = nghttp2_session_mem_recv(c->session, bytes, n);
    if (used == NGHTTP2_ERR_BAD_CLIENT_MAGIC || used == NGHTTP2_ERR_CALLBACK_FAILURE)
        return err_set(e, ERR_BUG, (int)used, "HTTP/2: %s", nghttp2_strerror((int)used));
    if (used < 0)
        return err_set(e, ERR_UNAVAILABLE, (int)used, "HTTP/2: %s", nghttp2_strerror((int)used));
    return 0;
}

static int read_some(struct grpc_conn *c, int64_t now_ms, struct err *e)
{
    uint8_t bytes[READ_BYTES];
    c->more = false;
    for (int i = 0; i < READ_BUDGET; i++) {
        size_t n = 0;
        bool again = false;
        if (wire_read(c->wire, bytes, sizeof(bytes), &n, &again, e) < 0)
            return -1;
        if (again)
            return 0;
        if (n == 0)
            return err_set(e, ERR_UNAVAILABLE, ECONNRESET, "server closed the connection");
        c->heard_ms = now_ms;
        c->ping_ms = 0;
        const int rc = grpc_conn_feed(c, bytes, n, e);
        explicit_bzero(bytes, n); /* a token may be among them */
        if (rc < 0)
            return -1;
        if (!c->ep.tls && n < sizeof(bytes))
            return 0; /* a plain socket is empty now */
    }
    c->more = true;
    return 0;
}

/* Writes what is left over from before. False: the socket is full. */
static int write_unsent(struct grpc_conn *c, bool *clear, struct err *e)
{
    while (c->unsent_at < c->unsent.n) {
        size_t n = 0;
        bool again = false;
        if (wire_write(c->wire, c->unsent.p + c->unsent_at, c->unsent.n - c->unsent_at, &n, &again,
                       e) < 0)
            return -1;
        c->unsent_at += n;
        if (again) {
            *clear = false;
            return 0;
        }
    }
    if (c->unsent.p)
        buf_wipe(&c->unsent);
    c->unsent_at = 0;
    *clear = true;
    return 0;
}

/* Gathers frames into one write. */
static int write_some(struct grpc_conn *c, struct err *e)
{
    uint8_t bytes[WRITE_BYTES];
    for (bool clear = true;;) {
        if (write_unsent(c, &clear, e) < 0)
            return -1;
        if (!clear)
            return 0;
        size_t n = 0;
        bool room = true;
        while (room) {
            const uint8_t *piece = NULL;
            const ssize_t len = nghttp2_session_mem_send(c->session, &piece);
            if (len < 0)
                return err_set(e, ERR_BUG, (int)len, "HTTP/2: %s", nghttp2_strerror((int)len));
            if (len == 0)
                break;
            room = n + (size_t)len <= sizeof(bytes) / 8;
            if (n + (size_t)len <= sizeof(bytes)) {
                memcpy(bytes + n, piece, (size_t)len);
                n += (size_t)len;
            } else if (!buf_add(&c->unsent, bytes, n) || !buf_add(&c->unsent, piece, (size_t)len)) {
                return err_set(e, ERR_BUG, 0, "frame larger than any we send");
            } else {
                n = 0;
                room = false;
            }
        }
        if (n == 0 && c->unsent.n == 0)
            return 0;
        size_t put = 0;
        bool again = false;
        if (n > 0 && wire_write(c->wire, bytes, n, &put, &again, e) < 0)
            return -1;
        if (put < n && !buf_add(&c->unsent, bytes + put, n - put))
            return err_set(e, ERR_BUG, 0, "frame larger than any we send");
        explicit_bzero(bytes, n);
    }
}

static int keep_alive(struct grpc_conn *c, int64_t now_ms, struct err *e)
{
    if (c->ping_ms > 0 && now_ms >= c->ping_ms + c->keepalive_answer_ms)
        return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "no sign of life for %lld ms",
                       (long long)(now_ms - c->heard_ms));
    if (c->ping_ms == 0 && c->calls && now_ms >= c->heard_ms + c->keepalive_ms) {
        (void)nghttp2_submit_ping(c->session, NGHTTP2_FLAG_NONE, NULL); /* fails on OOM: aborts */
        c->ping_ms = now_ms;
    }
    return 0;
}

static int dial_step(struct grpc_conn *c, int64_t now_ms, struct err *e)
{
    if (c->dial_until_ms == 0)
        c->dial_until_ms = now_ms + c->dial_timeout_ms;
    if (wire_step(c->wire, now_ms, e) < 0)
        return -1;
    if (wire_open(c->wire)) {
        c->heard_ms = now_ms;
        return 0;
    }
    if (now_ms >= c->dial_until_ms)
        return err_set(e, ERR_UNAVAILABLE, ETIMEDOUT, "not connected after %lld ms",
                       (long long)c->dial_timeout_ms);
    return 0;
}

static int step(struct grpc_conn *c, struct err *e)
{
    const int64_t now_ms = clock_boot_ms(c->clock);
    if (!wire_open(c->wire) && dial_step(c, now_ms, e) < 0)
        return -1;
    if (!wire_open(c->wire))
        return 0;
    if (read_some(c, now_ms, e) < 0 || keep_alive(c, now_ms, e) < 0 || write_some(c, e) < 0)
        return -1;
    if (!nghttp2_session_want_read(c->session) && !nghttp2_session_want_write(c->session))
        return err_set(e, ERR_UNAVAILABLE, 0, "server ended the connection (GOAWAY)");
    return 0;
}

void grpc_conn_step(struct grpc_conn *c)
{
    struct err e = {0};
    if (!c->dead && step(c, &e) < 0)
        conn_fail(c, &e);
}
