/* SPDX-License-Identifier: Apache-2.0
 * raftsman etcd status, members, alarms, defrag, move-leader. */
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/etcd.h"
#include "cli/output.h"
#include "etcd/cluster.h"
#include "etcd/judge.h"
#include "etcd/maintenance.h"
#include "etcd/probe.h"

static json_t *hex(uint64_t id)
{
    return jsf("%llx", (unsigned long long)id);
}

static json_t *strings(const char *const *v, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        (void)json_array_append_new(list, js(v[i]));
    return list;
}

/* --- status */

struct survey {
    size_t n;
    struct etcd_probe_answer *answers;
    struct etcd_witness *witnesses;
    struct etcd_verdict verdict;
};

static void survey_done(struct survey *s)
{
    for (size_t i = 0; i < s->n; i++)
        etcd_probe_answer_done(&s->answers[i]);
    free(s->answers);
    free(s->witnesses);
}

static size_t voters_in(const struct etcd_members *members)
{
    size_t n = 0;
    for (size_t i = 0; i < members->n; i++)
        n += members->v[i].learner ? 0 : 1;
    return n;
}

/* Asks every endpoint; a problem of one of them is a fact about it, not an error. */
static int survey(const struct etcd_cli *cli, struct survey *out, struct err *e)
{
    const size_t n = etcd_client_endpoints(cli->client);
    struct etcd_login login = {.user = cli->o->user, .password = cli->password};
    auto_free struct etcd_probe_target *targets = xcalloc(n, sizeof(*targets));
    *out = (struct survey){
        n, xcalloc(n, sizeof(*out->answers)), xcalloc(n, sizeof(*out->witnesses)), {0}};
    for (size_t i = 0; i < n; i++)
        targets[i] = (struct etcd_probe_target){
            .endpoint = {etcd_client_url(cli->client, i), cli->o->server_name},
            .tls = cli->tls,
            .cluster_id = cli->cluster_id,
            .login = &login,
            .ask = ETCD_ASK_MEMBERS | ETCD_ASK_READ,
            .timeout_ms = cli->o->timeout_ns / DURATION_MS,
        };
    const int rc = etcd_probe(cli->root, targets, n, out->answers, e);
    etcd_login_done(&login);
    size_t voters = 0;
    for (size_t i = 0; i < n; i++) {
        const struct etcd_probe_answer *a = &out->answers[i];
        if (a->outcome != ETCD_PROBE_ANSWERED)
            continue;
        out->witnesses[i] = (struct etcd_witness){
            .answered = true,
            .member_id = a->status.header.member_id,
            .leader = a->status.leader,
            .term = a->status.raft_term,
            .index = a->status.raft_index,
            .applied = a->status.raft_applied,
            .revision = a->status.header.revision,
            .learner = a->status.learner,
            .reads = a->read.known == ETCD_FACT_YES,
        };
        if (a->has_members.known == ETCD_FACT_YES)
            voters = voters_in(&a->members);
    }
    out->verdict = etcd_judge(out->witnesses, n, voters);
    return rc;
}

static json_t *status_row(const struct etcd_cli *cli, const struct survey *s, size_t i)
{
    const struct etcd_probe_answer *a = &s->answers[i];
    const char *url = etcd_client_url(cli->client, i);
    if (a->outcome != ETCD_PROBE_ANSWERED)
        return JOBJ(J("endpoint", js(url)), J("state", js(etcd_probe_outcome_name(a->outcome))),
                    J("error", js(a->err.text)));
    const struct etcd_status *st = &a->status;
    const bool leads = st->leader != 0 && st->leader == st->header.member_id;
    const int64_t lag = etcd_lag(s->witnesses, s->n, i, &s->verdict);
    const bool reads = a->read.known == ETCD_FACT_YES;
    const char *state = st->learner ? (st->leader != 0 ? "healthy" : "no leader")
                                    : (reads ? "healthy" : "no quorum");
    return JOBJ(J("endpoint", js(url)), J("state", js(state)),
                J("role", js(st->learner ? "learner"
                             : leads     ? "leader"
                                         : "follower")),
                J("memberID", hex(st->header.member_id)),
                J("clusterID", hex(st->header.cluster_id)), J("version", js(st->version)),
                J("storageVersion", js(st->storage_version)), J("dbSize", ji(st->db_size_bytes)),
                J("dbSizeInUse", ji(st->db_in_use_bytes)), J("dbSizeQuota", ji(st->db_quota_bytes)),
                J("leader", hex(st->leader)), J("raftTerm", ji((int64_t)st->raft_term)),
                J("raftIndex", ji((int64_t)st->raft_index)),
                J("raftAppliedIndex", ji((int64_t)st->raft_applied)),
                J("revision", ji(st->header.revision)), J_IF(lag >= 0, "lag", ji(lag)),
                J("tookMs", ji(a->took_ms)), J("errors", strings(st->errors, st->n_errors)),
                J_IF(!st->learner && !reads, "error", js(a->read.err.text)));
}

