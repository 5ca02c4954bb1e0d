/* SPDX-License-Identifier: Apache-2.0
 * What a person sees: status of cluster and members, budget, events, metrics. Runs in every pass,
 * also in one that failed or only waited, and writes only what differs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/kinds.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/judge.h"
#include "control/cluster/verdict.h"
#include "control/runtime/event.h"
#include "kube/client.h"
#include "kube/condition.h"

/* --- Cluster status -------------------------------------------------------------------------- */

static const char *phase_of(const struct pass *p, const struct plan *plan, const struct sums *n)
{
    const struct observed *s = &p->seen;
    if (s->unsupported)
        return "Unsupported";
    if (s->deleting)
        return "Deleting";
    if (plan_parked(plan) || s->bad_name || plan_because(plan, "AllMembersLost"))
        return "Failed";
    if (s->formed != YES)
        return s->want == 0 ? "Paused" : "Bootstrapping";
    if (s->want == 0)
        return cluster_complete(s) ? "Paused" : "Pausing";
    if (s->quorum == NO)
        return n->running == 0 || pass_resumes(p) ? "Resuming" : "QuorumLost";
    if (n->running != (size_t)s->want)
        return "Scaling";
    return cluster_complete(s) ? "Running" : "Degraded";
}

/* What the status says of a member's health so far. */
static enum fact was_healthy(const struct pass *p, const char *name)
{
    size_t i = 0;
    const json_t *member = NULL;
    json_array_foreach(jget(p->cluster, "status.members"), i, member)
    {
        if (strcmp(jstr(member, "name", ""), name) == 0 && jget(member, "healthy"))
            return jbool(member, "healthy", false) ? YES : NO;
    }
    return UNKNOWN;
}

/* NULL: nobody leads. */
static const char *leader_name(const struct pass *p)
{
    const uint64_t leader = health_leader(&p->health);
    for (size_t i = 0; i < p->health.n && leader != 0; i++)
        if (p->health.members[i].listed_id == leader || p->health.members[i].id == leader)
            return p->seen.members[i].name;
    return NULL;
}

/* A member that is slow to answer loses nothing of what is known of it. */
static json_t *members_of(const struct pass *p)
{
    json_t *list = JARR();
    const char *leader = leader_name(p);
    for (size_t i = 0; i < p->seen.n_members; i++) {
        const struct seen_member *m = &p->seen.members[i];
        const char *role = m->learner ? "Learner" : leader == m->name ? "Leader" : "Voter";
        const char *version = pass_member_version(p, i);
        const enum fact healthy = health_told(m->healthy, m->pod_ready, was_healthy(p, m->name));
        (void)json_array_append_new(list,
                                    JOBJ(J("name", js(m->name)),
                                         J_IF(m->listed == YES, "id", jsf("%016" PRIx64, m->id)),
                                         J_IF(m->listed == YES, "role", js(role)),
                                         J_IF(healthy != UNKNOWN, "healthy", jb(healthy == YES)),
                                         J_IF(*version, "version", js(version))));
    }
    return list;
}

/* The status as it should be: what is there, with our fields set. */
static json_t *wanted_status(const struct ctx *ctx, const struct pass *p, const struct plan *plan,
                             const struct err *failed)
{
    const struct sums n = sum_up(p);
    const int64_t now_us = clock_wall_us(ctx->clock);
    json_t *now = jget(p->cluster, "status");
    json_t *status = now ? json_deep_copy(now) : JOBJ();
    json_t *conditions = json_object_get(status, "conditions");
    if (!conditions) {
        conditions = JARR();
        (void)json_object_set_new(status, "conditions", conditions);
    }
    judge_cluster(p, plan, failed, &n, conditions, now_us);
    (void)json_object_set_new(status, "phase", js(phase_of(p, plan, &n)));
    if (p->seen.unsupported)
        return status;
    (void)json_object_set_new(status, "readyMembers", ji((int64_t)n.ready));
    (void)json_object_set_new(status, "selector", jsf("%s=%s", API_LABEL_CLUSTER, p->key->name));
    (void)json_object_set_new(status, "brokenMembers", ji(0));
    if (p->seen.quorum != UNKNOWN || p->seen.want == 0) {
        const char *leader = leader_name(p);
        (void)json_object_set_new(status, "members", members_of(p));
        if (leader)
            (void)json_object_set_new(status, "leader", js(leader));
        else
            (void)json_object_del(status, "leader"); /* fails if it is not there: as wanted */
    }
    if (cluster_complete(&p->seen))
        (void)json_object_del(status, "progressDeadline");
    return status;
}

/* Whether the difference is one that a person or a program waits for. Who is how well changes many
 * times while members come and go, and so do the messages that count them; that is written once
 * it has been the same for a moment. */
static bool worth_writing(const struct pass *p, const struct plan *plan, const json_t *now,
                          const json_t *want)
{
    enum { STABLE_MS = 1000 };
    static const char *const matters[] = {"phase", "selector", "progressDeadline"};
    if (!p->asked || plan_at_rest(plan) || p->health.stable_ms >= STABLE_MS)
        return true;
    for (size_t i = 0; i < COUNT_OF(matters); i++)
        if (!json_equal(json_object_get(now, matters[i]), json_object_get(want, matters[i])))
            return true;
    return !conditions_alike(json_object_get(now, "conditions"),
                             json_object_get(want, "conditions"));
}

/* --- Events, metrics ---------------------------------------------------------------------------
 */

static struct event_subject subject_of(const struct pass *p, const char *member)
{
    return (struct event_subject){.kind = &kind_clusters,
                                  .ns = p->key->ns,
                                  .name = p->key->name,
                                  .uid = p->ident.uid,
                                  .related_kind = member ? &kind_members : NULL,
                                  .related = member};
}

