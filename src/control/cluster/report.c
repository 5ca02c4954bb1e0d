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
#include "control/cluster/verdict.h"
#include "control/runtime/event.h"
#include "kube/client.h"
#include "kube/condition.h"

/* --- Facts about the whole ------------------------------------------------------------------ */

struct sums {
    size_t running, ready, voters, healthy_voters, sick_voters;
};

static bool member_ready(const struct seen_member *m)
{
    return m->pod == OURS && m->pod_ready == YES && m->listed == YES;
}

static struct sums sum_up(const struct pass *p)
{
    struct sums n = {0};
    for (size_t i = 0; i < p->seen.n_members; i++) {
        const struct seen_member *m = &p->seen.members[i];
        const bool voter = member_votes(m);
        n.voters += voter;
        n.healthy_voters += voter && m->healthy == YES;
        n.sick_voters += voter && m->healthy == NO;
        if (m->deleting || m->dormant)
            continue;
        n.running++;
        n.ready += member_ready(m);
    }
    return n;
}

static bool is_parked(const struct plan *plan)
{
    return strcmp(plan->reason, "BootstrapFailed") == 0 ||
           strcmp(plan->reason, "DeadlineExceeded") == 0;
}

/* --- Conditions ----------------------------------------------------------------------------- */

static void judge_paused(const struct pass *p, struct verdict *v)
{
    for (size_t i = 0; i < p->seen.n_members; i++) {
        if (p->seen.members[i].dormant) {
            verdict_set(v, "False", "Paused",
                        "paused; the data is preserved in PersistentVolumeClaim data-%s",
                        p->seen.members[i].name);
            return;
        }
    }
    verdict_set(v, "False", "Paused", "%s",
                p->seen.n_members > 0 ? "pausing: members are being removed"
                                      : "paused before anything was written");
}

/* That nobody listens yet is how every start begins, and worth no write. */
static void judge_seed(const struct pass *p, const struct plan *plan, struct verdict *v)
{
    const bool worth_it = p->health.err.code != ERR_NONE && p->health.err.code != ERR_UNAVAILABLE;
    if (p->seen.n_members == 0 && p->seen.remains > 0) {
        verdict_set(v, "False", plan->reason,
                    "%zu members and Pods of an earlier cluster of that name have to go first",
                    p->seen.remains);
        return;
    }
    verdict_set(v, "False", plan->reason, "the first member does not answer yet%s%s",
                worth_it ? ": " : "", worth_it ? p->health.err.text : "");
}

/* Status NULL: leave the condition as it is. */
static void judge_available(const struct pass *p, const struct plan *plan, const struct sums *n,
                            struct verdict *v)
{
    const struct observed *s = &p->seen;
    if (s->unsupported)
        verdict_set(v, "False", "Unsupported",
                    "%s is not supported by this release; nothing is done to this cluster",
                    s->unsupported);
    else if (is_parked(plan) && n->ready < (size_t)s->want)
        verdict_set(v, "False", plan->reason,
                    "%zu of %d members are ready, and the time for it is over; edit the spec, or "
                    "move status.progressDeadline",
                    n->ready, s->want);
    else if (s->want == 0)
        judge_paused(p, v);
    else if (s->formed != YES)
        judge_seed(p, plan, v);
    else if (s->quorum == NO)
        verdict_set(v, "False", "QuorumLost", "%zu/%d members ready: quorum lost", n->ready,
                    s->want);
    else if (s->quorum == YES && n->ready == (size_t)s->want)
        verdict_set(v, "True", "QuorumHealthy", "all %d members are ready", s->want);
    else if (s->quorum == YES)
        verdict_set(v, "True", "QuorumAvailable", "%zu/%d members are ready", n->ready, s->want);
}