int etcd_cli_status(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    (void)ctx; /* each endpoint has its own time */
    static const struct output_column columns[] = {{"ENDPOINT", "endpoint"},
                                                   {"STATE", "state"},
                                                   {"ROLE", "role"},
                                                   {"ID", "memberID"},
                                                   {"VERSION", "version"},
                                                   {"DB SIZE", "dbSize"},
                                                   {"IN USE", "dbSizeInUse"},
                                                   {"TERM", "raftTerm"},
                                                   {"INDEX", "raftIndex"},
                                                   {"LAG", "lag"},
                                                   {"ERRORS", "errors"},
                                                   {"", "error"},
                                                   {0}};
    AUTO(survey_done) struct survey s = {0};
    if (etcd_cli_want_args(cli, 0, 0, "status without arguments", e) < 0 || survey(cli, &s, e) < 0)
        return -1;
    json_auto_t *rows = json_array();
    size_t answered = 0;
    for (size_t i = 0; i < s.n; i++) {
        (void)json_array_append_new(rows, status_row(cli, &s, i));
        answered += s.answers[i].outcome == ETCD_PROBE_ANSWERED ? 1 : 0;
    }
    json_auto_t *result =
        JOBJ(J("quorum", jb(s.verdict.quorum)), J("leader", hex(s.verdict.leader)),
             J("voters", ji((int64_t)s.verdict.voters)),
             J("healthy", ji((int64_t)s.verdict.healthy)), J("endpoints", json_incref(rows)));
    if (output_print(result, "endpoints", columns, (enum output_format)cli->o->output, e) < 0)
        return -1;
    if (answered < s.n)
        return err_set(e, ERR_UNAVAILABLE, 0, "%zu of %zu endpoints did not answer", s.n - answered,
                       s.n);
    return 0;
}

/* --- members, alarms */

int etcd_cli_members(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    static const struct output_column columns[] = {
        {"ID", "id"},         {"NAME", "name"},         {"ROLE", "role"},
        {"PEER", "peerURLs"}, {"CLIENT", "clientURLs"}, {0}};
    AUTO(etcd_members_done) struct etcd_members members = {0};
    if (etcd_cli_want_args(cli, 0, 0, "members without arguments", e) < 0 ||
        etcd_member_list(ctx, cli->client, !cli->o->serializable, &members, e) < 0)
        return -1;
    json_auto_t *rows = json_array();
    for (size_t i = 0; i < members.n; i++) {
        const struct etcd_member *m = &members.v[i];
        (void)json_array_append_new(
            rows, JOBJ(J("id", hex(m->id)), J("name", js(m->name)),
                       J("role", js(m->learner ? "learner" : "voter")),
                       J("peerURLs", strings(m->peer_urls, m->n_peer_urls)),
                       J("clientURLs", strings(m->client_urls, m->n_client_urls))));
    }
    json_auto_t *result =
        JOBJ(J("clusterID", hex(members.header.cluster_id)), J("members", json_incref(rows)));
    return output_print(result, "members", columns, (enum output_format)cli->o->output, e);
}

int etcd_cli_alarms(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    static const struct output_column columns[] = {{"MEMBER", "memberID"}, {"ALARM", "alarm"}, {0}};
    if (cli->n_args > 1 || (cli->n_args == 1 && strcmp(cli->args[0], "disarm") != 0))
        return err_set(e, ERR_INVALID, 0, "expected alarms [disarm]");
    AUTO(etcd_alarms_done) struct etcd_alarms alarms = {0};
    if (etcd_alarm_list(ctx, cli->client, ETCD_ANY, &alarms, e) < 0)
        return -1;
    json_auto_t *rows = json_array();
    for (size_t i = 0; i < alarms.n; i++) {
        if (cli->n_args == 1 && etcd_alarm_set(ctx, cli->client, alarms.v[i], false, e) < 0)
            return -1;
        (void)json_array_append_new(rows, JOBJ(J("memberID", hex(alarms.v[i].member_id)),
                                               J("alarm", js(etcd_alarm_name(alarms.v[i].type))),
                                               J_IF(cli->n_args == 1, "disarmed", jb(true))));
    }
    json_auto_t *result = JOBJ(J("alarms", json_incref(rows)));
    return output_print(result, "alarms", columns, (enum output_format)cli->o->output, e);
}

/* --- defrag, move-leader */

