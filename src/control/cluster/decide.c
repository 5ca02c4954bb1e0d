/* SPDX-License-Identifier: Apache-2.0
 * Read cluster_decide() from top to bottom: it is the list of priorities.
 *
 * What makes it safe, whatever the facts are:
 * - one step per pass, and none while the facts it rests on are unknown;
 * - a change of membership only while etcd answers linearizable reads and nothing else changes:
 *   no terminating member, no pending one, no learner;
 * - a voter is removed only if the voters that remain hold quorum without it;
 * - a seed is made only where a live read proved that no cluster ever formed. */
#include "control/cluster/decide.h"

#include <string.h>

#include "base/attr.h"
#include "control/cluster/observed.h"

/* Rechecks are a safety net: progress normally comes by events and the prober. */
enum {
    SOON_MS = 25,      /* etcd may answer otherwise in a moment; the prober slows down itself */
    SHORTLY_MS = 2000, /* something outside is under way */
    LATER_MS = 30000,  /* steady, or waiting for a person */
};

static struct plan plan_wait(const char *reason, int64_t recheck_ms)
{
    return (struct plan){
        .step = STEP_WAIT, .member = PLAN_NO_MEMBER, .reason = reason, .recheck_ms = recheck_ms};
}

static struct plan plan_step(enum step step, const char *reason)
{
    return (struct plan){
        .step = step, .member = PLAN_NO_MEMBER, .reason = reason, .recheck_ms = SOON_MS};
}

static struct plan plan_for(const struct observed *s, enum step step, const struct seen_member *m,
                            const char *reason)
{
    return (struct plan){
        .step = step, .member = (size_t)(m - s->members), .reason = reason, .recheck_ms = SOON_MS};
}

/* --- Members -------------------------------------------------------------------------------- */

static bool is_running(const struct seen_member *m)
{
    return !m->deleting && !m->dormant;
}

/* The kubelet's word and etcd's list; a member that was merely slow to answer is not unready. */
static bool is_ready(const struct seen_member *m)
{
    return m->pod == OURS && m->pod_ready == YES && m->listed == YES && m->healthy != NO;
}

int member_volume_lost(const struct seen_member *m)
{
    return m->pvc_recorded && (m->pvc == ABSENT || (m->pvc != PRESENCE_UNKNOWN && m->pvc_changed));
}

/* The first member for which `is` holds, or NULL. */
static const struct seen_member *find(const struct observed *s,
                                      bool (*is)(const struct seen_member *m))
{
    for (size_t i = 0; i < s->n_members; i++)
        if (is(&s->members[i]))
            return &s->members[i];
    return NULL;
}

static size_t count(const struct observed *s, bool (*is)(const struct seen_member *m))
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_members; i++)
        n += is(&s->members[i]);
    return n;
}

static bool is_terminating(const struct seen_member *m)
{
    return m->deleting && m->finalizer;
}

static bool is_seed(const struct seen_member *m)
{
    return is_running(m) && m->bootstrap;
}

static bool is_pending(const struct seen_member *m)
{
    return is_running(m) && m->pending && !m->bootstrap;
}

static bool is_learner(const struct seen_member *m)
{
    return is_running(m) && m->listed == YES && m->learner;
}

static bool is_asleep(const struct seen_member *m)
{
    return m->dormant;
}

static bool lost_its_volume(const struct seen_member *m)
{
    return is_running(m) && member_volume_lost(m);
}

static bool is_healthy_voter(const struct seen_member *m)
{
    return member_votes(m) && m->healthy == YES;
}

/* It was part of etcd, and somebody removed it there. */
static bool was_expelled(const struct seen_member *m)
{
    return is_running(m) && !m->pending && m->id_recorded && m->listed == NO;
}

static bool fate_unknown(const struct seen_member *m)
{
    return m->listed == UNKNOWN;
}

size_t cluster_voters(const struct observed *s)
{
    return count(s, member_votes);
}

bool member_asked_before(const struct seen_member *a, const struct seen_member *b)
{
    if (member_votes(a) != member_votes(b))
        return member_votes(a);
    if (a->leads != b->leads)
        return a->leads;
    return a->created_s < b->created_s;
}

