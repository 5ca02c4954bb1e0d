/* SPDX-License-Identifier: Apache-2.0
 * Shared by probe.c, which asks, and probe_login.c, which gets the token to ask with. */
#pragma once
#include "etcd/probe.h"

struct grpc_call;
struct grpc_conn;

enum question { ASK_STATUS, ASK_ALARMS, ASK_MEMBERS, ASK_READ, QUESTIONS };

enum stage { STAGE_WAITING, STAGE_LOGIN, STAGE_ASK, STAGE_OVER };

struct probe {
    const struct etcd_probe_target *target;
    struct etcd_probe_answer *answer;
    enum stage stage;
    int64_t hold_ms; /* it is left alone until then; 0: it is not */
    int64_t timer_ms;
    struct grpc_conn *conn;
    struct grpc_call *calls[QUESTIONS];
    int64_t start_ms; /* when it was dialed */
    int64_t until_ms; /* counted from the start of the whole probe */
    /* Of probe_login.c: */
    struct grpc_call *identity, *login;
    bool hopeful;           /* it may still give a token */
    bool busy;              /* it is the one that logs in */
    bool met;               /* it was asked who it is, and is not known to be foreign */
    bool stale;             /* it refused the token it was asked with */
    bool bare;              /* it was asked without one */
    int renewals;           /* how often the token was refused */
    int64_t login_until_ms; /* while it is busy */
    struct err declined;    /* why it gives no token; ERR_NONE: it did not say so */
};

/* A call with one request; it never fails, its end does. */
struct grpc_call *probe_call(struct probe *p, const char *path, const void *request,
                             const char *token, int64_t timeout_ms) NONNULL;
/* A call that is over, in our codes. 1: response, 0: not over, -1: *e. */
NODISCARD int probe_finished(struct grpc_call *call, struct str *response, bool *answered,
                             struct err *e);

void probe_login_begin(struct probe *p); /* before anybody steps: counts it among the hopes */
void probe_login_end(struct probe *p);   /* idempotent */

/* In STAGE_LOGIN, once connected. 1: ask, with the token of the login if it has one; 0: wait;
 * -1: the member is over, *answered says whether it said so itself. */
NODISCARD int probe_login_step(struct probe *p, int64_t now_ms, bool *answered, struct err *e);
/* Whether a step would do something that no socket tells about. */
bool probe_login_has_news(const struct probe *p);
int64_t probe_login_timer_ms(const struct probe *p); /* when to step at the latest */

/* A question was refused with *e: whether to log in and ask everything again. If not, *e may say
 * better why. */
bool probe_login_again(struct probe *p, struct err *e);
