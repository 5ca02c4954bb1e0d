/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/judge.h"

#include <string.h>

#include "base/json.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/explain.h"
#include "control/cluster/verdict.h"
#include "kube/condition.h"

/* --- Facts about the whole ------------------------------------------------------------------ */

/* Where etcd itself cannot be asked, the kubelet's word and what was recorded stand. */
static bool member_ready(const struct seen_member *m)
{
    return m->pod == OURS && m->pod_ready == YES &&
           (m->listed == YES || (m->listed == UNKNOWN && m->id_recorded));
}

static bool is_sick_voter(const struct seen_member *m)
{
    return member_votes(m) && m->healthy == NO;
}

struct sums sum_up(const struct pass *p)
{
    struct sums n = {0};
    for (size_t i = 0; i < p->seen.n_members; i++) {
        const struct seen_member *m = &p->seen.members[i];
        const bool voter = member_votes(m);
        n.voters += voter;
        n.healthy_voters += voter && m->healthy == YES;
        n.sick_voters += is_sick_voter(m);
        if (m->deleting || m->dormant)
            continue;
        n.running++;
        n.ready += member_ready(m);
    }
    return n;
}

bool plan_because(const struct plan *plan, const char *reason)
{
    return strcmp(plan->reason, reason) == 0;
}

bool plan_parked(const struct plan *plan)
{
    return plan_because(plan, "BootstrapFailed") || plan_because(plan, "DeadlineExceeded");
}