int cluster_complete(const struct observed *s)
{
    if (!s->target_latched || s->members_known != YES)
        return false;
    if (s->want > 0 && s->formed != YES)
        return false;
    size_t running = 0;
    for (size_t i = 0; i < s->n_members; i++) {
        const struct seen_member *m = &s->members[i];
        if (!is_running(m))
            continue;
        if (!is_ready(m) || m->learner)
            return false;
        running++;
    }
    return running == (size_t)s->want;
}

/* Whether the other voters hold quorum, by the last look, once this one is out of the list. The
 * chokepoint asks them again before anything is done. A member whose standing is unknown may be a
 * voter, and one nobody manages counts as a voter that does not answer. */
static bool others_hold_quorum(const struct observed *s, const struct seen_member *m)
{
    if (find(s, fate_unknown))
        return false;
    const size_t voters = cluster_voters(s) + s->unmanaged;
    const size_t healthy_others = count(s, is_healthy_voter) - is_healthy_voter(m);
    if (!member_votes(m)) /* a learner or a stranger takes no vote with it */
        return healthy_others >= voters / 2 + 1;
    return healthy_others >= (voters - 1) / 2 + 1; /* never true of the last one */
}

/* --- Stages --------------------------------------------------------------------------------- */

static bool is_last_voter(const struct observed *s, const struct seen_member *m)
{
    return member_votes(m) && cluster_voters(s) == 1;
}

/* Somebody deleted the only voter there is. A successor has to grow up before it may leave. */
static bool last_voter_leaves(const struct observed *s)
{
    for (size_t i = 0; i < s->n_members; i++)
        if (is_terminating(&s->members[i]) && is_last_voter(s, &s->members[i]))
            return s->formed == YES && s->quorum == YES;
    return false;
}

/* A member that lost its volume and that the others can do without: dead weight, to be replaced.
 * It goes before anything else, because etcd refuses to grow, and we to shrink, beside it. */
static const struct seen_member *find_dead_weight(const struct observed *s)
{
    if (s->formed != YES || s->quorum != YES)
        return NULL;
    for (size_t i = 0; i < s->n_members; i++) {
        const struct seen_member *m = &s->members[i];
        if (lost_its_volume(m) && others_hold_quorum(s, m))
            return m;
    }
    return NULL;
}

/* That a Pod has got its address comes as an event; there is nobody to ask before. */
static int64_t soon_if_asked(const struct seen_member *m)
{
    return m->healthy == UNKNOWN ? SHORTLY_MS : SOON_MS;
}

/* A terminating member leaves etcd first, then its finalizer goes, then its Pod and volume. */
static struct plan decide_leaving_one(const struct observed *s, const struct seen_member *m)
{
    if (s->exists == NO || s->deleting)
        return plan_for(s, STEP_RELEASE, m, "ClusterDeleted");
    if (s->formed == NO) /* a seed that serves already may hold what somebody wrote */
        return s->found_id_expected ? plan_step(STEP_LATCH_ID, "ClusterDiscovered")
                                    : plan_for(s, STEP_RELEASE, m, "NeverFormed");
    if (m->dormant && count(s, is_running) == 0)
        return plan_wait("LastVoterDeleted", LATER_MS); /* it sleeps on the only data there is */
    if (s->quorum != YES || m->listed == UNKNOWN)
        return plan_wait("QuorumLost", SHORTLY_MS);
    if (m->listed == NO)
        return plan_for(s, STEP_RELEASE, m, "LeftEtcd");
    if (is_last_voter(s, m))
        return plan_wait("LastVoterDeleted", LATER_MS); /* removing it would end the cluster */
    if (!others_hold_quorum(s, m))
        return plan_wait("WaitingForQuorum", SHORTLY_MS);
    return plan_for(s, STEP_REMOVE, m, "RemovingMember");
}

/* Of several terminating members, the first that can go. */
static struct plan decide_leaving(const struct observed *s)
{
    struct plan blocked = plan_wait("WaitingForQuorum", SHORTLY_MS);
    for (size_t i = 0; i < s->n_members; i++) {
        if (!is_terminating(&s->members[i]))
            continue;
        const struct plan plan = decide_leaving_one(s, &s->members[i]);
        if (plan.step != STEP_WAIT)
            return plan;
        blocked = plan;
    }
    const struct seen_member *dead = find_dead_weight(s);
    return dead ? plan_for(s, STEP_DELETE_MEMBER, dead, "VolumeLost") : blocked;
}