/* What a person has to look at is told when it begins. */
static void report_trouble(struct pass *p, const json_t *now, const json_t *want)
{
    static const char *const types[] = {"Available", "Progressing"};
    static const char *const reasons[] = {
        "QuorumLost",     "AllMembersLost",  "BootstrapFailed", "DeadlineExceeded",
        "VersionRefused", "UnmanagedMember", "ForeignService",  "ForeignCluster",
        "InvalidName",    "TooManyMembers",
    };
    const struct event_subject about = subject_of(p, NULL);
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        const json_t *before = condition_get(now, types[i]), *after = condition_get(want, types[i]);
        const char *reason = jstr(after, "reason", "");
        if (strcmp(jstr(before, "reason", ""), reason) == 0)
            continue;
        for (size_t k = 0; k < COUNT_OF(reasons); k++)
            if (strcmp(reasons[k], reason) == 0)
                event_warning(p->worker->events, &about, reason, types[i],
                              jstr(after, "message", ""));
    }
}

static void report_event(struct pass *p, const struct plan *plan)
{
    static const struct {
        enum step step;
        const char *action, *text;
    } told[] = {
        {STEP_CREATE_SEED, "Bootstrap", "the first member is being created"},
        {STEP_LATCH_ID, "Bootstrap", "the cluster has formed"},
        {STEP_PROMOTE, "Promote", "joined as a voter"},
        {STEP_REMOVE, "Remove", "has left the cluster"},
        {STEP_DELETE_MEMBER, "Remove", "is being removed"},
        {STEP_SLEEP, "Pause", "goes to sleep; its volume is kept"},
        {STEP_WAKE, "Resume", "is woken"},
    };
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        if (told[i].step != plan->step)
            continue;
        const char *member =
            plan->member != PLAN_NO_MEMBER ? p->seen.members[plan->member].name : NULL;
        const struct event_subject about = subject_of(p, member);
        char note[EVENT_NOTE_MAX];
        (void)snprintf(note, sizeof(note), "%s%s%s", member ? member : "", member ? " " : "",
                       told[i].text);
        if (plan_because(plan, "VolumeLost"))
            event_warning(p->worker->events, &about, plan->reason, told[i].action, note);
        else
            event_normal(p->worker->events, &about, plan->reason, told[i].action, note);
    }
}

static void report_metrics(struct pass *p)
{
    const struct engine *g = p->engine;
    const char *ns = p->key->ns, *name = p->key->name;
    if (!p->cluster) {
        static const char *const states[] = {"ready", "unready"};
        for (size_t i = 0; i < COUNT_OF(states); i++)
            metric_drop(g->members_by_state, ns, name, states[i]);
        metric_drop(g->has_leader, ns, name);
        metric_drop(g->quorum_margin, ns, name);
        metric_drop(g->db_bytes, ns, name);
        return;
    }
    const struct sums n = sum_up(p);
    metric_set(g->members_by_state, (double)n.ready, ns, name, "ready");
    metric_set(g->members_by_state, (double)(n.running - n.ready), ns, name, "unready");
    metric_set(g->has_leader, leader_name(p) ? 1 : 0, ns, name);
    const size_t quorum = n.voters / 2 + 1;
    metric_set(g->quorum_margin, (double)n.healthy_voters - (double)quorum, ns, name);
}

int pass_announce(const struct ctx *ctx, struct pass *p, const struct plan *plan, struct err *e)
{
    const json_t *progressing = condition_get(jget(p->cluster, "status.conditions"), "Progressing");
    if (plan->step == STEP_WAIT || plan->step == STEP_LATCH_TARGET || plan->step == STEP_LATCH_ID ||
        strcmp(jstr(progressing, "status", ""), "False") != 0)
        return 0;
    if (!p->cluster || p->seen.deleting)
        return 0;
    json_auto_t *status = wanted_status(ctx, p, plan, NULL);
    p->announced = true;
    return status_write(ctx, p, &kind_clusters, p->cluster, status, e);
}

int pass_report(const struct ctx *ctx, struct pass *p, const struct plan *plan,
                const struct err *failed, struct err *e)
{
    enum { HTTP_CONFLICT = 409 };
    report_metrics(p);
    if (!p->cluster || p->seen.exists != YES || p->seen.deleting)
        return 0;
    if (failed && (failed->code == ERR_CANCELED ||
                   (failed->code == ERR_CONFLICT && failed->origin == HTTP_CONFLICT)))
        return 0; /* somebody was faster: the world is read anew at once */
    if (!failed)
        report_event(p, plan);
    if (p->announced || (!failed && plan->step != STEP_WAIT))
        return 0; /* what was observed is the past; the pass that follows at once reports */
    int rc = 0;
    for (size_t i = 0; i < p->seen.n_members && !p->seen.unsupported; i++)
        if (!p->seen.members[i].deleting && report_member(ctx, p, i, e) < 0)
            rc = -1;
    if (report_budget(ctx, p, e) < 0)
        rc = -1;
    json_auto_t *status = wanted_status(ctx, p, plan, failed);
    if (!failed && !worth_writing(p, plan, jget(p->cluster, "status"), status)) {
        p->postponed = !json_equal(jget(p->cluster, "status"), status);
        return rc;
    }
    if (status_write(ctx, p, &kind_clusters, p->cluster, status, e) < 0)
        return -1;
    report_trouble(p, jget(p->cluster, "status.conditions"), jget(status, "conditions"));
    return rc;
}