static void judge_progressing(const struct pass *p, const struct plan *plan, const struct sums *n,
                              const struct err *failed, struct verdict *v)
{
    const struct observed *s = &p->seen;
    if (s->unsupported)
        return;
    if (failed)
        verdict_set(v, "True", plan->reason, "%s", failed->text);
    else if (is_parked(plan))
        verdict_set(v, "False", plan->reason, "given up after the progress deadline");
    else if (cluster_complete(s) && s->want == 0)
        verdict_set(v, "False", "Paused", "%s", "");
    else if (cluster_complete(s))
        verdict_set(v, "False", "Reconciled", "the target is reached");
    else if (p->refused)
        verdict_set(v, "True", p->refused, "%s", p->refused_text);
    else if (s->version_refused && n->running < (size_t)s->want)
        verdict_set(v, "True", "VersionRefused", "no member is added: %s", p->version_err.text);
    else if (s->formed == YES && n->running < (size_t)s->want)
        verdict_set(v, "True", "ScalingUp", "%zu of %d members", n->running, s->want);
    else if (s->formed == YES && n->running > (size_t)s->want)
        verdict_set(v, "True", "ScalingDown", "%zu members, %d wanted", n->running, s->want);
    else
        verdict_set(v, "True", plan->reason, "%zu of %d members are ready", n->ready, s->want);
}

static void judge_degraded(const struct pass *p, const struct sums *n, struct verdict *v)
{
    const struct observed *s = &p->seen;
    if (s->unsupported || s->formed != YES)
        return;
    if (s->want == 0)
        verdict_set(v, "False", "Paused", "%s", "");
    else if (s->quorum == NO)
        verdict_set(v, "True", "QuorumLost", "%s", "");
    else if (s->quorum == YES && n->sick_voters > 0)
        verdict_set(v, "True", "MembersUnhealthy", "%zu of %zu voters are not healthy",
                    n->sick_voters, n->voters);
    else if (s->quorum == YES)
        verdict_set(v, "False", "QuorumHealthy", "%s", "");
}

/* --- Cluster status -------------------------------------------------------------------------- */

static const char *phase_of(const struct pass *p, const struct plan *plan, const struct sums *n)
{
    const struct observed *s = &p->seen;
    if (s->unsupported)
        return "Unsupported";
    if (s->deleting)
        return "Deleting";
    if (is_parked(plan))
        return "Failed";
    if (s->formed != YES)
        return s->want == 0 ? "Paused" : "Bootstrapping";
    if (s->want == 0)
        return cluster_complete(s) ? "Paused" : "Pausing";
    if (s->quorum == NO)
        return n->running == 0 ? "Resuming" : "QuorumLost";
    if (n->running != (size_t)s->want)
        return "Scaling";
    return cluster_complete(s) ? "Running" : "Degraded";
}

/* What the status said of a member's health before; no verdict leaves it standing. */
static bool was_healthy(const struct pass *p, const char *name, bool *out)
{
    size_t i = 0;
    const json_t *member = NULL;
    json_array_foreach(jget(p->cluster, "status.members"), i, member)
    {
        if (strcmp(jstr(member, "name", ""), name) == 0 && jget(member, "healthy")) {
            *out = jbool(member, "healthy", false);
            return true;
        }
    }
    return false;
}

static json_t *members_of(const struct pass *p)
{
    json_t *list = JARR();
    for (size_t i = 0; i < p->seen.n_members; i++) {
        const struct seen_member *m = &p->seen.members[i];
        const char *role = m->learner ? "Learner" : m->leads ? "Leader" : "Voter";
        const char *version = p->health.members[i].version;
        bool healthy = m->healthy == YES;
        const bool known = m->healthy != UNKNOWN || was_healthy(p, m->name, &healthy);
        (void)json_array_append_new(
            list,
            JOBJ(J("name", js(m->name)), J_IF(m->listed == YES, "id", jsf("%016" PRIx64, m->id)),
                 J_IF(m->listed == YES, "role", js(role)), J_IF(known, "healthy", jb(healthy)),
                 J_IF(*version, "version", js(version))));
    }
    return list;
}

