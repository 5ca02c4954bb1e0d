/* SPDX-License-Identifier: Apache-2.0
 * One member after the other is asked for the token that all of them take. Each gets a share of
 * the time, so that one that hangs in it does not cost the others their answer; and one that
 * refuses speaks for itself only, since it may not even belong to the cluster. When nobody gives
 * a token, a question without one is answered at least by what is missing. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "etcd/errors.h"
#include "etcd/identity.h"
#include "etcd/message.h"
#include "etcd/probe_internal.h"
#include "net/grpc.h"

enum {
    LOGIN_MAX = 16 * 1024,
    LOGIN_SHARE = 4, /* of a member's time: one login, and what is left for a question without */
    /* A token comes to the other members by the log. One that lags does not know it yet: it is
     * asked again after so long, then twice as long, and so on. */
    RENEW_PAUSE_MS = 10,
    RENEWALS_MAX = 6,
};

void etcd_login_done(struct etcd_login *l)
{
    if (l)
        secret_free(TAKE(l->token));
}

void probe_login_begin(struct probe *p)
{
    p->hopeful = true;
    p->target->login->hopes++;
}

static void let_others_try(struct probe *p)
{
    if (p->busy)
        p->target->login->busy = false;
    p->busy = false;
    grpc_call_free(TAKE(p->identity));
    grpc_call_free(TAKE(p->login));
}

static void lose_hope(struct probe *p)
{
    if (p->hopeful)
        p->target->login->hopes--;
    p->hopeful = false;
}

void probe_login_end(struct probe *p)
{
    let_others_try(p);
    lose_hope(p);
}

static void decline(struct probe *p)
{
    let_others_try(p);
    lose_hope(p);
    err_wrap(&p->declined, "%s", p->target->endpoint.url);
}

static int64_t share_ms(const struct probe *p)
{
    return p->target->timeout_ms / LOGIN_SHARE;
}

static void be_busy(struct probe *p, int64_t now_ms)
{
    p->busy = p->target->login->busy = true;
    p->login_until_ms = now_ms + share_ms(p);
}

/* --- Who it is: before it sees a password or a token. What another cluster says of them says
 * nothing about ours, and it may take its time: it waits for the index that a token names. */

/* 1: known, or a learner, which does not tell; 0: wait; -1: *e. */
static int identify(struct probe *p, bool *answered, struct err *e)
{
    const uint64_t want = p->target->cluster_id;
    if (want == 0 || p->met)
        return 1;
    if (!p->identity) {
        p->identity = identity_ask(p->conn, share_ms(p));
        return 0;
    }
    struct str message = {0};
    bool over = false;
    const int got = grpc_call_peek(p->identity, &message, &over, e);
    if (got == 0 && !over)
        return 0;
    if (got < 0) {
        const struct grpc_status *status = grpc_call_status(p->identity);
        *answered = status->has_code && status->code != GRPC_OK;
        if (*answered)
            (void)etcd_error_map(str_c(status->message), false, e);
        if (!etcd_error_is(e, ETCD_LEARNER))
            return -1;
    } else if (identity_check(p->target->endpoint.url, message_cluster_id(message), want, e) < 0) {
        *answered = true;
        return -1;
    }
    grpc_call_free(TAKE(p->identity));
    p->met = true;
    return 1;
}

/* --- The token */

static int send_login(struct probe *p, struct err *e)
{
    const struct etcd_login *l = p->target->login;
    if (strlen(l->user) + strlen(l->password ? l->password : "") > LOGIN_MAX)
        return err_set(e, ERR_DENIED, 0, "user name and password are too long");
    Pb__AuthenticateRequest m = PB__AUTHENTICATE_REQUEST__INIT;
    m.name = (char *)l->user; /* packing only reads */
    m.password = (char *)(l->password ? l->password : "");
    p->login = probe_call(p, "/etcdserverpb.Auth/Authenticate", &m, NULL, share_ms(p));
    return 0;
}

static int take_token(struct probe *p, struct str response, struct err *e)
{
    const uint64_t got = message_cluster_id(response), want = p->target->cluster_id;
    if (want != 0 && got != 0 && identity_check(p->target->endpoint.url, got, want, e) < 0)
        return -1;
    struct arena *own = NULL;
    void *message = NULL;
    if (message_unpack(&pb__authenticate_response__descriptor, response, &own, &message, e) < 0)
        return -1;
    p->target->login->token = xstrdup(((Pb__AuthenticateResponse *)message)->token);
    arena_free(own, true);
    return 0;
}