static struct plan decide_unformed(const struct observed *s)
{
    if (s->want == 0)
        return plan_wait("Paused", LATER_MS);
    const struct seen_member *seed = find(s, is_seed);
    if (!seed) {
        /* Members without a seed: somebody made them, or the cluster ID was lost. Do not guess. */
        if (s->n_members > 0)
            return plan_wait("SeedMissing", LATER_MS);
        /* Clients find members by a label: they must not find two clusters under one name. */
        if (s->remains > 0)
            return plan_wait("PredecessorLeaving", SHORTLY_MS);
        return plan_step(STEP_CREATE_SEED, "Bootstrapping");
    }
    if (member_volume_lost(seed))
        return plan_wait("VolumeLost", LATER_MS);
    if (s->found_id == 0) /* members need their names first; clients can wait as long as we do */
        return s->client_service == NO ? plan_step(STEP_ENSURE_SERVICES, "CreatingServices")
                                       : plan_wait("WaitingForSeed", soon_if_asked(seed));
    if (!s->found_id_expected)
        return plan_wait("ForeignCluster", LATER_MS); /* something else answers at that address */
    return plan_step(STEP_LATCH_ID, "ClusterDiscovered");
}

/* A member of the list that is being added: first etcd must know it, then it may start. */
static struct plan decide_pending(const struct observed *s, const struct seen_member *m)
{
    if (count(s, is_running) > (size_t)s->want) /* the target changed meanwhile */
        return plan_for(s, STEP_DELETE_MEMBER, m, "ScalingDown");
    if (m->listed == YES)
        return plan_for(s, STEP_COMPLETE, m, "ScalingUp");
    if (count(s, is_healthy_voter) < cluster_voters(s))
        return plan_wait("WaitingForMembers", SOON_MS);
    return plan_for(s, STEP_ADD_LEARNER, m, "ScalingUp");
}

static struct plan decide_learner(const struct observed *s, const struct seen_member *m)
{
    /* A learner that has to go is not promoted first. */
    if (count(s, is_running) > (size_t)s->want)
        return plan_for(s, STEP_DELETE_MEMBER, m, "ScalingDown");
    if (m->healthy != YES)
        return plan_wait("WaitingForLearner", soon_if_asked(m));
    return plan_for(s, STEP_PROMOTE, m, "ScalingUp"); /* etcd itself refuses while it lags */
}

static struct plan decide_growth(const struct observed *s)
{
    /* etcd's word counts, not the kubelet's probe: the next one is added the moment etcd takes it.
     */
    for (size_t i = 0; i < s->n_members; i++)
        if (is_running(&s->members[i]) && !is_healthy_voter(&s->members[i]))
            return plan_wait("WaitingForMembers", SOON_MS);
    if (s->version_refused) /* nothing is under way: a better version need not wait */
        return s->spec_changed ? plan_step(STEP_LATCH_TARGET, "SpecChanged")
                               : plan_wait("VersionRefused", LATER_MS);
    if (s->n_members >= OBSERVED_MEMBERS_MAX)
        return plan_wait("TooManyMembers", LATER_MS);
    return plan_step(STEP_CREATE_MEMBER, "ScalingUp");
}

/* Who leaves first: an unhealthy member, then the newest, then the last by name. (A learner has
 * been dealt with before.) */
static bool leaves_before(const struct seen_member *a, const struct seen_member *b)
{
    const bool a_sick = a->healthy == NO, b_sick = b->healthy == NO;
    if (a_sick != b_sick)
        return a_sick;
    if (a->created_s != b->created_s)
        return a->created_s > b->created_s;
    return strcmp(a->name, b->name) > 0;
}

