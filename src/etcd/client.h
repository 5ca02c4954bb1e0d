/* SPDX-License-Identifier: Apache-2.0
 * A client of one etcd cluster: endpoints, credentials, and which of them work.
 *
 * Everything that takes a ctx blocks and honours it. Not thread-safe: one client per worker.
 *
 * Endpoints. Calls that any member can answer go to one that worked before; a member that cannot
 * be reached or is a learner is left aside for a while, and the next one is tried. A read may be
 * asked of several members until the deadline. A mutating call moves on only while it certainly
 * was not sent; once it was, its failure is ERR_OUTCOME_UNKNOWN and nothing is repeated.
 * Maintenance calls name the endpoint they are for.
 *
 * Identity. With an expected cluster_id every response is checked against it, and a connection
 * is asked for its identity before the first mutating call on it, and before a password or token.
 * A mismatch is ERR_CONFLICT and the connection is dropped; the next endpoint is tried, as after
 * wrong certificates, while nothing was sent.
 *
 * Codes common to all calls: ERR_UNAVAILABLE certainly not done · ERR_TIMEOUT (reads) ·
 * ERR_OUTCOME_UNKNOWN (mutating calls) · ERR_DENIED credentials, certificates or rights ·
 * ERR_CONFLICT wrong cluster · ERR_CANCELED · ERR_CORRUPT, ERR_TOO_BIG the answer. What etcd's
 * own errors become is in etcd/errors.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct clock;
struct ctx;
struct etcd_client;
struct tls_client;

#define ETCD_ANY SIZE_MAX /* for `at`: whichever endpoint works */

struct etcd_endpoint {
    const char *url;
    const char *server_name; /* in the certificate; NULL: the host of the URL */
};

struct etcd_options {
    const struct etcd_endpoint *endpoints;
    size_t n_endpoints;
    struct tls_client *tls; /* NULL: plaintext */
    const char *user;       /* NULL: none */
    struct str password;    /* copied, and wiped with the client */
    uint64_t cluster_id;    /* expected; 0: any */
    int64_t dial_timeout_ms;
    int64_t keepalive_ms;
    int64_t keepalive_answer_ms;
    size_t max_message_bytes; /* of one response; 0: net/grpc.h's default */
};

/* Does not connect yet. ERR_INVALID: an endpoint, or none, or a server name. */
NODISCARD int etcd_client_new(const struct clock *clock, const struct etcd_options *o,
                              struct etcd_client **out, struct err *e);
void etcd_client_free(struct etcd_client *c); /* NULL-safe; watchers and keepers go before it */
AUTO_DEFINE(struct etcd_client, etcd_client_free)

size_t etcd_client_endpoints(const struct etcd_client *c);
const char *etcd_client_url(const struct etcd_client *c, size_t at);

/* Who answered, and at which point of the store. Zero where etcd does not say. */
struct etcd_header {
    uint64_t cluster_id;
    uint64_t member_id;
    int64_t revision;
    uint64_t raft_term;
};
