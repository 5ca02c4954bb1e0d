/* SPDX-License-Identifier: Apache-2.0
 * Which endpoint to ask, with which token, and what a failure means for the next one. */
#include "etcd/client.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/fault.h"
#include "base/mem.h"
#include "etcd/client_internal.h"
#include "etcd/errors.h"
#include "etcd/identity.h"
#include "net/grpc.h"
#include "net/tls.h"

enum {
    REQUEST_MAX = 64 << 20, /* etcd itself refuses more than 2 MiB unless told otherwise */
    ATTEMPT_MIN_MS = 1000,  /* the least a member gets before the next one is asked */
    ASIDE_MIN_MS = 1000,
    ASIDE_MAX_MS = 30000,
    LEARNER_ASIDE_MS = 5000, /* it may be promoted any moment */
    ENDPOINTS_MAX = 64,
};

struct slot {
    char *url, *server_name;
    struct grpc_conn *conn; /* NULL: not dialed */
    bool known;             /* the expected cluster answered on this connection */
    unsigned failures;      /* in a row */
    int64_t aside_until_ms; /* failed: others first */
    int64_t learner_until_ms;
};

struct etcd_client {
    const struct clock *clock;
    struct slot *slots;
    size_t n;
    size_t current; /* worked last */
    struct tls_client *tls;
    char *user;
    char *password;
    char *token;
    uint64_t cluster_id;
    struct grpc_conn_options conn;
    size_t max_message_bytes;
};

static const struct etcd_rpc rpc_status = {
    .path = "/etcdserverpb.Maintenance/Status",
    .response = &pb__status_response__descriptor,
};
static const struct etcd_rpc rpc_status_open = {
    .path = "/etcdserverpb.Maintenance/Status",
    .response = &pb__status_response__descriptor,
    .open = true,
};
static const struct etcd_rpc rpc_authenticate = {
    .path = "/etcdserverpb.Auth/Authenticate",
    .response = &pb__authenticate_response__descriptor,
    .open = true,
    .secret = true,
};

/* --- Life */

static int check_options(const struct etcd_options *o, struct err *e)
{
    if (o->n_endpoints == 0 || o->n_endpoints > ENDPOINTS_MAX)
        return err_set(e, ERR_INVALID, 0, "%zu endpoints given, expected 1 to %d", o->n_endpoints,
                       ENDPOINTS_MAX);
    if (o->user && o->user[0] == '\0')
        return err_set(e, ERR_INVALID, 0, "user name is empty");
    return 0;
}

int etcd_client_new(const struct clock *clock, const struct etcd_options *o,
                    struct etcd_client **out, struct err *e)
{
    if (check_options(o, e) < 0)
        return -1;
    AUTO(etcd_client_free_auto) struct etcd_client *c = xcalloc(1, sizeof(*c));
    *c = (struct etcd_client){
        .clock = clock,
        .slots = xcalloc(o->n_endpoints, sizeof(*c->slots)),
        .tls = o->tls ? tls_client_ref(o->tls) : NULL,
        .user = o->user ? xstrdup(o->user) : NULL,
        .cluster_id = o->cluster_id,
        .conn = {.dial_timeout_ms = o->dial_timeout_ms,
                 .keepalive_ms = o->keepalive_ms,
                 .keepalive_answer_ms = o->keepalive_answer_ms,
                 .tls = c->tls},
        .max_message_bytes = o->max_message_bytes,
    };
    c->conn.tls = c->tls;
    c->password = str_dup(o->password);
    for (size_t i = 0; i < o->n_endpoints; i++) {
        struct slot *s = &c->slots[c->n++];
        s->url = xstrdup(o->endpoints[i].url);
        s->server_name = o->endpoints[i].server_name ? xstrdup(o->endpoints[i].server_name) : NULL;
        struct grpc_conn_options probe = c->conn;
        probe.url = str_c(s->url);
        probe.server_name = s->server_name;
        struct grpc_conn *conn = NULL;
        if (grpc_conn_new(clock, &probe, &conn, e) < 0)
            return -1;
        grpc_conn_free(conn);
    }
    *out = TAKE(c);
    return 0;
}

void etcd_client_free(struct etcd_client *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->n; i++) {
        grpc_conn_free(c->slots[i].conn);
        free(c->slots[i].url);
        free(c->slots[i].server_name);
    }
    free(c->slots);
    tls_client_unref(c->tls);
    free(c->user);
    secret_free(c->password);
    secret_free(c->token);
    free(c);
}

