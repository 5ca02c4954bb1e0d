/* SPDX-License-Identifier: Apache-2.0
 * What the modules of etcd/ share: one call, one stream. Not for use outside this folder. */
#pragma once
#include "etcd/client.h"
#include "etcd/message.h"

struct grpc_call;
struct grpc_conn;

struct etcd_rpc {
    const char *path;
    const ProtobufCMessageDescriptor *response;
    bool mutating;
    bool unchecked; /* the response has no cluster_id: the connection must be known before */
    bool open;      /* sent without token */
    bool leader;    /* a stream that shall end when the member loses sight of the leader */
    bool secret;    /* the request or the response carries one */
};

struct etcd_reply {
    struct arena *own;
    void *message; /* of the response type */
    bool answered; /* on failure: the server itself said so */
    bool refused;  /* on failure: the server did not look at it, for the connection's sake */
};

void etcd_reply_done(struct etcd_reply *r); /* idempotent */

NODISCARD int etcd_call(const struct ctx *ctx, struct etcd_client *c, size_t at,
                        const struct etcd_rpc *rpc, const void *request, struct etcd_reply *out,
                        struct err *e);

/* A stream on an endpoint that works, opened with token. *out_at names the
 * endpoint: report its failure with etcd_stream_failed(). */
NODISCARD int etcd_stream(const struct ctx *ctx, struct etcd_client *c, size_t at,
                          const struct etcd_rpc *rpc, struct grpc_call **out, size_t *out_at,
                          struct err *e);
/* True: the token was not taken, and the next stream gets a new one. */
bool etcd_stream_failed(struct etcd_client *c, size_t at, const struct err *e);
/* Turns the end of a stream into our codes, after grpc_call_next() returned -1. Always -1. */
int etcd_stream_error(struct etcd_client *c, size_t at, const struct grpc_call *call,
                      struct err *e);
/* ERR_CONFLICT: another cluster answered; the connection is dropped. */
NODISCARD int etcd_check_cluster(struct etcd_client *c, size_t at, struct str response,
                                 struct err *e);
/* 1 and an unpacked message of the stream, 0 clean end, -1. */
NODISCARD int etcd_stream_next(const struct ctx *ctx, struct etcd_client *c, size_t at,
                               const struct etcd_rpc *rpc, struct grpc_call *call,
                               struct etcd_reply *out, struct err *e);
const struct clock *etcd_client_clock(const struct etcd_client *c);

struct etcd_header etcd_header_of(const Pb__Header *h); /* NULL: zeroes */
