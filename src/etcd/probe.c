/* SPDX-License-Identifier: Apache-2.0
 * One small state machine per member: log in if nobody did, ask all questions on one connection,
 * take the answers as they come, and close the connection with the last one. */
#include "etcd/probe.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "etcd/client_internal.h"
#include "etcd/cluster_internal.h"
#include "etcd/errors.h"
#include "etcd/identity.h"
#include "etcd/maintenance_internal.h"
#include "etcd/probe_internal.h"
#include "net/grpc.h"
#include "net/tls.h"

enum {
    REQUEST_MAX = 64 * 1024,
    ANSWER_MAX = 1 << 20, /* of hundreds of members at once */
    /* A handshake needs more memory than an open connection: not all at once, but this many or a
     * tenth of all. One that takes longer than a twentieth of its time is taken for silent and does
     * not hold the others up: with a third of all members silent, the last is dialed after a sixth
     * of the time. */
    DIALS_MIN = 24,
    DIALS_SHARE = 10,
    DIAL_SLOTS = 20,
    DIAL_RETRY_MS = 10,
};

static const struct etcd_rpc rpcs[QUESTIONS] = {
    [ASK_STATUS] = {.path = "/etcdserverpb.Maintenance/Status",
                    .response = &pb__status_response__descriptor},
    [ASK_ALARMS] = {.path = "/etcdserverpb.Maintenance/Alarm",
                    .response = &pb__alarm_response__descriptor},
    [ASK_MEMBERS] = {.path = "/etcdserverpb.Cluster/MemberList",
                     .response = &pb__members_response__descriptor},
    [ASK_READ] = {.path = "/etcdserverpb.KV/Range", .response = &pb__range_response__descriptor},
};
static const unsigned ask_bits[QUESTIONS] = {
    [ASK_ALARMS] = ETCD_ASK_ALARMS, [ASK_MEMBERS] = ETCD_ASK_MEMBERS, [ASK_READ] = ETCD_ASK_READ};

void etcd_probe_answer_done(struct etcd_probe_answer *a)
{
    etcd_status_done(&a->status);
    etcd_alarms_done(&a->alarms);
    etcd_members_done(&a->members);
    *a = (struct etcd_probe_answer){0};
}

const char *etcd_probe_outcome_name(enum etcd_probe_outcome o)
{
    static const char *const names[] = {
        [ETCD_PROBE_UNKNOWN] = "unknown", [ETCD_PROBE_ANSWERED] = "answered",
        [ETCD_PROBE_REFUSED] = "refused", [ETCD_PROBE_TIMED_OUT] = "timed out",
        [ETCD_PROBE_TLS] = "tls error",   [ETCD_PROBE_AUTH] = "auth error",
        [ETCD_PROBE_FOREIGN] = "foreign", [ETCD_PROBE_FAILED] = "failed",
    };
    return names[o];
}

/* --- Ends */

static enum etcd_probe_outcome classify(const struct err *e, bool answered)
{
    if (strcmp(e->reason, TLS_REASON) == 0)
        return ETCD_PROBE_TLS;
    if (e->code == ERR_DENIED)
        return ETCD_PROBE_AUTH;
    if (etcd_error_is(e, ETCD_CLUSTER_MISMATCH))
        return ETCD_PROBE_FOREIGN;
    if (e->code == ERR_TIMEOUT || e->origin == ETIMEDOUT)
        return ETCD_PROBE_TIMED_OUT;
    if (e->code == ERR_UNAVAILABLE && !answered)
        return ETCD_PROBE_REFUSED;
    return ETCD_PROBE_FAILED;
}

static void let_go(struct probe *p)
{
    grpc_conn_free(TAKE(p->conn)); /* first: calls that end with it need no cancel each */
    probe_login_end(p);
    for (size_t i = 0; i < QUESTIONS; i++)
        grpc_call_free(TAKE(p->calls[i]));
    p->stage = STAGE_OVER;
}

static void over(struct probe *p, int64_t now_ms)
{
    p->answer->took_ms = now_ms - p->start_ms;
    let_go(p);
}

static struct etcd_probe_fact *fact_of(struct etcd_probe_answer *a, enum question q)
{
    return q == ASK_ALARMS ? &a->has_alarms : q == ASK_MEMBERS ? &a->has_members : &a->read;
}