static struct plan decide_shrinking(const struct observed *s)
{
    const struct seen_member *victim = NULL;
    for (size_t i = 0; i < s->n_members; i++)
        if (is_running(&s->members[i]) && (!victim || leaves_before(&s->members[i], victim)))
            victim = &s->members[i];
    if (s->want == 0 && count(s, is_running) == 1)
        return plan_for(s, STEP_SLEEP, victim, "Pausing");
    if (!others_hold_quorum(s, victim))
        return plan_wait("WaitingForQuorum", SHORTLY_MS);
    return plan_for(s, STEP_DELETE_MEMBER, victim, "ScalingDown");
}

/* etcd answers, and nothing is half-way: the one stage that begins changes of membership. */
static struct plan decide_settled(const struct observed *s)
{
    const size_t running = count(s, is_running);
    if (running < (size_t)s->want)
        return decide_growth(s);
    if (running > (size_t)s->want)
        return decide_shrinking(s);
    if (last_voter_leaves(s))
        return plan_wait("LastVoterDeleted", LATER_MS); /* with its data, until others are wanted */
    if (find(s, lost_its_volume))
        return plan_wait("VolumeLost", LATER_MS); /* the others could not do without it */
    return cluster_complete(s) ? plan_wait("Reconciled", LATER_MS)
                               : plan_wait("WaitingForMembers", SHORTLY_MS);
}

static struct plan decide_formed(const struct observed *s)
{
    if (count(s, is_running) == 0 && !last_voter_leaves(s)) /* who sleeps answers nobody */
        return plan_wait(find(s, is_asleep) ? "Paused" : "AllMembersLost", LATER_MS);
    if (s->quorum == UNKNOWN) { /* every answer counts, also the same silence again */
        struct plan plan = plan_wait("Observing", SHORTLY_MS);
        plan.again = true;
        return plan;
    }
    if (s->quorum == NO)
        return plan_wait("QuorumLost", SOON_MS); /* such as a member that has just been woken */
    if (find(s, fate_unknown))
        return plan_wait("Observing", SHORTLY_MS);
    if (s->unmanaged > 0)
        return plan_wait("UnmanagedMember", LATER_MS); /* somebody added it by hand */

    const struct seen_member *dead = find_dead_weight(s);
    if (dead)
        return plan_for(s, STEP_DELETE_MEMBER, dead, "VolumeLost");
    const struct seen_member *expelled = find(s, was_expelled);
    if (expelled)
        return plan_for(s, STEP_DELETE_MEMBER, expelled, "LeftEtcd");
    const struct seen_member *learner = find(s, is_learner), *pending = find(s, is_pending);
    if (learner && !learner->pending) /* one at a time, whoever made a second */
        return decide_learner(s, learner);
    if (learner || pending)
        return decide_pending(s, learner ? learner : pending);
    return decide_settled(s);
}

/* The deadline has passed. Members are still kept alive (chores), but nothing new is begun. */
static struct plan decide_overdue(const struct observed *s)
{
    if (s->formed != YES)
        return plan_wait("BootstrapFailed", LATER_MS);
    if (s->spec_changed)
        return plan_step(STEP_LATCH_TARGET, "RetryAfterDeadline");
    return plan_wait("DeadlineExceeded", LATER_MS);
}

struct plan cluster_decide(const struct observed *s, int64_t now_s)
{
    if (s->exists == UNKNOWN)
        return plan_wait("Observing", SHORTLY_MS); /* a zeroed world lands here */

    const bool leaving = find(s, is_terminating) != NULL;
    if (s->exists == NO || s->deleting)
        return leaving ? decide_leaving(s) : plan_wait("Deleting", LATER_MS);
    if (s->unsupported)
        return plan_wait("Unsupported", LATER_MS);
    if (s->bad_name)
        return plan_wait("InvalidName", LATER_MS);
    if (s->crowded)
        return plan_wait("TooManyMembers", LATER_MS);
    if (s->members_known != YES)
        return plan_wait("Observing", SHORTLY_MS);

    if (s->service_foreign)
        return plan_wait("ForeignService", LATER_MS);
    if (s->peer_service == NO || (s->formed == YES && s->client_service == NO))
        return plan_step(STEP_ENSURE_SERVICES, "CreatingServices");
    if (!s->target_latched)
        return plan_step(STEP_LATCH_TARGET, "InitialSnapshot");
    if (s->formed == UNKNOWN)
        return plan_wait("Observing", SHORTLY_MS);