size_t etcd_client_endpoints(const struct etcd_client *c)
{
    return c->n;
}

const char *etcd_client_url(const struct etcd_client *c, size_t at)
{
    return c->slots[at].url;
}

const struct clock *etcd_client_clock(const struct etcd_client *c)
{
    return c->clock;
}

void etcd_reply_done(struct etcd_reply *r)
{
    arena_free(r->own, false);
    *r = (struct etcd_reply){0};
}

struct etcd_header etcd_header_of(const Pb__Header *h)
{
    if (!h)
        return (struct etcd_header){0};
    return (struct etcd_header){h->cluster_id, h->member_id, h->revision, h->raft_term};
}

/* --- Choosing */

/* Lower is better: set aside counts more than being a learner; the current one wins ties. */
static unsigned reluctance(const struct etcd_client *c, size_t i, int64_t now_ms)
{
    const struct slot *s = &c->slots[i];
    return (now_ms < s->aside_until_ms ? 4U : 0U) + (now_ms < s->learner_until_ms ? 2U : 0U) +
           (i != c->current ? 1U : 0U);
}

static size_t choose(const struct etcd_client *c, uint64_t tried)
{
    const int64_t now_ms = clock_boot_ms(c->clock);
    size_t best = ETCD_ANY;
    for (size_t i = 0; i < c->n; i++)
        if (!(tried >> i & 1) &&
            (best == ETCD_ANY || reluctance(c, i, now_ms) < reluctance(c, best, now_ms)))
            best = i;
    return best;
}

static void drop(struct slot *s)
{
    grpc_conn_free(TAKE(s->conn));
    s->known = false;
}

static void succeeded(struct etcd_client *c, size_t at)
{
    c->slots[at].failures = 0;
    c->slots[at].aside_until_ms = 0;
    c->current = at;
}

/* Whether a call that failed for its token may be made once more, with a new one. */
static bool drop_stale_token(struct etcd_client *c, bool *renewed, const struct err *e)
{
    if (*renewed || !c->user || !etcd_error_is_stale_token(e))
        return false;
    *renewed = true;
    secret_free(TAKE(c->token));
    return true;
}

/* Wrong certificates, or another cluster: it tells more than that nobody answers elsewhere. */
static bool is_telling(const struct err *e)
{
    return etcd_error_is(e, ETCD_CLUSTER_MISMATCH) || strcmp(e->reason, TLS_REASON) == 0;
}

/* A failure of this endpoint, which another one may not have. */
static bool is_of_endpoint(const struct err *e)
{
    return e->code == ERR_UNAVAILABLE || e->code == ERR_TIMEOUT || is_telling(e);
}

/* Remembers what failed, so that the next call starts with another member. */
static void failed(struct etcd_client *c, size_t at, const struct err *e)
{
    struct slot *s = &c->slots[at];
    const int64_t now_ms = clock_boot_ms(c->clock);
    if (etcd_error_is(e, ETCD_LEARNER)) {
        s->learner_until_ms = now_ms + LEARNER_ASIDE_MS;
        return;
    }
    if (!is_of_endpoint(e) && e->code != ERR_OUTCOME_UNKNOWN)
        return;
    if (s->failures < 16)
        s->failures++;
    int64_t aside_ms = ASIDE_MIN_MS << (s->failures < 6 ? s->failures - 1 : 5);
    if (aside_ms > ASIDE_MAX_MS)
        aside_ms = ASIDE_MAX_MS;
    s->aside_until_ms = now_ms + aside_ms;
}

static int connection(const struct ctx *ctx, struct etcd_client *c, size_t at, struct err *e)
{
    struct slot *s = &c->slots[at];
    if (s->conn)
        grpc_conn_step(s->conn); /* notice what happened while nobody looked */
    if (s->conn && !grpc_conn_usable(s->conn))
        drop(s);
    if (!s->conn) {
        struct grpc_conn_options o = c->conn;
        o.url = str_c(s->url);
        o.server_name = s->server_name;
        if (grpc_conn_new(c->clock, &o, &s->conn, e) < 0)
            return -1;
    }
    if (!grpc_conn_open(s->conn) && grpc_conn_wait_open(ctx, s->conn, e) < 0) {
        drop(s);
        return -1;
    }
    return 0;
}

/* --- Asking one member */