/* The status failed: nothing else matters. */
static void fail(struct probe *p, const struct err *e, bool answered, int64_t now_ms)
{
    p->answer->err = *e;
    p->answer->outcome = classify(e, answered);
    over(p, now_ms);
}

static void time_out(struct probe *p, int64_t now_ms)
{
    struct err e;
    err_set(&e, ERR_TIMEOUT, ETIMEDOUT, "%s: no answer within %lld ms", p->target->endpoint.url,
            (long long)p->target->timeout_ms);
    for (enum question q = ASK_ALARMS; q < QUESTIONS; q++)
        if (p->calls[q]) {
            fact_of(p->answer, q)->known = ETCD_FACT_NO;
            fact_of(p->answer, q)->err = e;
        }
    if (p->answer->outcome == ETCD_PROBE_ANSWERED)
        over(p, now_ms);
    else
        fail(p, &e, false, now_ms);
}

/* --- Asking */

struct grpc_call *probe_call(struct probe *p, const char *path, const void *request,
                             const char *token, int64_t timeout_ms)
{
    const struct grpc_header header = {"token", str_c(token), true};
    struct grpc_call *call =
        grpc_call_new(p->conn, &(struct grpc_call_options){
                                   .path = path,
                                   .headers = &header,
                                   .n_headers = token ? 1 : 0,
                                   .timeout_ms = timeout_ms > 0 ? timeout_ms : 1,
                                   .max_message_bytes = ANSWER_MAX,
                               });
    struct err e;
    struct buf bytes = BUF_INIT(REQUEST_MAX);
    if (message_pack(request, &bytes, &e) < 0 ||
        grpc_call_send(call, buf_str(&bytes), true, &e) < 0)
        abort(); /* names and passwords have been checked for length: a bug */
    buf_wipe(&bytes);
    return call;
}

static void ask(struct probe *p, int64_t now_ms)
{
    const Pb__Empty status = PB__EMPTY__INIT;
    const Pb__AlarmRequest alarms = PB__ALARM_REQUEST__INIT;
    Pb__MemberListRequest members = PB__MEMBER_LIST_REQUEST__INIT;
    members.linearizable = true;
    Pb__RangeRequest read = PB__RANGE_REQUEST__INIT;
    read.key = bytes_of_str(STR("\0"));
    read.count_only = true;
    read.limit = 1;
    const void *const requests[QUESTIONS] = {&status, &alarms, &members, &read};
    const char *token = p->target->login ? p->target->login->token : NULL;
    for (enum question q = 0; q < QUESTIONS; q++)
        if (q == ASK_STATUS || (p->target->ask & ask_bits[q]))
            p->calls[q] = probe_call(p, rpcs[q].path, requests[q], token, p->until_ms - now_ms);
    p->stage = STAGE_ASK;
}

int probe_finished(struct grpc_call *call, struct str *response, bool *answered, struct err *e)
{
    const int got = grpc_unary_ready(call, response, e);
    const struct grpc_status *status = grpc_call_status(call);
    *answered = status->has_code && status->code != GRPC_OK;
    if (got < 0 && *answered)
        (void)etcd_error_map(str_c(status->message), false, e);
    return got;
}

static void step_login(struct probe *p, int64_t now_ms)
{
    struct err e;
    bool answered = false;
    const int got = probe_login_step(p, now_ms, &answered, &e);
    if (got < 0)
        fail(p, &e, answered, now_ms);
    else if (got > 0)
        ask(p, now_ms);
}

/* --- Answers */

/* The status must say whose it is; of other answers, some versions leave it out. */
static int check_cluster(const struct probe *p, enum question q, struct str response, struct err *e)
{
    const uint64_t got = message_cluster_id(response), want = p->target->cluster_id;
    if (want == 0 || (got == 0 && q != ASK_STATUS))
        return 0;
    return identity_check(p->target->endpoint.url, got, want, e);
}

static int take(struct probe *p, enum question q, struct str response, struct err *e)
{
    struct arena *own = NULL;
    void *message = NULL;
    if (check_cluster(p, q, response, e) < 0 ||
        message_unpack(rpcs[q].response, response, &own, &message, e) < 0)
        return -1;
    const Pb__MembersResponse *m = message;
    switch (q) {
    case ASK_STATUS:
        p->answer->status = etcd_status_of(own, message);
        p->answer->outcome = ETCD_PROBE_ANSWERED;
        return 0;
    case ASK_ALARMS:
        p->answer->alarms = etcd_alarms_of(own, message);
        return 0;
    case ASK_MEMBERS:
        p->answer->members = etcd_members_of(own, m->header, m->members, m->n_members);
        return 0;
    case ASK_READ:
    case QUESTIONS:
        break;
    }
    arena_free(own, false);
    return 0;
}