    const bool complete = cluster_complete(s);
    if (complete && s->spec_changed)
        return plan_step(STEP_LATCH_TARGET, "SpecChanged");
    /* Only the last member of a paused cluster sleeps. One that was deleted in its sleep is woken
     * too, to hand over. */
    const struct seen_member *asleep = find(s, is_asleep);
    if (asleep && (s->want > 0 || find(s, is_running)))
        return plan_for(s, STEP_WAKE, asleep, "Resuming");
    if (leaving) { /* one change of membership at a time */
        const struct plan plan = decide_leaving(s);
        if (plan.step != STEP_WAIT || !last_voter_leaves(s))
            return plan;
    }
    if (!complete && s->deadline_s > 0 && now_s >= s->deadline_s)
        return decide_overdue(s);
    return s->formed == NO ? decide_unformed(s) : decide_formed(s);
}

/* --- Chores --------------------------------------------------------------------------------- */

/* A Pod may start on a volume that is certainly the member's own. While the cluster's state is
 * unknown nothing starts: `--initial-cluster-state` depends on it. */
static bool may_start(const struct observed *s, const struct seen_member *m)
{
    return s->exists == YES && s->formed != UNKNOWN && m->finalizer && !m->pending &&
           m->pvc == OURS && m->pvc_recorded && !m->pvc_changed;
}

/* Sleep is for the last member of a cluster that is to be paused, whoever set `dormant`. */
static bool may_sleep(const struct observed *s, const struct seen_member *m)
{
    return m->dormant && s->target_latched && s->want == 0 && count(s, is_running) == 0;
}

enum chore member_decide(const struct observed *s, const struct seen_member *m)
{
    if (s->exists != YES || s->deleting || s->unsupported)
        return CHORE_NONE;
    /* A terminating member keeps its Pod until it has left etcd: its vote may be needed for that.
     */
    if (m->deleting && (!m->finalizer || m->listed == NO))
        return CHORE_NONE;
    if (!m->finalizer)
        return CHORE_ADD_FINALIZER;
    if (m->ownerless)
        return CHORE_ADOPT;
    /* A Pod that has ended for good, by eviction say, runs nothing and blocks its name. */
    if (m->pod == OURS && !m->pod_terminating && (m->pod_ended || may_sleep(s, m)))
        return CHORE_DELETE_POD;
    if (m->dormant || m->pending)
        return CHORE_NONE;
    /* Where somebody else's is in the way, creating says so. */
    if ((m->pvc == ABSENT || m->pvc == FOREIGN) && !m->pvc_recorded)
        return CHORE_CREATE_PVC;
    if (m->pvc == OURS && !m->pvc_recorded)
        return CHORE_RECORD_PVC; /* before anything is written to it */
    if (m->pvc == OURS && m->pvc_hidden)
        return CHORE_LABEL_PVC;
    if (m->pod == ABSENT && may_start(s, m))
        return CHORE_CREATE_POD;
    if (m->pod == OURS && !m->pod_terminating && m->listed != UNKNOWN &&
        m->pod_labeled_voter != member_votes(m))
        return CHORE_LABEL_POD;
    return CHORE_NONE;
}

bool plan_at_rest(const struct plan *plan)
{
    return plan->step == STEP_WAIT && plan->recheck_ms >= LATER_MS;
}

const char *step_name(enum step step)
{
    static const char *const names[STEP_COUNT] = {
        [STEP_WAIT] = "wait",
        [STEP_LATCH_TARGET] = "latch target",
        [STEP_ENSURE_SERVICES] = "ensure services",
        [STEP_CREATE_SEED] = "create seed",
        [STEP_LATCH_ID] = "latch cluster id",
        [STEP_CREATE_MEMBER] = "create member",
        [STEP_ADD_LEARNER] = "add learner",
        [STEP_COMPLETE] = "complete member",
        [STEP_PROMOTE] = "promote",
        [STEP_WAKE] = "wake",
        [STEP_SLEEP] = "sleep",
        [STEP_DELETE_MEMBER] = "delete member",
        [STEP_REMOVE] = "remove member",
        [STEP_RELEASE] = "release member",
    };
    return step < STEP_COUNT ? names[step] : "unknown";
}