bool pass_resumes(const struct pass *p)
{
    const json_t *available = condition_get(jget(p->cluster, "status.conditions"), "Available");
    const char *reason = jstr(available, "reason", "");
    return p->seen.want > 0 && p->seen.quorum == NO &&
           (strcmp(reason, "Paused") == 0 || strcmp(reason, "Resuming") == 0);
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

/* That nobody listens yet is how every start begins, and worth no write; that it lasts is. */
static void judge_seed(const struct pass *p, const struct plan *plan, struct verdict *v)
{
    enum { LASTS_MS = 5000 };
    char text[EXPLAIN_MAX];
    if (plan_because(plan, "WaitingForSeed") && p->asked && p->health.err.code != ERR_NONE &&
        p->health.stable_ms >= LASTS_MS) {
        verdict_set(v, "False", "ClusterUnreachable", "the first member does not answer: %s",
                    p->health.err.text);
        return;
    }
    explain_wait(p, plan, text);
    verdict_set(v, "False", plan->reason, "%s",
                plan->step == STEP_WAIT && *text ? text : "the first member does not answer yet");
}

static void judge_lost(const struct pass *p, const struct plan *plan, struct verdict *v)
{
    char text[EXPLAIN_MAX];
    explain_wait(p, plan, text);
    verdict_set(v, "False", plan->reason, "%s", text);
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
    else if (s->bad_name)
        verdict_set(v, "False", "InvalidName", "%s", s->bad_name);
    else if (plan_parked(plan) && n->ready < (size_t)s->want)
        verdict_set(v, "False", plan->reason,
                    "%zu of %d members are ready, and the time for it is over; edit the spec, or "
                    "move status.progressDeadline (kubectl patch etcdcluster %s --subresource "
                    "status --type merge -p ...)",
                    n->ready, s->want, p->key->name);
    else if (plan_because(plan, "AllMembersLost"))
        judge_lost(p, plan, v);
    else if (s->want == 0)
        judge_paused(p, v);
    else if (s->formed != YES)
        judge_seed(p, plan, v);
    else if (pass_resumes(p))
        verdict_set(v, "False", "Resuming", "the member that slept does not answer yet");
    else if (s->quorum == NO)
        verdict_set(v, "False", "QuorumLost", "%zu/%d members ready: quorum lost%s%s", n->ready,
                    s->want, p->health.err.code != ERR_NONE ? ": " : "", p->health.err.text);
    else if (s->quorum == YES && n->ready == (size_t)s->want)
        verdict_set(v, "True", "QuorumHealthy", "all %d members are ready", s->want);
    else if (s->quorum == YES)
        verdict_set(v, "True", "QuorumAvailable", "%zu/%d members are ready", n->ready, s->want);
}

/* What is under way in a cluster that grows or shrinks changes many times a second; its reason
 * stays, and what it waits for is in the message. */
static const char *progress_reason(const struct pass *p, const struct plan *plan,
                                   const struct sums *n)
{
    const struct observed *s = &p->seen;
    const bool moving = plan_because(plan, "WaitingForMembers") ||
                        plan_because(plan, "WaitingForLearner") || plan->step != STEP_WAIT;
    if (s->formed != YES || !moving || n->running == (size_t)s->want)
        return plan->reason;
    return n->running < (size_t)s->want ? "ScalingUp" : "ScalingDown";
}

static void judge_progressing(const struct pass *p, const struct plan *plan, const struct sums *n,
                              const struct err *failed, struct verdict *v)
{
    const struct observed *s = &p->seen;
    const bool at_end = plan_because(plan, "Reconciled") || plan_because(plan, "Paused");
    char text[EXPLAIN_MAX];
    if (s->unsupported || (plan_because(plan, "Observing") && !failed))
        return;
    if (failed)
        verdict_set(v, "True", "Retrying", "%s", failed->text);
    else if (s->bad_name)
        verdict_set(v, "False", "InvalidName", "%s", s->bad_name);
    else if (plan_parked(plan))
        verdict_set(v, "False", plan->reason, "given up after the progress deadline");
    else if (at_end && cluster_complete(s))
        verdict_set(v, "False", plan->reason, "%s", s->want > 0 ? "the target is reached" : "");
    else if (p->refused)
        verdict_set(v, "True", p->refused, "%s", p->refused_text);
    else if (pass_resumes(p))
        verdict_set(v, "True", "Resuming", "the member that slept does not answer yet");
    else {
        explain_wait(p, plan, text);
        verdict_set(v, "True", progress_reason(p, plan, n), "%zu of %d members are ready%s%s%s",
                    n->ready, s->want, plan->step == STEP_WAIT && *text ? "; " : "",
                    plan->step == STEP_WAIT ? text : "",
                    s->spec_changed ? "; the edited spec is adopted after that" : "");
    }
}

static void judge_degraded(const struct pass *p, const struct plan *plan, const struct sums *n,
                           struct verdict *v)
{
    const struct observed *s = &p->seen;
    if (s->unsupported || s->formed != YES || pass_resumes(p))
        return;
    if (s->want == 0)
        verdict_set(v, "False", "Paused", "%s", "");
    else if (plan_because(plan, "AllMembersLost"))
        verdict_set(v, "True", plan->reason, "%s", "");
    else if (s->quorum == NO)
        verdict_set(v, "True", "QuorumLost", "%s", "");
    else if (s->quorum == YES && n->sick_voters > 0) {
        char names[EXPLAIN_MAX];
        explain_names(s, is_sick_voter, names);
        verdict_set(v, "True", "MembersUnhealthy", "%zu of %zu voters are not healthy: %s",
                    n->sick_voters, n->voters, names);
    } else if (s->quorum == YES)
        verdict_set(v, "False", "QuorumHealthy", "%s", "");
}

void judge_cluster(const struct pass *p, const struct plan *plan, const struct err *failed,
                   const struct sums *n, json_t *conditions, int64_t now_us)
{
    const int64_t generation = jint(p->cluster, "metadata.generation", 0);
    struct verdict available = {0}, progressing = {0}, degraded = {0};
    judge_available(p, plan, n, &available);
    judge_progressing(p, plan, n, failed, &progressing);
    judge_degraded(p, plan, n, &degraded);
    verdict_apply(conditions, "Available", &available, generation, now_us);
    verdict_apply(conditions, "Progressing", &progressing, generation, now_us);
    verdict_apply(conditions, "Degraded", &degraded, generation, now_us);
}