/* With another token everything is asked anew. */
static void ask_again(struct probe *p)
{
    for (size_t i = 0; i < QUESTIONS; i++)
        grpc_call_free(TAKE(p->calls[i]));
    etcd_probe_answer_done(p->answer);
    p->stage = STAGE_LOGIN;
}

/* Rights are checked behind the read: it took place. */
static bool is_proof(enum question q, const struct err *e)
{
    return q == ASK_READ && etcd_error_is(e, ETCD_PERMISSION_DENIED);
}

static void step_ask(struct probe *p, int64_t now_ms)
{
    bool waiting = false;
    for (enum question q = 0; q < QUESTIONS; q++) {
        if (!p->calls[q])
            continue;
        struct str response = {0};
        struct err e;
        bool answered = false;
        int got = probe_finished(p->calls[q], &response, &answered, &e);
        if (got == 0) {
            waiting = true;
            continue;
        }
        if (got > 0 && take(p, q, response, &e) < 0)
            got = -1;
        if (got < 0 && probe_login_again(p, &e)) {
            ask_again(p);
            return;
        }
        if (got < 0 && (q == ASK_STATUS || etcd_error_is(&e, ETCD_CLUSTER_MISMATCH))) {
            fail(p, &e, answered, now_ms);
            return;
        }
        if (q != ASK_STATUS) {
            const bool yes = got > 0 || is_proof(q, &e);
            fact_of(p->answer, q)->known = yes ? ETCD_FACT_YES : ETCD_FACT_NO;
            if (!yes)
                fact_of(p->answer, q)->err = e;
        }
        grpc_call_free(TAKE(p->calls[q]));
    }
    if (!waiting)
        over(p, now_ms);
}

static void step(struct probe *p, int64_t now_ms)
{
    grpc_conn_step(p->conn);
    const struct err *broken = grpc_conn_error(p->conn);
    if (broken && p->stage == STAGE_LOGIN && !p->login && !p->identity) {
        fail(p, broken, false, now_ms);
        return;
    }
    if (now_ms >= p->hold_ms)
        p->hold_ms = 0;
    const bool asked = p->login || p->identity;
    if (p->stage == STAGE_LOGIN && p->hold_ms == 0 && (asked || grpc_conn_open(p->conn))) {
        step_login(p, now_ms);
        if (p->stage != STAGE_OVER)
            grpc_conn_step(p->conn); /* send what was just asked; has_news() minds what it reads */
    }
    if (p->stage == STAGE_ASK)
        step_ask(p, now_ms);
    if (p->stage != STAGE_OVER && now_ms >= p->until_ms)
        time_out(p, now_ms);
}

static void begin(const struct ctx *ctx, struct probe *p, int64_t now_ms)
{
    const struct etcd_probe_target *t = p->target;
    p->start_ms = now_ms;
    p->stage = STAGE_LOGIN;
    struct err e;
    const struct grpc_conn_options o = {
        .url = str_c(t->endpoint.url),
        .server_name = t->endpoint.server_name,
        .tls = t->tls,
        .dial_timeout_ms = t->timeout_ms + 1000, /* our own deadline comes first */
    };
    if (grpc_conn_new(ctx->clock, &o, &p->conn, &e) < 0)
        fail(p, &e, false, now_ms);
    else
        step(p, now_ms);
}

/* --- The loop */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Dials as many of those that wait as may be under way at once. */
static void begin_some(const struct ctx *ctx, struct probe *p, size_t n)
{
    const size_t dials_max = n / DIALS_SHARE > DIALS_MIN ? n / DIALS_SHARE : DIALS_MIN;
    size_t under_way = 0;
    for (size_t i = 0; i < n; i++)
        under_way +=
            p[i].stage == STAGE_LOGIN && !grpc_conn_open(p[i].conn) &&
                    clock_boot_ms(ctx->clock) < p[i].start_ms + p[i].target->timeout_ms / DIAL_SLOTS
                ? 1
                : 0;
    for (size_t i = 0; i < n; i++) {
        const int64_t now_ms = clock_boot_ms(ctx->clock);
        if (p[i].stage != STAGE_WAITING)
            continue;
        if (under_way >= dials_max && now_ms < p[i].until_ms)
            continue;
        begin(ctx, &p[i], now_ms);
        under_way += p[i].stage == STAGE_LOGIN ? 1 : 0;
    }
}