int etcd_check_cluster(struct etcd_client *c, size_t at, struct str response, struct err *e)
{
    const uint64_t got = message_cluster_id(response);
    if (c->cluster_id == 0 || got == 0)
        return 0;
    struct slot *s = &c->slots[at];
    s->known = identity_check(s->url, got, c->cluster_id, e) == 0;
    if (!s->known)
        drop(s);
    return s->known ? 0 : -1;
}

static struct grpc_call *start(const struct ctx *ctx, struct etcd_client *c, struct grpc_conn *conn,
                               const struct etcd_rpc *rpc, bool stream)
{
    struct grpc_header headers[2];
    size_t n = 0;
    if (c->token && !rpc->open)
        headers[n++] = (struct grpc_header){"token", str_c(c->token), true};
    if (rpc->leader)
        headers[n++] = (struct grpc_header){"hasleader", STR("true"), false};
    const int64_t left_ms = ctx_left_ms(ctx);
    const struct grpc_call_options o = {
        .path = rpc->path,
        .mutating = rpc->mutating,
        .headers = headers,
        .n_headers = n,
        .timeout_ms = stream || left_ms == CTX_NEVER ? 0
                      : left_ms > 0                  ? left_ms
                                                     : 1,
        .max_message_bytes = c->max_message_bytes,
    };
    return grpc_call_new(conn, &o);
}

/* A failed call in our codes; whether the server said so itself is *answered. */
static int call_error(const struct grpc_call *call, const struct etcd_rpc *rpc, const char *url,
                      bool *answered, struct err *e)
{
    const struct grpc_status *status = grpc_call_status(call);
    *answered = status->has_code && status->code != GRPC_OK;
    if (*answered) {
        (void)etcd_error_map(str_c(status->message), rpc->mutating, e);
        err_wrap(e, "%s", url);
    }
    return -1;
}

static int exchange(const struct ctx *ctx, struct etcd_client *c, size_t at,
                    const struct etcd_rpc *rpc, const void *request, struct etcd_reply *out,
                    struct err *e)
{
    struct buf bytes = BUF_INIT(REQUEST_MAX);
    int rc = message_pack(request, &bytes, e);
    struct str response = {0};
    AUTO(grpc_call_free_auto)
    struct grpc_call *call = rc < 0 ? NULL : start(ctx, c, c->slots[at].conn, rpc, false);
    if (call)
        rc = grpc_call_send(call, buf_str(&bytes), true, e);
    (rpc->secret ? buf_wipe : buf_done)(&bytes);
    if (rc < 0)
        return -1;
    if (grpc_unary_wait(ctx, call, &response, e) < 0) {
        out->refused = grpc_call_refused(call);
        return call_error(call, rpc, c->slots[at].url, &out->answered, e);
    }
    if (etcd_check_cluster(c, at, response, e) < 0)
        return -1;
    if (message_unpack(rpc->response, response, &out->own, &out->message, e) < 0) {
        if (rpc->mutating) /* it was done, but we cannot say what */
            e->code = ERR_OUTCOME_UNKNOWN;
        return err_wrap(e, "%s", c->slots[at].url);
    }
    return 0;
}

static int identify_by_watch(const struct ctx *ctx, struct etcd_client *c, size_t at, struct err *e)
{
    const int64_t left_ms = ctx_left_ms(ctx);
    AUTO(grpc_call_free_auto)
    struct grpc_call *call = identity_ask(c->slots[at].conn, left_ms == CTX_NEVER ? 0 : left_ms);
    struct str answer = {0};
    const int got = grpc_call_next(ctx, call, &answer, e);
    if (got < 0)
        return etcd_stream_error(c, at, call, e);
    return got == 0 ? 0 : etcd_check_cluster(c, at, answer, e);
}

/* Before something that cannot be taken back, whose answer would not tell, or that shows a
 * password or a token (with which another cluster might also make us wait for an answer: it looks
 * for the index a token names). Only a learner tells nobody but users. */
static int identify(const struct ctx *ctx, struct etcd_client *c, size_t at, struct err *e)
{
    const Pb__Empty request = PB__EMPTY__INIT;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    int rc = exchange(ctx, c, at, &rpc_status_open, &request, &reply, e);
    if (rc < 0 && reply.answered && e->code == ERR_DENIED) /* who it is, a watch tells anybody */
        rc = identify_by_watch(ctx, c, at, e);
    if (rc < 0 && etcd_error_is(e, ETCD_LEARNER) && c->token)
        rc = exchange(ctx, c, at, &rpc_status, &request, &reply, e);
    if (rc == 0 && !c->slots[at].known) /* it answered and did not say */
        rc = identity_check(c->slots[at].url, 0, c->cluster_id, e);
    return rc == 0 || is_telling(e) ? rc : err_wrap(e, "check the identity of the cluster");
}

