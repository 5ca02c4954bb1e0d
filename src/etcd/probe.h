/* SPDX-License-Identifier: Apache-2.0
 * Asks many members of many clusters at once, each under its own deadline, in one thread and one
 * poll loop. What a member does not answer is unknown, and says why; unknown is not unhealthy. */
#pragma once
#include "etcd/client.h"
#include "etcd/cluster.h"
#include "etcd/maintenance.h"

/* What to log in with, shared by the members of a cluster: the first one that needs the token
 * fetches it, the next one if that takes more than a quarter of its time. Keep it between rounds
 * to keep the token. */
struct etcd_login {
    const char *user;
    const char *password;
    char *token; /* owned; NULL: none yet */
    bool off;    /* the cluster does not ask for one */
    /* While a probe runs: */
    bool busy, renewed;
    size_t hopes; /* members that may still give a token */
};
void etcd_login_done(struct etcd_login *l); /* wipes the token */

enum etcd_probe_ask {
    ETCD_ASK_ALARMS = 1,  /* needs quorum */
    ETCD_ASK_MEMBERS = 2, /* linearizable: needs quorum */
    ETCD_ASK_READ = 4,    /* a linearizable read of nothing: does it take part in a quorum? */
};

struct etcd_probe_target {
    struct etcd_endpoint endpoint;
    struct tls_client *tls;
    uint64_t cluster_id; /* expected; 0: any */
    struct etcd_login *login;
    unsigned ask; /* besides its status: enum etcd_probe_ask */
    int64_t timeout_ms;
};

enum etcd_probe_outcome {
    ETCD_PROBE_UNKNOWN, /* not asked: the probe was canceled */
    ETCD_PROBE_ANSWERED,
    ETCD_PROBE_REFUSED,   /* nobody listens, no route, name unknown, connection cut */
    ETCD_PROBE_TIMED_OUT, /* silence until the deadline */
    ETCD_PROBE_TLS,       /* certificates or handshake */
    ETCD_PROBE_AUTH,      /* user, password or rights */
    ETCD_PROBE_FOREIGN,   /* another cluster answered there */
    ETCD_PROBE_FAILED,    /* it answered with an error, or not gRPC */
};
const char *etcd_probe_outcome_name(enum etcd_probe_outcome o); /* "timed out" */

/* Each of the further questions is unknown, good, or bad with its error. */
struct etcd_probe_fact {
    enum { ETCD_FACT_UNKNOWN, ETCD_FACT_YES, ETCD_FACT_NO } known;
    struct err err;
};

struct etcd_probe_answer {
    enum etcd_probe_outcome outcome; /* of asking for the status */
    struct err err;                  /* when it is not ANSWERED */
    int64_t took_ms;
    struct etcd_status status;
    struct etcd_probe_fact read, has_alarms, has_members;
    struct etcd_alarms alarms;
    struct etcd_members members;
};
void etcd_probe_answer_done(struct etcd_probe_answer *a); /* idempotent */

/* Fills answers[n]; each must be zero. Returns when the last one has answered or its time is
 * over. -1: ERR_CANCELED or ERR_TIMEOUT of ctx, ERR_IO; the answers are valid all the same. */
NODISCARD int etcd_probe(const struct ctx *ctx, const struct etcd_probe_target *targets, size_t n,
                         struct etcd_probe_answer *answers, struct err *e);
