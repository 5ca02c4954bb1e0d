/* SPDX-License-Identifier: Apache-2.0
 * Shared by grpc_conn.c and grpc_call.c. */
#pragma once
#include <nghttp2/nghttp2.h>

#include "base/buf.h"
#include "net/endpoint.h"
#include "net/grpc.h"
#include "net/grpc_frame.h"

struct wire;

struct grpc_conn {
    const struct clock *clock;
    struct endpoint ep;
    char *server_name; /* NULL: a Unix socket, and none was given */
    char *authority;
    struct wire *wire;
    nghttp2_session *session;
    struct buf unsent; /* what the socket did not take */
    size_t unsent_at;
    struct grpc_call *calls; /* those not over */
    bool draining;           /* GOAWAY: no new calls */
    bool more;               /* stopped reading before the socket was empty */
    bool dead;
    struct err why; /* once dead */
    int64_t dial_timeout_ms, dial_until_ms;
    int64_t keepalive_ms, keepalive_answer_ms;
    int64_t heard_ms; /* last sign of life, or start of the newest call */
    int64_t ping_ms;  /* when the unanswered ping was sent; 0: none */
};

struct grpc_call {
    struct grpc_conn *conn; /* NULL once over */
    struct grpc_call *next, *prev;
    int32_t stream_id;
    bool mutating;
    bool sent; /* the end of the request was handed to the socket, or may have been */
    bool over;
    bool ok;        /* over, and the server's status is the verdict */
    bool refused;   /* over, and the server certainly did not look at it */
    struct err why; /* over and not ok */
    struct grpc_status status;
    size_t header_bytes;
    struct grpc_frames rx;
    struct buf tx;
    size_t tx_at;
    bool tx_last;
};

/* Ends a call: with *why, or with the status the server sent if why is NULL. */
void grpc_call_end(struct grpc_call *call, const struct err *why);
/* The error of a call whose connection or stream broke, by what may have left the machine. */
void grpc_call_broken(struct grpc_call *call, const struct err *why);

/* Bytes from the server, whatever they came through. ERR_UNAVAILABLE: not HTTP/2 any more. */
NODISCARD int grpc_conn_feed(struct grpc_conn *c, const uint8_t *bytes, size_t n, struct err *e);