/* A password goes to the expected cluster only. */
static int log_in_at(const struct ctx *ctx, struct etcd_client *c, size_t at,
                     const Pb__AuthenticateRequest *request, struct etcd_reply *out, struct err *e)
{
    if (c->cluster_id != 0 && !c->slots[at].known && identify(ctx, c, at, e) < 0)
        return -1;
    return exchange(ctx, c, at, &rpc_authenticate, request, out, e);
}

static int authenticate(const struct ctx *ctx, struct etcd_client *c, size_t at, struct err *e)
{
    Pb__AuthenticateRequest request = PB__AUTHENTICATE_REQUEST__INIT;
    request.name = c->user;
    request.password = c->password;
    struct etcd_reply reply = {0};
    int rc = log_in_at(ctx, c, at, &request, &reply, e);
    if (rc < 0 && etcd_error_is(e, ETCD_LEARNER) && c->n > 1) /* learners do not do this */
        rc = etcd_call(ctx, c, ETCD_ANY, &rpc_authenticate, &request, &reply, e);
    if (rc < 0 && etcd_error_is(e, ETCD_AUTH_DISABLED))
        return 0; /* nothing to prove */
    if (rc < 0)
        return is_telling(e) ? -1 : err_wrap(e, "authenticate as %s", c->user);
    secret_free(c->token);
    c->token = xstrdup(((Pb__AuthenticateResponse *)reply.message)->token);
    arena_free(reply.own, true);
    return 0;
}

/* Connection, token and identity: everything before the call proper. */
static int prepare(const struct ctx *ctx, struct etcd_client *c, size_t at,
                   const struct etcd_rpc *rpc, struct err *e)
{
    if (connection(ctx, c, at, e) < 0)
        return -1;
    if (c->user && !c->token && !rpc->open &&
        (authenticate(ctx, c, at, e) < 0 || connection(ctx, c, at, e) < 0))
        return -1; /* once more, since a token may have taken a tour of all endpoints */
    const bool first_who = rpc->mutating || rpc->unchecked || rpc->secret || c->token;
    if (c->cluster_id != 0 && !c->slots[at].known && first_who && identify(ctx, c, at, e) < 0)
        return -1;
    return 0;
}

/* How long this member gets: all that is left for the last one, a fair share otherwise. */
static struct ctx share(const struct ctx *ctx, const struct etcd_client *c, size_t at,
                        uint64_t tried)
{
    const int64_t left_ms = ctx_left_ms(ctx);
    const size_t rest = c->n - (size_t)__builtin_popcountll(tried);
    if (at != ETCD_ANY || left_ms == CTX_NEVER || rest <= 1)
        return *ctx;
    const int64_t fair_ms = left_ms / (int64_t)rest;
    return ctx_with_timeout(ctx, fair_ms > ATTEMPT_MIN_MS ? fair_ms : ATTEMPT_MIN_MS);
}

/* One call's way through the endpoints. */
struct tour {
    const struct ctx *ctx;
    struct etcd_client *c;
    const struct etcd_rpc *rpc;
    size_t at; /* the one it is for, or ETCD_ANY */
    uint64_t tried;
    bool renewed;    /* a new token was fetched for it */
    bool redialed;   /* a refusal was answered with a new connection */
    struct err told; /* the first failure that is telling; ERR_NONE: none was */
};

/* Whether the next member may be asked the same. */
static bool may_move_on(const struct etcd_rpc *rpc, bool prepared, bool answered,
                        const struct err *e)
{
    if (etcd_error_is(e, ETCD_LEARNER) || etcd_error_is(e, ETCD_NOT_CAPABLE))
        return true;
    if (!prepared || !rpc->mutating)
        return is_of_endpoint(e);
    const bool not_let_in = e->code == ERR_DENIED && is_telling(e);
    return !answered && (e->code == ERR_UNAVAILABLE || not_let_in);
}

