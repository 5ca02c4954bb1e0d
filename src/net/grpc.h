/* SPDX-License-Identifier: Apache-2.0
 * A gRPC client: connections and calls on them. docs/internals/grpc.md has the whole contract.
 *
 * A connection is a socket, TLS if asked, and an HTTP/2 session. It never blocks: whoever owns it
 * polls and steps it, either through the blocking grpc_call_next() or, with many connections, in
 * a loop of its own. Any number of calls share a connection. Not thread-safe: a connection and
 * its calls belong to one thread.
 *
 * What a failure becomes: ERR_UNAVAILABLE is "certainly not done". A mutating call whose request
 * may have left the machine and that got no answer is ERR_OUTCOME_UNKNOWN, never ERR_TIMEOUT. */
#pragma once
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "net/grpc_status.h"

struct clock;
struct ctx;
struct tls_client;

enum {
    GRPC_DIAL_TIMEOUT_MS = 5000,
    GRPC_KEEPALIVE_MS = 10000,       /* of silence while a call is open, then a ping */
    GRPC_KEEPALIVE_MIN_MS = 5000,    /* etcd ends connections that ping more often */
    GRPC_KEEPALIVE_ANSWER_MS = 5000, /* a ping unanswered for this long ends the connection */
    GRPC_MESSAGE_MAX = 64 << 20,     /* of a message received, unless the call says otherwise */
    GRPC_STREAM_WINDOW = 4 << 20,    /* what a stream may send before its reader took it */
};

/* --- Connections */

struct grpc_conn;

struct grpc_conn_options {
    struct str url;          /* see net/endpoint.h */
    const char *server_name; /* in certificate and :authority; NULL: the host of the URL */
    struct tls_client *tls;  /* for https; NULL: an URL without scheme is plaintext */
    int64_t dial_timeout_ms; /* look-up, connect and handshake; 0: GRPC_DIAL_TIMEOUT_MS */
    int64_t keepalive_ms;    /* 0: GRPC_KEEPALIVE_MS; less than the minimum is raised to it */
    int64_t keepalive_answer_ms;
};

/* Does not dial yet: the first step does. Strings are copied. ERR_INVALID: the URL, or the server
 * name. */
NODISCARD int grpc_conn_new(const struct clock *clock, const struct grpc_conn_options *o,
                            struct grpc_conn **out, struct err *e);
void grpc_conn_free(struct grpc_conn *c); /* open calls end with ERR_UNAVAILABLE; NULL-safe */

bool grpc_conn_usable(const struct grpc_conn *c); /* takes new calls: not closed, no GOAWAY */
bool grpc_conn_open(const struct grpc_conn *c);   /* dialing is over */
const struct err *grpc_conn_error(const struct grpc_conn *c); /* why it closed; NULL: it did not */

/* For a foreign poll loop: what to wait for, and until when (boot time) at the latest. Then step,
 * whatever happened. fd is -1 when there is nothing to wait for but time. A step may end any call
 * of the connection, and the socket does not tell about what was read: look at the calls between
 * the last step and the wait. */
void grpc_conn_poll(const struct grpc_conn *c, struct pollfd *out, int64_t *until_ms);
void grpc_conn_step(struct grpc_conn *c);

/* Blocks until dialing is over. -1: ERR_UNAVAILABLE, ERR_DENIED (certificates), or as ctx says. */
NODISCARD int grpc_conn_wait_open(const struct ctx *ctx, struct grpc_conn *c, struct err *e);

/* --- Calls */

struct grpc_call;

struct grpc_header {
    const char *name; /* lower case */
    struct str value;
    bool secret; /* kept out of compression tables */
};

struct grpc_call_options {
    const char *path; /* "/etcdserverpb.KV/Range" */
    bool mutating;    /* tell "perhaps done" apart from "certainly not done" */
    const struct grpc_header *headers;
    size_t n_headers;
    int64_t timeout_ms;       /* told to the server; 0: none */
    size_t max_message_bytes; /* 0: GRPC_MESSAGE_MAX */
};

/* Never fails: a call on a connection that is closed is over at once, with the reason. */
struct grpc_call *grpc_call_new(struct grpc_conn *c, const struct grpc_call_options *o) NONNULL;
void grpc_call_free(struct grpc_call *call); /* cancels what is not over; NULL-safe */
AUTO_DEFINE(struct grpc_call, grpc_call_free)

/* Queues a message; last: nothing follows it. ERR_TOO_BIG: 64 MiB are waiting already. */
NODISCARD int grpc_call_send(struct grpc_call *call, struct str message, bool last, struct err *e);

/* Without blocking: 1 and a message, borrowed until grpc_call_pop(); 0 nothing now; -1 over with
 * this error. *over tells a clean end (0 and over) from waiting. */
NODISCARD int grpc_call_peek(struct grpc_call *call, struct str *message, bool *over,
                             struct err *e);
void grpc_call_pop(struct grpc_call *call); /* gives the window back to the server */

/* Blocks until there is a message (1), or the server ended the call with OK (0), or -1: what the
 * call ended with, or ERR_TIMEOUT, ERR_CANCELED, ERR_OUTCOME_UNKNOWN as ctx says. */
NODISCARD int grpc_call_next(const struct ctx *ctx, struct grpc_call *call, struct str *message,
                             struct err *e);

/* What the server said so far. has_code with a code that is not OK: the error above came from
 * this, so a caller who knows the server's texts may read them. */
const struct grpc_status *grpc_call_status(const struct grpc_call *call);

/* Whether the server turned the call away unseen (REFUSED_STREAM, GOAWAY): on a new connection it
 * may do better. */
bool grpc_call_refused(const struct grpc_call *call);

/* Whether nothing more comes from the connection: what is left is to peek. */
bool grpc_call_over(const struct grpc_call *call);

/* What the ctx ending means for this call: see above. Fills *e from the ctx error in it. */
int grpc_call_abandoned(const struct grpc_call *call, struct err *e);

/* One request, one response. ready() of the non-blocking form: 1 and the response, 0 not yet, -1.
 */
NODISCARD int grpc_unary_ready(struct grpc_call *call, struct str *response, struct err *e);
NODISCARD int grpc_unary_wait(const struct ctx *ctx, struct grpc_call *call, struct str *response,
                              struct err *e);