/* Whether a member has something to do that its socket will not tell about: an answer that was
 * read in passing, a connection that ended, somebody else's token. */
static bool has_news(const struct probe *p)
{
    if (grpc_conn_error(p->conn) || (p->stage == STAGE_LOGIN && probe_login_has_news(p)))
        return true;
    for (size_t i = 0; i < QUESTIONS; i++)
        if (p->calls[i] && grpc_call_over(p->calls[i]))
            return true;
    return false;
}

/* Waits for anything to happen. The descriptors of p[i] are fds[i]. */
static int wait_any(const struct ctx *ctx, struct probe *p, size_t n, struct pollfd *fds,
                    struct err *e)
{
    int64_t until_ms = CTX_NEVER;
    for (size_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = -1};
        if (p[i].stage == STAGE_WAITING)
            until_ms = earlier(until_ms, clock_boot_ms(ctx->clock) + DIAL_RETRY_MS);
        if (p[i].stage == STAGE_WAITING || p[i].stage == STAGE_OVER)
            continue;
        grpc_conn_poll(p[i].conn, &fds[i], &p[i].timer_ms);
        p[i].timer_ms = has_news(&p[i]) ? 0 : earlier(p[i].timer_ms, p[i].until_ms);
        if (p[i].stage == STAGE_LOGIN)
            p[i].timer_ms = earlier(p[i].timer_ms, probe_login_timer_ms(&p[i]));
        until_ms = earlier(until_ms, p[i].timer_ms);
    }
    const size_t cancels = ctx_poll_fds(ctx, fds + n);
    const int64_t left_ms = until_ms - clock_boot_ms(ctx->clock);
    const int timeout = left_ms < 0 ? 0 : left_ms > INT_MAX ? INT_MAX : (int)left_ms;
    if (poll(fds, n + cancels, timeout) < 0 && errno != EINTR)
        return err_set_errno(e, errno, "poll");
    return 0;
}

static bool is_due(const struct probe *p, short revents, int64_t now_ms)
{
    return (p->stage == STAGE_LOGIN || p->stage == STAGE_ASK) &&
           (revents != 0 || now_ms >= p->timer_ms);
}

static bool anything_left(const struct probe *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i].stage != STAGE_OVER)
            return true;
    return false;
}

int etcd_probe(const struct ctx *ctx, const struct etcd_probe_target *targets, size_t n,
               struct etcd_probe_answer *answers, struct err *e)
{
    auto_free struct probe *probes = xcalloc(n + 1, sizeof(*probes));
    auto_free struct pollfd *fds = xcalloc(n + CTX_CANCELS_MAX, sizeof(*fds));
    for (size_t i = 0; i < n; i++) {
        probes[i] = (struct probe){.target = &targets[i], .answer = &answers[i]};
        probes[i].until_ms =
            earlier(clock_boot_ms(ctx->clock) + targets[i].timeout_ms, ctx->deadline_ms);
        if (targets[i].login) {
            targets[i].login->busy = targets[i].login->renewed = false;
            targets[i].login->hopes = 0;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (targets[i].login)
            probe_login_begin(&probes[i]);
    begin_some(ctx, probes, n);
    int rc = 0;
    while (rc == 0 && anything_left(probes, n)) {
        rc = wait_any(ctx, probes, n, fds, e);
        if (ctx_canceled(ctx))
            rc = ctx_check(ctx, e);
        for (size_t i = 0; i < n && rc == 0; i++) {
            const int64_t now_ms = clock_boot_ms(ctx->clock);
            if (is_due(&probes[i], fds[i].revents, now_ms))
                step(&probes[i], now_ms);
        }
        if (rc == 0)
            begin_some(ctx, probes, n);
    }
    for (size_t i = 0; i < n; i++)
        if (probes[i].stage != STAGE_OVER)
            let_go(&probes[i]);
    return rc;
}