/* After a failure at endpoint i: whether to try once more, there or elsewhere. */
static bool goes_on(struct tour *t, size_t i, bool prepared, const struct etcd_reply *reply,
                    const struct err *e)
{
    struct err over;
    assert(i < t->c->n);
    if (!t->rpc->open && drop_stale_token(t->c, &t->renewed, e))
        return true;
    if (reply->refused && !t->redialed) {
        t->redialed = true;
        drop(&t->c->slots[i]);
        return ctx_check(t->ctx, &over) == 0;
    }
    failed(t->c, i, e);
    t->tried |= UINT64_C(1) << i;
    if (t->told.code == ERR_NONE && is_telling(e))
        t->told = *e;
    return t->at == ETCD_ANY && may_move_on(t->rpc, prepared, reply->answered, e) &&
           choose(t->c, t->tried) != ETCD_ANY && ctx_check(t->ctx, &over) == 0;
}

/* What the call ends with when nobody is left to ask. */
static int give_up(const struct tour *t, struct err *e)
{
    if (t->told.code != ERR_NONE && is_of_endpoint(e))
        *e = t->told;
    if (t->rpc->mutating && e->code == ERR_TIMEOUT)
        e->code = ERR_UNAVAILABLE; /* it ended before the call proper */
    return -1;
}

int etcd_call(const struct ctx *ctx, struct etcd_client *c, size_t at, const struct etcd_rpc *rpc,
              const void *request, struct etcd_reply *out, struct err *e)
{
    assert(at == ETCD_ANY || at < c->n);
    struct tour t = {.ctx = ctx, .c = c, .rpc = rpc, .at = at};
    if (ctx_check(ctx, e) < 0) /* nobody is to blame */
        return give_up(&t, e);
    for (;;) {
        const size_t i = at == ETCD_ANY ? choose(c, t.tried) : at;
        const struct ctx mine = share(ctx, c, at, t.tried);
        out->answered = out->refused = false;
        const bool prepared = prepare(&mine, c, i, rpc, e) == 0;
        if (prepared && exchange(rpc->mutating ? ctx : &mine, c, i, rpc, request, out, e) == 0) {
            succeeded(c, i);
            if (rpc->mutating)
                fault_called("etcd", rpc->path);
            return 0;
        }
        if (!goes_on(&t, i, prepared, out, e))
            return give_up(&t, e);
    }
}

/* --- Streams */

int etcd_stream(const struct ctx *ctx, struct etcd_client *c, size_t at, const struct etcd_rpc *rpc,
                struct grpc_call **out, size_t *out_at, struct err *e)
{
    struct tour t = {.ctx = ctx, .c = c, .rpc = rpc, .at = at};
    if (ctx_check(ctx, e) < 0)
        return -1;
    for (;;) {
        const size_t i = at == ETCD_ANY ? choose(c, t.tried) : at;
        const struct ctx mine = share(ctx, c, at, t.tried);
        if (prepare(&mine, c, i, rpc, e) == 0) {
            *out = start(ctx, c, c->slots[i].conn, rpc, true);
            *out_at = i;
            return 0;
        }
        if (!goes_on(&t, i, false, &(struct etcd_reply){0}, e))
            return give_up(&t, e);
    }
}

bool etcd_stream_failed(struct etcd_client *c, size_t at, const struct err *e)
{
    bool renewed = false;
    failed(c, at, e);
    return drop_stale_token(c, &renewed, e);
}

int etcd_stream_error(struct etcd_client *c, size_t at, const struct grpc_call *call, struct err *e)
{
    bool answered = false;
    const struct etcd_rpc read = {0};
    return call_error(call, &read, c->slots[at].url, &answered, e);
}

int etcd_stream_next(const struct ctx *ctx, struct etcd_client *c, size_t at,
                     const struct etcd_rpc *rpc, struct grpc_call *call, struct etcd_reply *out,
                     struct err *e)
{
    struct str bytes = {0};
    const int got = grpc_call_next(ctx, call, &bytes, e);
    if (got < 0)
        return etcd_stream_error(c, at, call, e);
    if (got == 0)
        return 0;
    if (etcd_check_cluster(c, at, bytes, e) < 0)
        return -1;
    const int rc = message_unpack(rpc->response, bytes, &out->own, &out->message, e);
    grpc_call_pop(call);
    if (rc < 0)
        return err_wrap(e, "%s", c->slots[at].url);
    c->current = at;
    c->slots[at].failures = 0;
    return 1;
}