/* All that is known before must speak for it: a member serves nothing meanwhile. */
static int may_defrag(const struct etcd_cli *cli, const struct survey *s, struct err *e)
{
    for (size_t i = 0; i < s->n; i++) {
        const struct etcd_probe_answer *a = &s->answers[i];
        if (a->outcome != ETCD_PROBE_ANSWERED)
            return err_set(e, a->err.code, 0, "nothing was defragmented: %s", a->err.text);
        if (!a->status.learner && a->read.known != ETCD_FACT_YES)
            return err_set(e, ERR_UNAVAILABLE, 0, "nothing was defragmented: %s has no quorum",
                           etcd_client_url(cli->client, i));
    }
    return 0;
}

/* Why an endpoint is passed over; NULL: it is not. */
static const char *passed_over(const struct survey *s, size_t i)
{
    if (s->witnesses[i].learner)
        return "skipped: a learner does not do this";
    for (size_t k = 0; k < i; k++)
        if (s->witnesses[k].member_id == s->witnesses[i].member_id)
            return "skipped: the same member as before";
    return NULL;
}

static int defrag_one(const struct etcd_cli *cli, const struct survey *s, size_t at, json_t *rows,
                      struct err *e)
{
    AUTO(etcd_status_done) struct etcd_status before = {0}, after = {0};
    const struct ctx ctx = etcd_cli_request(cli);
    const char *url = etcd_client_url(cli->client, at), *why = passed_over(s, at);
    int rc = 0;
    if (!why && (etcd_status(&ctx, cli->client, at, &before, e) < 0 ||
                 etcd_defragment(&ctx, cli->client, at, e) < 0 ||
                 etcd_status(&ctx, cli->client, at, &after, e) < 0))
        rc = -1;
    const bool done = !why && rc == 0;
    (void)json_array_append_new(rows, JOBJ(J("endpoint", js(url)),
                                           J("state", js(done  ? "done"
                                                         : why ? why
                                                               : "failed")),
                                           J_IF(done, "before", ji(before.db_size_bytes)),
                                           J_IF(done, "after", ji(after.db_size_bytes))));
    return rc;
}

/* Followers first. Stops at the first problem: a second member must not follow a first that is
 * in trouble. */
static int defrag_all(const struct etcd_cli *cli, const struct survey *s, json_t *rows,
                      struct err *e)
{
    for (int leaders = 0; leaders < 2; leaders++)
        for (size_t i = 0; i < s->n; i++) {
            const bool leads = s->witnesses[i].member_id == s->witnesses[i].leader;
            if (leads == (leaders == 1) && defrag_one(cli, s, i, rows, e) < 0)
                return -1;
        }
    return 0;
}

int etcd_cli_defrag(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    (void)ctx; /* each member has its own time */
    static const struct output_column columns[] = {{"ENDPOINT", "endpoint"},
                                                   {"STATE", "state"},
                                                   {"BEFORE", "before"},
                                                   {"AFTER", "after"},
                                                   {0}};
    AUTO(survey_done) struct survey s = {0};
    if (etcd_cli_want_args(cli, 0, 0, "defrag without arguments", e) < 0 ||
        survey(cli, &s, e) < 0 || may_defrag(cli, &s, e) < 0)
        return -1;
    json_auto_t *rows = json_array();
    const int rc = defrag_all(cli, &s, rows, e);
    struct err output;
    if (output_print(rows, "", columns, (enum output_format)cli->o->output, &output) < 0 &&
        rc == 0) {
        *e = output;
        return -1;
    }
    return rc;
}

int etcd_cli_move_leader(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    (void)ctx; /* the survey may have used it up */
    static const struct output_column columns[] = {{"FROM", "from"}, {"TO", "to"}, {0}};
    uint64_t to = 0;
    if (etcd_cli_want_args(cli, 1, 1, "move-leader ID", e) < 0 ||
        etcd_cli_parse_id(cli->args[0], &to, e) < 0)
        return -1;
    AUTO(survey_done) struct survey s = {0};
    if (survey(cli, &s, e) < 0)
        return -1;
    for (size_t i = 0; i < s.n; i++) {
        const struct etcd_witness *w = &s.witnesses[i];
        if (!w->answered || w->leader == 0 || w->member_id != w->leader)
            continue;
        const struct ctx request = etcd_cli_request(cli);
        if (etcd_move_leader(&request, cli->client, i, to, e) < 0)
            return -1;
        json_auto_t *rows = JARR(JOBJ(J("from", hex(w->member_id)), J("to", hex(to))));
        return output_print(rows, "", columns, (enum output_format)cli->o->output, e);
    }
    return err_set(e, ERR_NOT_FOUND, 0, "none of the endpoints leads: name all members");
}