/* 1: the question of the token is settled, 0: not by this member, or not yet; -1. */
static int read_login(struct probe *p, bool *answered, struct err *e)
{
    struct str response = {0};
    int got = probe_finished(p->login, &response, answered, e);
    if (got == 0)
        return 0;
    if (got > 0 && take_token(p, response, e) < 0)
        got = -1;
    if (got < 0 && etcd_error_is(e, ETCD_AUTH_DISABLED)) {
        p->target->login->off = true;
        got = 1;
    }
    if (got < 0 && etcd_error_is(e, ETCD_LEARNER)) {
        err_set(&p->declined, ERR_DENIED, 0, "a learner gives no tokens: name a voter too");
        decline(p);
        return 0;
    }
    if (got < 0 && e->code == ERR_TIMEOUT) { /* it has no quorum; its status it may know */
        err_set(&p->declined, ERR_DENIED, 0, "login: %s", e->text);
        decline(p);
        return 0;
    }
    let_others_try(p);
    return got;
}

/* Logs in, if it is this member's turn. As read_login(). */
static int log_in(struct probe *p, int64_t now_ms, bool *answered, struct err *e)
{
    if (p->busy && now_ms >= p->login_until_ms) {
        err_set(&p->declined, ERR_DENIED, 0, "no answer to the login within %lld ms",
                (long long)share_ms(p));
        decline(p);
        return 0;
    }
    if (p->login)
        return read_login(p, answered, e);
    be_busy(p, now_ms);
    return send_login(p, e);
}

/* It refused the token: once per round everybody logs in again, later its log has to catch up. */
static void drop_token(struct probe *p, int64_t now_ms)
{
    struct etcd_login *l = p->target->login;
    p->stale = false;
    if (l->renewed) {
        p->hold_ms = now_ms + ((int64_t)RENEW_PAUSE_MS << p->renewals);
    } else {
        l->renewed = true;
        l->off = false;
        secret_free(TAKE(l->token));
    }
    p->renewals++;
}

static bool is_last_moment(const struct probe *p, int64_t now_ms)
{
    return now_ms >= p->until_ms - share_ms(p);
}

int probe_login_step(struct probe *p, int64_t now_ms, bool *answered, struct err *e)
{
    const struct etcd_login *l = p->target->login;
    if (!l || !l->user)
        return 1;
    const int who = identify(p, answered, e);
    if (who <= 0)
        return who;
    if (p->stale)
        drop_token(p, now_ms);
    if (p->hold_ms > 0)
        return 0;
    if (!l->token && !l->off && p->declined.code == ERR_NONE && (p->busy || !l->busy)) {
        const int got = log_in(p, now_ms, answered, e);
        if (got != 0)
            return got;
    }
    if (l->token || l->off) {
        let_others_try(p);
        return 1;
    }
    p->bare = !p->busy && (l->hopes == 0 || is_last_moment(p, now_ms));
    return p->bare ? 1 : 0;
}

static bool has_message(struct grpc_call *call)
{
    struct str message;
    struct err e;
    bool over = false;
    return call && (grpc_call_peek(call, &message, &over, &e) != 0 || over);
}

bool probe_login_has_news(const struct probe *p)
{
    const struct etcd_login *l = p->target->login;
    if (p->login || p->identity)
        return (p->login && grpc_call_over(p->login)) || has_message(p->identity);
    if (!l || p->hold_ms > 0 || !grpc_conn_open(p->conn))
        return false;
    return l->token || l->off || l->hopes == 0 || (!l->busy && p->declined.code == ERR_NONE);
}

int64_t probe_login_timer_ms(const struct probe *p)
{
    if (p->hold_ms > 0)
        return p->hold_ms;
    if (p->busy)
        return p->login_until_ms;
    const bool waits = grpc_conn_open(p->conn) && !p->identity;
    return waits ? p->until_ms - share_ms(p) : p->until_ms;
}

bool probe_login_again(struct probe *p, struct err *e)
{
    const struct etcd_login *l = p->target->login;
    if (!l || !l->user || !etcd_error_is_stale_token(e))
        return false;
    if (p->bare && !l->token) {
        if (p->declined.code != ERR_NONE)
            *e = p->declined;
        else
            err_set(e, ERR_DENIED, 0, "%s: no member gave a token in time",
                    p->target->endpoint.url);
        return false;
    }
    if (p->renewals == RENEWALS_MAX)
        return false;
    p->stale = !p->bare;
    p->bare = false;
    return true;
}