static const char *leader_name(const struct pass *p)
{
    for (size_t i = 0; i < p->seen.n_members; i++)
        if (p->seen.members[i].leads)
            return p->seen.members[i].name;
    return NULL;
}

/* The status as it should be: what is there, with our fields set. */
static json_t *wanted_status(const struct ctx *ctx, const struct pass *p, const struct plan *plan,
                             const struct err *failed)
{
    const struct sums n = sum_up(p);
    const int64_t now_us = clock_wall_us(ctx->clock);
    const int64_t generation = jint(p->cluster, "metadata.generation", 0);
    json_t *now = jget(p->cluster, "status");
    json_t *status = now ? json_deep_copy(now) : JOBJ();
    json_t *conditions = json_object_get(status, "conditions");
    if (!conditions) {
        conditions = JARR();
        (void)json_object_set_new(status, "conditions", conditions);
    }
    struct verdict available = {0}, progressing = {0}, degraded = {0};
    judge_available(p, plan, &n, &available);
    judge_progressing(p, plan, &n, failed, &progressing);
    judge_degraded(p, &n, &degraded);
    verdict_apply(conditions, "Available", &available, generation, now_us);
    verdict_apply(conditions, "Progressing", &progressing, generation, now_us);
    verdict_apply(conditions, "Degraded", &degraded, generation, now_us);
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
    static const char *const matters[] = {"phase", "readyMembers", "selector", "progressDeadline"};
    if (!p->asked || plan_at_rest(plan) || p->health.stable_ms >= STABLE_MS)
        return true;
    for (size_t i = 0; i < COUNT_OF(matters); i++)
        if (!json_equal(json_object_get(now, matters[i]), json_object_get(want, matters[i])))
            return true;
    return !conditions_alike(json_object_get(now, "conditions"),
                             json_object_get(want, "conditions"));
}

/* --- Budget ----------------------------------------------------------------------------------- */

static int report_budget(const struct ctx *ctx, struct pass *p, struct err *e)
{
    if (p->seen.quorum != YES || p->seen.unsupported)
        return 0; /* how many voters there are is not known: leave it as it is */
    const int min = object_pdb_min_available(cluster_voters(&p->seen), p->seen.want);
    const struct view *view = view_get(p->engine->pdbs, p->key->ns, p->key->name);
    const int64_t have = view ? ((const struct pdb_view *)view)->min_available : -2;
    view_unref(view);
    if (have == min || (min == 0 && have == -2))
        return 0;
    int rc = 0;
    if (have == -2) {
        json_auto_t *pdb = object_pdb(&p->ident, min);
        rc = kube_create(ctx, p->worker->kube, &kube_pdbs, p->key->ns, pdb, NULL, e);
        if (rc < 0 && e->code == ERR_EXISTS)
            rc = 0; /* the view lags; the next pass compares */
    } else {
        json_auto_t *body =
            JOBJ(J("spec", JOBJ(J("minAvailable", ji(min)), J("maxUnavailable", json_null()))));
        const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
        rc = kube_patch(ctx, p->worker->kube, &kube_pdbs, p->key->ns, p->key->name, &how, body,
                        NULL, e);
    }
    return rc < 0 ? err_wrap(e, "PodDisruptionBudget %s", p->key->name) : 0;
}

/* --- Events, metrics ---------------------------------------------------------------------------
 */

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
        const struct event_subject about = {.kind = &kind_clusters,
                                            .ns = p->key->ns,
                                            .name = p->key->name,
                                            .uid = p->ident.uid,
                                            .related_kind = member ? &kind_members : NULL,
                                            .related = member};
        char note[EVENT_NOTE_MAX];
        (void)snprintf(note, sizeof(note), "%s%s%s", member ? member : "", member ? " " : "",
                       told[i].text);
        if (strcmp(plan->reason, "VolumeLost") == 0)
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
    report_metrics(p);
    if (!p->cluster || p->seen.exists != YES || p->seen.deleting)
        return 0;
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
        rc = -1;
    return rc;
}
