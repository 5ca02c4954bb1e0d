/* SPDX-License-Identifier: Apache-2.0
 * The policy as a table, a row per rule; then a small model of Kubernetes and etcd on which random
 * worlds, random faults and random ignorance must never lead to an unsafe step, and must converge
 * once the faults end. */
#include "control/cluster/decide.h"

#include <stdio.h>

#include "control/cluster/observed.h"
#include "unit.h"
#include "worlds.h"

/* --- Rows ----------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    struct observed seen;
    enum step step;
    const char *reason;
    size_t member;
} rows[] = {
    {"a zeroed world waits", {.exists = UNKNOWN}, STEP_WAIT, "Observing", PLAN_NO_MEMBER},
    {"a cluster whose members are unknown waits",
     {.exists = YES, .peer_service = YES, .target_latched = true, .want = 3, .formed = NO},
     STEP_WAIT,
     "Observing",
     PLAN_NO_MEMBER},
    {"unknown whether formed: no seed",
     {.exists = YES, .peer_service = YES, .target_latched = true, .want = 3, .members_known = YES},
     STEP_WAIT,
     "Observing",
     PLAN_NO_MEMBER},

    {"an unsupported cluster is left alone", FORMED(3, .unsupported = "spec.tls"), STEP_WAIT,
     "Unsupported", PLAN_NO_MEMBER},
    {"a name that cannot be", UNFORMED(3, .bad_name = "too long"), STEP_WAIT, "InvalidName",
     PLAN_NO_MEMBER},
    {"more members than can be judged", FORMED(3, .members_known = UNKNOWN, .crowded = true),
     STEP_WAIT, "TooManyMembers", PLAN_NO_MEMBER},
    {"their cluster deleted, they are let go all the same",
     FORMED(3, .members_known = UNKNOWN, .crowded = true, .deleting = true,
            MEMBERS(1, VOTER("a", .deleting = true))),
     STEP_RELEASE, "ClusterDeleted", 0},
    {"a foreign service stops everything", UNFORMED(3, .service_foreign = true), STEP_WAIT,
     "ForeignService", PLAN_NO_MEMBER},
    {"names of members come first",
     UNFORMED(3, .peer_service = NO, .client_service = NO, .target_latched = false),
     STEP_ENSURE_SERVICES, "CreatingServices", PLAN_NO_MEMBER},
    {"clients are not waited for", UNFORMED(3, .client_service = NO), STEP_CREATE_SEED,
     "Bootstrapping", PLAN_NO_MEMBER},
    {"their turn comes while the seed starts",
     UNFORMED(3, .client_service = NO, MEMBERS(1, {.name = "a", .bootstrap = true})),
     STEP_ENSURE_SERVICES, "CreatingServices", PLAN_NO_MEMBER},
    {"a formed cluster gets either back", FORMED(1, .client_service = NO, MEMBERS(1, VOTER("a"))),
     STEP_ENSURE_SERVICES, "CreatingServices", PLAN_NO_MEMBER},
    {"then the target", UNFORMED(3, .target_latched = false), STEP_LATCH_TARGET, "InitialSnapshot",
     PLAN_NO_MEMBER},

    {"nothing yet", UNFORMED(3), STEP_CREATE_SEED, "Bootstrapping", PLAN_NO_MEMBER},
    {"not while a cluster of that name is still leaving", UNFORMED(3, .remains = 1), STEP_WAIT,
     "PredecessorLeaving", PLAN_NO_MEMBER},
    {"what is left of it does not stop a cluster that formed",
     FORMED(3, .remains = 1, MEMBERS(1, VOTER("a"))), STEP_CREATE_MEMBER, "ScalingUp",
     PLAN_NO_MEMBER},
    {"paused before it formed", UNFORMED(0), STEP_WAIT, "Paused", PLAN_NO_MEMBER},
    {"a seed that does not answer", UNFORMED(3, MEMBERS(1, {.name = "a", .bootstrap = true})),
     STEP_WAIT, "WaitingForSeed", PLAN_NO_MEMBER},
    {"a seed that answers",
     UNFORMED(3, .found_id = 7, .found_id_expected = true,
              MEMBERS(1, {.name = "a", .bootstrap = true})),
     STEP_LATCH_ID, "ClusterDiscovered", PLAN_NO_MEMBER},
    {"somebody else answers at the seed's address",
     UNFORMED(3, .found_id = 7, MEMBERS(1, {.name = "a", .bootstrap = true})), STEP_WAIT,
     "ForeignCluster", PLAN_NO_MEMBER},
    {"members without a seed make no second seed", UNFORMED(3, MEMBERS(1, {.name = "a"})),
     STEP_WAIT, "SeedMissing", PLAN_NO_MEMBER},
    {"a terminating seed makes no second seed either",
     UNFORMED(3, MEMBERS(1, {.name = "a", .bootstrap = true, .deleting = true})), STEP_WAIT,
     "SeedMissing", PLAN_NO_MEMBER},
    {"a deleted member of a cluster that never formed is let go",
     UNFORMED(3, MEMBERS(1, {.name = "a", .bootstrap = true, .deleting = true, .finalizer = true})),
     STEP_RELEASE, "NeverFormed", 0},
    {"unless it serves already: then it has formed",
     UNFORMED(3, .found_id = 7, .found_id_expected = true,
              MEMBERS(1, {.name = "a", .bootstrap = true, .deleting = true, .finalizer = true})),
     STEP_LATCH_ID, "ClusterDiscovered", PLAN_NO_MEMBER},
    {"a seed that lost its volume is not started over",
     UNFORMED(3, MEMBERS(1, {.name = "a", .bootstrap = true, .pvc_recorded = true, .pvc = ABSENT})),
     STEP_WAIT, "VolumeLost", PLAN_NO_MEMBER},

    {"grow when all are healthy", FORMED(3, MEMBERS(1, VOTER("a"))), STEP_CREATE_MEMBER,
     "ScalingUp", PLAN_NO_MEMBER},
    {"do not grow with a version that cannot join",
     FORMED(3, .version_refused = true, MEMBERS(1, VOTER("a"))), STEP_WAIT, "VersionRefused",
     PLAN_NO_MEMBER},
    {"a version that can is adopted at once",
     FORMED(3, .version_refused = true, .spec_changed = true, MEMBERS(1, VOTER("a"))),
     STEP_LATCH_TARGET, "SpecChanged", PLAN_NO_MEMBER},
    {"there is a largest number of members",
     FORMED(20, MEMBERS(16, VOTER("a"), VOTER("b"), VOTER("c"), VOTER("d"), VOTER("e"), VOTER("f"),
                        VOTER("g"), VOTER("h"), VOTER("i"), VOTER("j"), VOTER("k"), VOTER("l"),
                        VOTER("m"), VOTER("n"), VOTER("o"), VOTER("p"))),
     STEP_WAIT, "TooManyMembers", PLAN_NO_MEMBER},
    {"do not grow while one is not healthy",
     FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = NO))), STEP_WAIT, "WaitingForMembers",
     PLAN_NO_MEMBER},
    {"nor while it is unknown", FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = UNKNOWN))),
     STEP_WAIT, "WaitingForMembers", PLAN_NO_MEMBER},
    {"a probe that has not run yet is no reason to wait",
     FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .pod_ready = NO))), STEP_CREATE_MEMBER,
     "ScalingUp", PLAN_NO_MEMBER},
    {"a pending member is added to etcd",
     FORMED(3, MEMBERS(2, VOTER("a"), {.name = "b", .pending = true, .listed = NO})),
     STEP_ADD_LEARNER, "ScalingUp", 1},
    {"not while a voter is unhealthy",
     FORMED(5, MEMBERS(4, VOTER("a"), VOTER("b"), VOTER("c", .healthy = NO),
                       {.name = "d", .pending = true, .listed = NO})),
     STEP_WAIT, "WaitingForMembers", PLAN_NO_MEMBER},
    {"a pending member etcd knows is completed, not added again",
     FORMED(3,
            MEMBERS(2, VOTER("a"), {.name = "b", .pending = true, .listed = YES, .learner = true})),
     STEP_COMPLETE, "ScalingUp", 1},
    {"not beside a learner",
     FORMED(3, MEMBERS(3, VOTER("a"), {.name = "b", .pending = true, .listed = NO},
                       VOTER("c", .learner = true))),
     STEP_PROMOTE, "ScalingUp", 2},
    {"a pending member nobody wants any more goes",
     FORMED(1, MEMBERS(2, VOTER("a"), {.name = "b", .pending = true, .listed = NO})),
     STEP_DELETE_MEMBER, "ScalingDown", 1},
    {"a learner is waited for",
     FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .learner = true, .healthy = UNKNOWN))), STEP_WAIT,
     "WaitingForLearner", PLAN_NO_MEMBER},
    {"a learner is promoted", FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .learner = true))),
     STEP_PROMOTE, "ScalingUp", 1},
    {"a learner too many is removed, not promoted",
     FORMED(1, MEMBERS(2, VOTER("a"), VOTER("b", .learner = true))), STEP_DELETE_MEMBER,
     "ScalingDown", 1},
    {"a learner without its volume is replaced",
     FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b", .learner = true, .pvc = ABSENT, .healthy = NO))),
     STEP_DELETE_MEMBER, "VolumeLost", 1},
    {"the promoted complete the target", FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b"))), STEP_WAIT,
     "Reconciled", PLAN_NO_MEMBER},

    {"shrink: the newest goes",
     FORMED(1, MEMBERS(3, VOTER("a", .created_s = 1), VOTER("b", .created_s = 3),
                       VOTER("c", .created_s = 2))),
     STEP_DELETE_MEMBER, "ScalingDown", 1},
    {"shrink: of two born together the last by name",
     FORMED(1, MEMBERS(3, VOTER("a"), VOTER("c"), VOTER("b"))), STEP_DELETE_MEMBER, "ScalingDown",
     1},
    {"shrink: the sick before the newest",
     FORMED(2, MEMBERS(3, VOTER("a", .created_s = 1, .healthy = NO), VOTER("b", .created_s = 2),
                       VOTER("c", .created_s = 3))),
     STEP_DELETE_MEMBER, "ScalingDown", 0},
    {"never shrink below quorum",
     FORMED(4, MEMBERS(5, VOTER("a"), VOTER("b"), VOTER("c", .healthy = UNKNOWN),
                       VOTER("d", .healthy = UNKNOWN), VOTER("e", .created_s = 9))),
     STEP_WAIT, "WaitingForQuorum", PLAN_NO_MEMBER},
    {"two healthy voters: one may go", FORMED(1, MEMBERS(2, VOTER("a"), VOTER("b"))),
     STEP_DELETE_MEMBER, "ScalingDown", 1},
    {"the last one sleeps", FORMED(0, MEMBERS(1, VOTER("a"))), STEP_SLEEP, "Pausing", 0},
    {"two of a pausing cluster: first one goes", FORMED(0, MEMBERS(2, VOTER("a"), VOTER("b"))),
     STEP_DELETE_MEMBER, "ScalingDown", 1},
    {"asleep", FORMED(0, .quorum = UNKNOWN, MEMBERS(1, VOTER("a", .dormant = true))), STEP_WAIT,
     "Paused", PLAN_NO_MEMBER},
    {"woken", FORMED(3, .quorum = UNKNOWN, MEMBERS(1, VOTER("a", .dormant = true))), STEP_WAKE,
     "Resuming", 0},

    {"a sleeper beside the living is woken before anybody new comes",
     FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .dormant = true))), STEP_WAKE, "Resuming", 1},
    {"also when so many sleep that quorum is gone",
     FORMED(3, .quorum = NO,
            MEMBERS(3, VOTER("a"), VOTER("b", .dormant = true), VOTER("c", .dormant = true))),
     STEP_WAKE, "Resuming", 1},
    {"and one that was deleted in its sleep",
     FORMED(1, .quorum = NO, MEMBERS(1, VOTER("a", .dormant = true, .deleting = true))), STEP_WAKE,
     "Resuming", 0},
    {"or that somebody put to sleep beside others",
     FORMED(0, MEMBERS(2, VOTER("a"), VOTER("b", .dormant = true))), STEP_WAKE, "Resuming", 1},
    {"which nobody removes while the cluster is paused",
     FORMED(0, .quorum = NO, MEMBERS(1, VOTER("a", .dormant = true, .deleting = true))), STEP_WAIT,
     "LastVoterDeleted", PLAN_NO_MEMBER},

    {"a member somebody removed from etcd is replaced",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .listed = NO, .healthy = NO), VOTER("c"))),
     STEP_DELETE_MEMBER, "LeftEtcd", 1},
    {"not one that has never been part of it",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .listed = NO, .id_recorded = false), VOTER("c"))),
     STEP_WAIT, "WaitingForMembers", PLAN_NO_MEMBER},
    {"nor while etcd lists somebody under another address",
     FORMED(3, .unmanaged = 1, MEMBERS(3, VOTER("a"), VOTER("b", .listed = NO), VOTER("c"))),
     STEP_WAIT, "UnmanagedMember", PLAN_NO_MEMBER},

    {"never act without quorum",
     FORMED(1, .quorum = NO, MEMBERS(3, VOTER("a"), VOTER("b"), VOTER("c"))), STEP_WAIT,
     "QuorumLost", PLAN_NO_MEMBER},
    {"unknown quorum is not quorum",
     FORMED(1, .quorum = UNKNOWN, MEMBERS(3, VOTER("a"), VOTER("b"), VOTER("c"))), STEP_WAIT,
     "Observing", PLAN_NO_MEMBER},
    {"a member of unknown standing stops changes",
     FORMED(1, MEMBERS(2, VOTER("a"), VOTER("b", .listed = UNKNOWN))), STEP_WAIT, "Observing",
     PLAN_NO_MEMBER},
    {"a member nobody manages stops changes",
     FORMED(1, .unmanaged = 1, MEMBERS(2, VOTER("a"), VOTER("b"))), STEP_WAIT, "UnmanagedMember",
     PLAN_NO_MEMBER},
    {"formed and every member gone: no new seed", FORMED(3), STEP_WAIT, "AllMembersLost",
     PLAN_NO_MEMBER},

    {"a lost volume: the member is replaced",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .pvc = ABSENT, .healthy = NO), VOTER("c"))),
     STEP_DELETE_MEMBER, "VolumeLost", 1},
    {"another volume under its name is a lost volume",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .pvc_changed = true, .healthy = NO), VOTER("c"))),
     STEP_DELETE_MEMBER, "VolumeLost", 1},
    {"whoever owns it",
     FORMED(3, MEMBERS(3, VOTER("a"),
                       VOTER("b", .pvc = FOREIGN, .pvc_changed = true, .healthy = NO), VOTER("c"))),
     STEP_DELETE_MEMBER, "VolumeLost", 1},
    {"not if the others do not hold quorum",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .pvc = ABSENT, .healthy = NO),
                       VOTER("c", .healthy = UNKNOWN))),
     STEP_WAIT, "VolumeLost", PLAN_NO_MEMBER},
    {"an unknown volume is not a lost one",
     FORMED(3,
            MEMBERS(3, VOTER("a"), VOTER("b", .pvc = PRESENCE_UNKNOWN, .healthy = NO), VOTER("c"))),
     STEP_WAIT, "WaitingForMembers", PLAN_NO_MEMBER},

    {"a terminating voter leaves etcd first",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true), VOTER("c"))), STEP_REMOVE,
     "RemovingMember", 1},
    {"before anything else begins",
     FORMED(5, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true), VOTER("c"))), STEP_REMOVE,
     "RemovingMember", 1},
    {"only if the others hold quorum",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true), VOTER("c", .healthy = NO))),
     STEP_WAIT, "WaitingForQuorum", PLAN_NO_MEMBER},
    {"only while etcd answers",
     FORMED(3, .quorum = NO, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true), VOTER("c"))),
     STEP_WAIT, "QuorumLost", PLAN_NO_MEMBER},
    {"one that left etcd is let go",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true, .listed = NO), VOTER("c"))),
     STEP_RELEASE, "LeftEtcd", 1},
    {"one of unknown standing is kept",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true, .listed = UNKNOWN), VOTER("c"))),
     STEP_WAIT, "QuorumLost", PLAN_NO_MEMBER},
    {"the last voter is never removed", FORMED(0, MEMBERS(1, VOTER("a", .deleting = true))),
     STEP_WAIT, "LastVoterDeleted", PLAN_NO_MEMBER},
    {"nor is a successor nobody wants kept beside it",
     FORMED(0, MEMBERS(2, VOTER("a", .deleting = true),
                       {.name = "b", .finalizer = true, .pending = true, .listed = NO})),
     STEP_DELETE_MEMBER, "ScalingDown", 1},
    {"it gets a successor first", FORMED(1, MEMBERS(1, VOTER("a", .deleting = true))),
     STEP_CREATE_MEMBER, "ScalingUp", PLAN_NO_MEMBER},
    {"which is promoted",
     FORMED(1, MEMBERS(2, VOTER("a", .deleting = true), VOTER("b", .learner = true))), STEP_PROMOTE,
     "ScalingUp", 1},
    {"and then it may go", FORMED(1, MEMBERS(2, VOTER("a", .deleting = true), VOTER("b"))),
     STEP_REMOVE, "RemovingMember", 0},
    {"who can leave leaves before the successor comes",
     FORMED(1, MEMBERS(2, VOTER("a", .deleting = true),
                       VOTER("b", .deleting = true, .learner = true))),
     STEP_REMOVE, "RemovingMember", 1},
    {"no successor without quorum",
     FORMED(1, .quorum = NO, MEMBERS(1, VOTER("a", .deleting = true))), STEP_WAIT, "QuorumLost",
     PLAN_NO_MEMBER},
    {"the dead leave before the living can",
     FORMED(3, MEMBERS(3, VOTER("a", .deleting = true), VOTER("b"),
                       VOTER("c", .pvc = ABSENT, .healthy = NO))),
     STEP_DELETE_MEMBER, "VolumeLost", 2},
    {"of two terminating, the one that can go",
     FORMED(3, MEMBERS(3, VOTER("a", .deleting = true), VOTER("b"),
                       VOTER("c", .deleting = true, .healthy = NO))),
     STEP_REMOVE, "RemovingMember", 2},
    {"a vote of unknown standing counts against removal",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true), VOTER("c", .listed = UNKNOWN))),
     STEP_WAIT, "WaitingForQuorum", PLAN_NO_MEMBER},
    {"a vote nobody manages counts against removal",
     FORMED(3, .unmanaged = 2, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true), VOTER("c"))),
     STEP_WAIT, "WaitingForQuorum", PLAN_NO_MEMBER},
    {"a deleted cluster lets its members go",
     {.exists = NO, .members_known = YES, MEMBERS(1, VOTER("a", .deleting = true))},
     STEP_RELEASE,
     "ClusterDeleted",
     0},
    {"a terminating cluster too",
     FORMED(3, .deleting = true, .quorum = NO, MEMBERS(1, VOTER("a", .deleting = true))),
     STEP_RELEASE, "ClusterDeleted", 0},
    {"a terminating cluster does nothing else", FORMED(3, .deleting = true, MEMBERS(1, VOTER("a"))),
     STEP_WAIT, "Deleting", PLAN_NO_MEMBER},

    {"a new spec is adopted when the target is reached",
     FORMED(1, .spec_changed = true, MEMBERS(1, VOTER("a"))), STEP_LATCH_TARGET, "SpecChanged",
     PLAN_NO_MEMBER},
    {"not before", FORMED(2, .spec_changed = true, MEMBERS(1, VOTER("a"))), STEP_CREATE_MEMBER,
     "ScalingUp", PLAN_NO_MEMBER},
    {"a member that is slow to answer does not undo what is reached",
     FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = UNKNOWN))), STEP_WAIT, "Reconciled",
     PLAN_NO_MEMBER},
    {"one that says it is ill does", FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = NO))),
     STEP_WAIT, "WaitingForMembers", PLAN_NO_MEMBER},
    {"overdue before it formed", UNFORMED(3, .deadline_s = 900), STEP_WAIT, "BootstrapFailed",
     PLAN_NO_MEMBER},
    {"overdue after", FORMED(3, .deadline_s = 900, MEMBERS(1, VOTER("a"))), STEP_WAIT,
     "DeadlineExceeded", PLAN_NO_MEMBER},
    {"overdue, and the spec was edited",
     FORMED(3, .deadline_s = 900, .spec_changed = true, MEMBERS(1, VOTER("a"))), STEP_LATCH_TARGET,
     "RetryAfterDeadline", PLAN_NO_MEMBER},
    {"a deadline of the future", FORMED(3, .deadline_s = 1001, MEMBERS(1, VOTER("a"))),
     STEP_CREATE_MEMBER, "ScalingUp", PLAN_NO_MEMBER},
    {"a reached target is never overdue", FORMED(1, .deadline_s = 900, MEMBERS(1, VOTER("a"))),
     STEP_WAIT, "Reconciled", PLAN_NO_MEMBER},
    {"removal goes on when overdue",
     FORMED(3, .deadline_s = 900, MEMBERS(3, VOTER("a"), VOTER("b", .deleting = true), VOTER("c"))),
     STEP_REMOVE, "RemovingMember", 1},
};

static void each_rule_decides(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct plan plan = cluster_decide(&rows[i].seen, 1000);
        if (plan.step != rows[i].step || strcmp(plan.reason, rows[i].reason) != 0 ||
            plan.member != rows[i].member)
            fail_msg("%s: %s (%s), member %zd", rows[i].name, step_name(plan.step), plan.reason,
                     (ssize_t)plan.member);
        assert_true(plan.recheck_ms > 0); /* nobody is forgotten */
    }
}

static const struct {
    const char *name;
    struct observed seen; /* the chore of its first member */
    enum chore want;
} chores[] = {
    {"a zeroed world has no chores", {MEMBERS(1, {.name = "a"})}, CHORE_NONE},
    {"the finalizer comes first", FORMED(1, MEMBERS(1, {.name = "a"})), CHORE_ADD_FINALIZER},
    {"then an owner", FORMED(1, MEMBERS(1, VOTER("a", .ownerless = true))), CHORE_ADOPT},
    {"a pending member gets nothing",
     FORMED(1, MEMBERS(1, {.name = "a", .finalizer = true, .pending = true, .pvc = ABSENT})),
     CHORE_NONE},
    {"then the volume",
     UNFORMED(1, MEMBERS(1, {.name = "a", .finalizer = true, .pvc = ABSENT, .pod = ABSENT})),
     CHORE_CREATE_PVC},
    {"somebody else's in the way is named by creating",
     UNFORMED(1, MEMBERS(1, {.name = "a", .finalizer = true, .pvc = FOREIGN, .pod = ABSENT})),
     CHORE_CREATE_PVC},
    {"an unknown volume is not created",
     UNFORMED(1, MEMBERS(1, {.name = "a", .finalizer = true, .pod = ABSENT})), CHORE_NONE},
    {"a lost volume is not created anew",
     FORMED(1, MEMBERS(1, VOTER("a", .pvc = ABSENT, .pod = ABSENT))), CHORE_NONE},
    {"whose UID is kept before anything is written to it",
     UNFORMED(1, MEMBERS(1, {.name = "a", .finalizer = true, .pvc = OURS, .pod = ABSENT})),
     CHORE_RECORD_PVC},
    {"a volume without our label gets it back",
     FORMED(1, MEMBERS(1, VOTER("a", .pvc_hidden = true))), CHORE_LABEL_PVC},
    {"then the Pod",
     UNFORMED(
         1,
         MEMBERS(
             1,
             {.name = "a", .finalizer = true, .pvc = OURS, .pvc_recorded = true, .pod = ABSENT})),
     CHORE_CREATE_POD},
    {"a Pod comes back on its volume", FORMED(1, MEMBERS(1, VOTER("a", .pod = ABSENT))),
     CHORE_CREATE_POD},
    {"also without quorum", FORMED(1, .quorum = NO, MEMBERS(1, VOTER("a", .pod = ABSENT))),
     CHORE_CREATE_POD},
    {"not on another volume", FORMED(1, MEMBERS(1, VOTER("a", .pod = ABSENT, .pvc_changed = true))),
     CHORE_NONE},
    {"not on a foreign volume", FORMED(1, MEMBERS(1, VOTER("a", .pod = ABSENT, .pvc = FOREIGN))),
     CHORE_NONE},
    {"not where nothing is known of the cluster",
     FORMED(1, .formed = UNKNOWN, MEMBERS(1, VOTER("a", .pod = ABSENT))), CHORE_NONE},
    {"an unknown Pod is not created", FORMED(1, MEMBERS(1, VOTER("a", .pod = PRESENCE_UNKNOWN))),
     CHORE_NONE},
    {"a foreign Pod is left alone", FORMED(1, MEMBERS(1, VOTER("a", .pod = FOREIGN))), CHORE_NONE},
    {"a dormant member's Pod goes", FORMED(0, MEMBERS(1, VOTER("a", .dormant = true))),
     CHORE_DELETE_POD},
    {"not beside others that run", FORMED(0, MEMBERS(2, VOTER("a", .dormant = true), VOTER("b"))),
     CHORE_NONE},
    {"nor in a cluster that should run", FORMED(1, MEMBERS(1, VOTER("a", .dormant = true))),
     CHORE_NONE},
    {"a Pod that ended for good makes room for the next",
     FORMED(1, MEMBERS(1, VOTER("a", .pod_ended = true, .pod_ready = NO))), CHORE_DELETE_POD},
    {"once", FORMED(1, MEMBERS(1, VOTER("a", .pod_ended = true, .pod_terminating = true))),
     CHORE_NONE},
    {"and only ours", FORMED(1, MEMBERS(1, VOTER("a", .pod_ended = true, .pod = FOREIGN))),
     CHORE_NONE},
    {"once", FORMED(0, MEMBERS(1, VOTER("a", .dormant = true, .pod_terminating = true))),
     CHORE_NONE},
    {"a dormant member's Pod does not come back",
     FORMED(0, MEMBERS(1, VOTER("a", .dormant = true, .pod = ABSENT))), CHORE_NONE},
    {"a voter is labeled", FORMED(1, MEMBERS(1, VOTER("a", .pod_labeled_voter = false))),
     CHORE_LABEL_POD},
    {"a learner is not", FORMED(1, MEMBERS(1, VOTER("a", .learner = true))), CHORE_LABEL_POD},
    {"an unknown role changes no label", FORMED(1, MEMBERS(1, VOTER("a", .listed = UNKNOWN))),
     CHORE_NONE},
    {"a terminating member keeps its Pod while etcd lists it",
     FORMED(1, MEMBERS(1, VOTER("a", .deleting = true, .pod = ABSENT))), CHORE_CREATE_POD},
    {"and while nobody can say whether it does",
     FORMED(1, .quorum = NO,
            MEMBERS(1, VOTER("a", .deleting = true, .pod = ABSENT, .listed = UNKNOWN))),
     CHORE_CREATE_POD},
    {"it gets nothing once it has left",
     FORMED(1, MEMBERS(1, VOTER("a", .deleting = true, .pod = ABSENT, .listed = NO))), CHORE_NONE},
    {"nor without our finalizer",
     FORMED(1, MEMBERS(1, VOTER("a", .deleting = true, .pod = ABSENT, .finalizer = false))),
     CHORE_NONE},
    {"nor does one of an unsupported cluster",
     FORMED(1, .unsupported = "x", MEMBERS(1, VOTER("a", .pod = ABSENT))), CHORE_NONE},
};

static void each_chore_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(chores); i++)
        if (member_decide(&chores[i].seen, &chores[i].seen.members[0]) != chores[i].want)
            fail_msg("%s", chores[i].name);
}

/* --- A model of the world -------------------------------------------------------------------- */

struct model_member {
    bool exists; /* the EtcdMember */
    bool deleting, finalizer, ownerless, dormant, pending, bootstrap, id_recorded;
    bool pod, pod_labeled, pod_ended;
    bool pvc, pvc_recorded, pvc_hidden;
    int pvc_generation, pvc_recorded_generation;
    bool listed, learner;
    bool has_data; /* its disk holds what it acknowledged */
    bool cut_off;  /* a fault: unreachable for now */
    int64_t created;
};

struct model {
    struct model_member m[OBSERVED_MEMBERS_MAX];
    bool exists, deleting, latched, formed, peer_service, client_service;
    int want, spec_want;
    int64_t tick;
    int64_t deadline; /* 0: none */
    /* what users and strangers do, for a while */
    bool service_foreign, seed_foreign, version_refused, unsupported, bad_name, crowded;
    size_t remains, strangers;
};

enum { NOW_S = 1000 };

static bool up(const struct model_member *m)
{
    return m->exists && m->pod && !m->pod_ended && m->listed && m->has_data && !m->cut_off;
}

static size_t model_voters(const struct model *w)
{
    size_t n = 0;
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++)
        n += w->m[i].listed && !w->m[i].learner;
    return n;
}

static size_t model_up_voters(const struct model *w)
{
    size_t n = 0;
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++)
        n += up(&w->m[i]) && !w->m[i].learner;
    return n;
}

static bool model_quorum(const struct model *w)
{
    return model_voters(w) > 0 && model_up_voters(w) >= model_voters(w) / 2 + 1;
}

static enum fact maybe(bool value, uint64_t *rnd, unsigned ignorance)
{
    if (test_below(rnd, 100) < ignorance)
        return UNKNOWN;
    return value ? YES : NO;
}

/* A view may also lag: what is there may be missing from it. */
static enum presence there(bool value, uint64_t *rnd, unsigned ignorance)
{
    if (test_below(rnd, 100) < ignorance)
        return test_below(rnd, 2) ? PRESENCE_UNKNOWN : ABSENT;
    return value ? OURS : ABSENT;
}

/* What a pass would see, with each fact unknown at random. index[] maps seen to model members. */
static struct observed look(const struct model *w, uint64_t *rnd, unsigned ignorance,
                            size_t index[OBSERVED_MEMBERS_MAX])
{
    const bool quorum = model_quorum(w);
    struct observed s = {.exists = maybe(w->exists, rnd, ignorance),
                         .deleting = w->deleting,
                         .unsupported = w->unsupported ? "spec.tls" : NULL,
                         .bad_name = w->bad_name ? "too long" : NULL,
                         .crowded = w->crowded,
                         .version_refused = w->version_refused,
                         .deadline_s = w->deadline,
                         .service_foreign = w->service_foreign,
                         .remains = w->remains,
                         .unmanaged = w->strangers,
                         .target_latched = w->latched,
                         .spec_changed = w->spec_want != w->want,
                         .want = w->want,
                         .formed = maybe(w->formed, rnd, ignorance),
                         .peer_service = maybe(w->peer_service, rnd, ignorance),
                         .client_service = maybe(w->client_service, rnd, ignorance),
                         .members_known = maybe(true, rnd, ignorance),
                         .quorum = maybe(quorum, rnd, ignorance)};
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++) {
        const struct model_member *m = &w->m[i];
        if (!m->exists) {
            s.unmanaged += m->listed;
            continue;
        }
        if (m->bootstrap && m->pod && !w->formed && !m->cut_off) {
            s.found_id = 7;
            s.found_id_expected = !w->seed_foreign;
        }
        index[s.n_members] = i;
        struct seen_member *seen = &s.members[s.n_members++];
        *seen = (struct seen_member){.created_s = m->created,
                                     .deleting = m->deleting,
                                     .finalizer = m->finalizer,
                                     .ownerless = m->ownerless,
                                     .bootstrap = m->bootstrap,
                                     .dormant = m->dormant,
                                     .pending = m->pending,
                                     .id_recorded = m->id_recorded,
                                     .pod = there(m->pod, rnd, ignorance),
                                     .pod_ready = maybe(up(m), rnd, ignorance),
                                     .pod_labeled_voter = m->pod_labeled,
                                     .pod_ended = m->pod_ended,
                                     .pvc = there(m->pvc, rnd, ignorance),
                                     .pvc_recorded = m->pvc_recorded,
                                     .pvc_hidden = m->pvc_hidden,
                                     .pvc_changed = m->pvc_generation != m->pvc_recorded_generation,
                                     .listed = quorum ? maybe(m->listed, rnd, ignorance) : UNKNOWN,
                                     .learner = m->learner,
                                     .leads = up(m) && !m->learner && i % 3 == 0,
                                     .healthy = maybe(up(m), rnd, ignorance)};
        (void)snprintf(seen->name, sizeof(seen->name), "m%zu", i);
    }
    return s;
}

static struct model_member *free_slot(struct model *w)
{
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++)
        if (!w->m[i].exists && !w->m[i].listed)
            return &w->m[i];
    fail_msg("more members than the model holds");
    return NULL;
}

static size_t model_learners(const struct model *w)
{
    size_t n = 0;
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++)
        n += w->m[i].listed && w->m[i].learner;
    return n;
}

/* Carries a step out, and objects to every unsafe one. `what` names the run for the message. */
static void act(struct model *w, const struct plan *plan, struct model_member *m, const char *what)
{
#define SAFE(cond)                                                                                 \
    do {                                                                                           \
        if (!(cond))                                                                               \
            fail_msg("%s: %s (%s): not %s", what, step_name(plan->step), plan->reason, #cond);     \
    } while (0)
    switch (plan->step) {
    case STEP_WAIT:
        return;
    case STEP_ENSURE_SERVICES:
        if (w->peer_service)
            w->client_service = true;
        w->peer_service = true;
        return;
    case STEP_LATCH_TARGET:
        w->latched = true;
        w->want = w->spec_want;
        w->version_refused = false;
        w->deadline = 0;
        return;
    case STEP_CREATE_SEED:
        SAFE(!w->formed && w->want > 0);
        for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++)
            SAFE(!w->m[i].exists);
        *free_slot(w) = (struct model_member){
            .exists = true, .finalizer = true, .bootstrap = true, .created = w->tick / 16};
        return;
    case STEP_LATCH_ID:
        SAFE(!w->formed);
        w->formed = true;
        return;
    case STEP_CREATE_MEMBER:
        SAFE(w->formed && model_learners(w) == 0 && model_quorum(w));
        *free_slot(w) = (struct model_member){
            .exists = true, .finalizer = true, .pending = true, .created = w->tick / 16};
        return;
    case STEP_ADD_LEARNER:
        SAFE(m->pending && !m->listed && model_learners(w) == 0 && model_quorum(w));
        m->listed = m->learner = true;
        m->has_data = true;
        return;
    case STEP_COMPLETE:
        SAFE(m->listed);
        m->pending = false;
        return;
    case STEP_PROMOTE:
        SAFE(m->learner && up(m) && model_quorum(w));
        m->learner = false;
        return;
    case STEP_WAKE:
        SAFE(m->dormant);
        m->dormant = false;
        return;
    case STEP_SLEEP:
        SAFE(w->want == 0 && model_voters(w) == 1 && w->strangers == 0);
        m->dormant = true;
        return;
    case STEP_DELETE_MEMBER:
        SAFE(!m->deleting);
        if (strcmp(plan->reason, "VolumeLost") == 0 && m->pvc &&
            m->pvc_generation == m->pvc_recorded_generation)
            return; /* act reads the volume itself, and finds it */
        SAFE(strcmp(plan->reason, "LeftEtcd") != 0 || !m->listed);
        /* whoever is deleted, quorum of what remains must stand without it */
        SAFE(model_up_voters(w) - (up(m) && !m->learner) >=
             (model_voters(w) - (m->listed && !m->learner)) / 2 + 1);
        m->deleting = true;
        return;
    case STEP_REMOVE:
        SAFE(m->deleting && m->listed && model_quorum(w));
        SAFE(m->learner || model_voters(w) > 1);
        SAFE(model_up_voters(w) - (up(m) && !m->learner) >=
             (model_voters(w) - !m->learner) / 2 + 1);
        m->listed = false;
        return;
    case STEP_RELEASE:
        SAFE(m->deleting && (!m->listed || w->deleting || !w->formed));
        *m = (struct model_member){0};
        return;
    case STEP_COUNT:
        fail_msg("%s: no such step", what);
    }
#undef SAFE
}

static void do_chore(const struct model *w, enum chore chore, struct model_member *m,
                     const char *what)
{
    switch (chore) {
    case CHORE_NONE:
        return;
    case CHORE_ADD_FINALIZER:
        m->finalizer = true;
        return;
    case CHORE_ADOPT:
        m->ownerless = false;
        return;
    case CHORE_CREATE_PVC:
        if (m->pvc_recorded)
            fail_msg("%s: a second volume for one member", what);
        if (m->pvc)
            return; /* the server says so */
        m->pvc = true;
        m->pvc_generation++;
        return;
    case CHORE_RECORD_PVC:
        if (!m->pvc || m->pvc_recorded)
            fail_msg("%s: another volume is taken for the member's own", what);
        m->pvc_recorded = true;
        m->pvc_recorded_generation = m->pvc_generation;
        return;
    case CHORE_LABEL_PVC:
        m->pvc_hidden = false;
        return;
    case CHORE_CREATE_POD:
        if (m->pending || m->dormant)
            fail_msg("%s: a Pod that must not start", what);
        if (m->pod || !m->pvc)
            return; /* both are read live before a Pod is made */
        if (!m->pvc_recorded || m->pvc_generation != m->pvc_recorded_generation)
            fail_msg("%s: an old member on a new disk", what);
        m->pod = m->id_recorded = true;
        if (m->bootstrap && !w->formed)
            m->listed = m->has_data = true; /* it founds the cluster */
        return;
    case CHORE_DELETE_POD:
        if (!m->pod_ended && (!m->dormant || w->want > 0 || model_up_voters(w) > 1))
            fail_msg("%s: a Pod deleted for no reason", what);
        m->pod = m->pod_ended = false;
        return;
    case CHORE_LABEL_POD:
        m->pod_labeled = !m->pod_labeled;
        return;
    }
}

static void pass(struct model *w, uint64_t *rnd, unsigned ignorance, const char *what)
{
    size_t index[OBSERVED_MEMBERS_MAX];
    const struct observed s = look(w, rnd, ignorance, index);
    const struct plan plan = cluster_decide(&s, NOW_S);
    const struct plan again = cluster_decide(&s, NOW_S);
    if (memcmp(&plan, &again, sizeof(plan)) != 0)
        fail_msg("%s: the same world, another plan", what);
    const char *step = step_name(plan.step);
    if (plan_at_rest(&plan) && plan.step != STEP_WAIT)
        fail_msg("%s: %s is no rest", what, step);
    if (cluster_complete(&s) && model_voters(w) < (size_t)w->want)
        fail_msg("%s: complete with too few voters", what);
    for (size_t i = 1; i < s.n_members; i++)
        if (member_asked_before(&s.members[i - 1], &s.members[i]) &&
            member_asked_before(&s.members[i], &s.members[i - 1]))
            fail_msg("%s: both are asked first", what);
    for (size_t i = 0; i < s.n_members; i++)
        do_chore(w, member_decide(&s, &s.members[i]), &w->m[index[i]], what);
    act(w, &plan, plan.member == PLAN_NO_MEMBER ? NULL : &w->m[index[plan.member]], what);
    w->tick++;
}

/* Somebody else's doing, which a person has to undo. */
static void strangers(struct model *w, uint64_t *rnd)
{
    w->service_foreign = test_below(rnd, 8) == 0;
    w->seed_foreign = test_below(rnd, 8) == 0;
    w->unsupported = test_below(rnd, 16) == 0;
    w->bad_name = test_below(rnd, 16) == 0;
    w->crowded = test_below(rnd, 16) == 0;
    if (!w->formed && test_below(rnd, 4) == 0) /* kubectl create */
        *free_slot(w) = (struct model_member){.exists = true, .pending = true, .ownerless = true};
    w->version_refused = test_below(rnd, 4) == 0;
    w->remains = test_below(rnd, 4) == 0;
    w->strangers = model_quorum(w) && test_below(rnd, 4) == 0;
}

/* Everything that keeps a cluster from its target ends. */
static void calm(struct model *w)
{
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++) {
        w->m[i].cut_off = false;
        if (!w->formed && !w->m[i].bootstrap) /* what somebody made by hand */
            w->m[i] = (struct model_member){0};
    }
    w->service_foreign = w->seed_foreign = w->unsupported = w->version_refused = false;
    w->bad_name = w->crowded = false;
    w->remains = w->strangers = 0;
    w->deadline = 0;
}

/* Pods die, networks are cut, volumes vanish one at a time, users edit and delete. */
static void fault(struct model *w, uint64_t *rnd)
{
    struct model_member *m = &w->m[test_below(rnd, OBSERVED_MEMBERS_MAX)];
    switch (test_below(rnd, 12)) {
    case 0:
        m->pod = m->pod_ended = false;
        break;
    case 5:
        m->pod_ended = m->pod; /* evicted */
        break;
    case 6:
        m->dormant = m->exists && test_below(rnd, 8) == 0; /* kubectl edit */
        break;
    case 7:
        /* etcdctl member remove, by somebody who minds quorum */
        if (m->id_recorded && up(m) && !m->learner && model_up_voters(w) == model_voters(w) &&
            model_voters(w) > 2)
            m->listed = m->has_data = false;
        break;
    case 8:
        strangers(w, rnd);
        break;
    case 10:
        m->pvc_hidden = m->pvc; /* kubectl label */
        break;
    case 9:
        w->deadline = (int64_t)test_below(rnd, 3) * (NOW_S - 1);
        break;
    case 1:
        m->cut_off = m->exists && test_below(rnd, 2);
        break;
    case 2:
        /* Losing a minority is what quorum is for; losing more is beyond any policy. */
        if (m->pvc && m->listed && !m->learner && model_voters(w) > 2 &&
            model_up_voters(w) > model_voters(w) / 2 + 1) {
            m->pvc = m->pod = m->has_data = false;
        }
        break;
    case 3:
        w->spec_want = (int)test_below(rnd, 6);
        break;
    case 4:
        if (m->exists && test_below(rnd, 4) == 0)
            m->deleting = true; /* kubectl delete etcdmember */
        break;
    default:
        m->cut_off = false;
        break;
    }
}

static bool converged(const struct model *w)
{
    int running = 0;
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++) {
        const struct model_member *m = &w->m[i];
        if (!m->exists) {
            if (m->listed)
                return false;
            continue;
        }
        /* The last voter of a cluster that is to be paused stays for ever, with its data. */
        if (m->deleting && w->want == 0 && m->listed && model_voters(w) == 1)
            continue;
        if (m->deleting)
            return false;
        running += !m->dormant;
        if (!m->dormant && (!up(m) || m->learner || m->pod_labeled == m->learner))
            return false;
    }
    return w->want == w->spec_want && running == w->want;
}

/* A random life of a random cluster. */
static struct model live(uint64_t *rnd, const char *what)
{
    struct model w = {.exists = true, .spec_want = (int)test_below(rnd, 6)};
    const unsigned ignorance = (unsigned)test_below(rnd, 40);
    for (int i = 0; i < 150; i++) {
        pass(&w, rnd, ignorance, what);
        if (test_below(rnd, 4) == 0)
            fault(&w, rnd);
    }
    return w;
}

static void fail_stuck(const struct model *w, uint64_t *rnd, const char *what)
{
    size_t index[OBSERVED_MEMBERS_MAX];
    const struct observed s = look(w, rnd, 0, index);
    const struct plan plan = cluster_decide(&s, NOW_S);
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++) {
        const struct model_member *m = &w->m[i];
        if (m->exists || m->listed)
            print_error("m%zu: exists %d deleting %d dormant %d pending %d pod %d pvc %d/%d "
                        "listed %d learner %d data %d\n",
                        i, m->exists, m->deleting, m->dormant, m->pending, m->pod, m->pvc,
                        m->pvc_recorded, m->listed, m->learner, m->has_data);
    }
    fail_msg("%s: want %d of %d, stuck at %s (%s)", what, w->want, w->spec_want,
             step_name(plan.step), plan.reason);
}

enum { WORLDS = 3000, PASSES = 300 };

/* As many as a pass can judge, and not one more, whatever the spec says. */
static void random_worlds_end_growing_at_the_largest_size(void **state)
{
    (void)state;
    uint64_t rnd = 1;
    struct model w = {.exists = true, .spec_want = 2 * OBSERVED_MEMBERS_MAX};
    for (int i = 0; i < 2000; i++)
        pass(&w, &rnd, 5, "growth"); /* the model holds no more either */
    assert_int_equal(model_voters(&w), OBSERVED_MEMBERS_MAX);
}

static void random_worlds_stay_safe_and_converge(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS; seed++) {
        char what[32];
        (void)snprintf(what, sizeof(what), "seed %llu", (unsigned long long)seed);
        uint64_t rnd = seed;
        struct model w = live(&rnd, what);
        calm(&w);
        int passes = 0;
        for (; passes < PASSES && !converged(&w); passes++)
            pass(&w, &rnd, 0, what);
        if (passes == PASSES)
            fail_stuck(&w, &rnd, what);
    }
}

static bool is_deserted(const struct model *w)
{
    for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++)
        if (w->m[i].exists)
            return false;
    return true;
}

/* Whatever state it is in, and whether the cluster is still seen to go or gone already. */
static void random_worlds_let_go_when_their_cluster_is_deleted(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WORLDS / 10; seed++) {
        char what[32];
        (void)snprintf(what, sizeof(what), "seed %llu", (unsigned long long)seed);
        uint64_t rnd = seed;
        struct model w = live(&rnd, what);
        w.deleting = true;
        w.exists = test_below(&rnd, 2);
        for (size_t i = 0; i < OBSERVED_MEMBERS_MAX; i++)
            w.m[i].deleting = w.m[i].exists; /* the garbage collector */
        int passes = 0;
        for (; passes < PASSES && !is_deserted(&w); passes++)
            pass(&w, &rnd, 20, what);
        if (passes == PASSES)
            fail_stuck(&w, &rnd, what);
        pass(&w, &rnd, 0, what); /* and there is nothing left to do */
    }
}

static void every_step_has_a_name(void **state)
{
    (void)state;
    for (int step = 0; step < STEP_COUNT; step++)
        assert_true(strlen(step_name((enum step)step)) > 2);
    assert_string_equal(step_name(STEP_COUNT), "unknown");
}

static void an_unknown_world_is_not_complete(void **state)
{
    (void)state;
    const struct observed nothing = {.exists = YES};
    const struct observed paused = {.exists = YES, .target_latched = true, .members_known = YES};
    assert_false(cluster_complete(&nothing));
    assert_true(cluster_complete(&paused));
}

static void only_what_waits_long_is_at_rest(void **state)
{
    (void)state;
    const struct observed paused = {.exists = YES,
                                    .peer_service = YES,
                                    .target_latched = true,
                                    .formed = NO,
                                    .members_known = YES};
    const struct plan rest = cluster_decide(&paused, 0);
    const struct plan soon = {.step = STEP_WAIT, .recheck_ms = rest.recheck_ms - 1};
    const struct plan step = {.step = STEP_PROMOTE, .recheck_ms = rest.recheck_ms};
    assert_true(plan_at_rest(&rest));
    assert_false(plan_at_rest(&soon));
    assert_false(plan_at_rest(&step));
}

static void voters_are_asked_before_learners_the_leader_first_then_by_age(void **state)
{
    (void)state;
    const struct seen_member order[] = {
        {.name = "leader", .listed = YES, .leads = true, .created_s = 9},
        {.name = "old", .listed = YES, .created_s = 3},
        {.name = "new", .listed = YES, .created_s = 8},
        {.name = "learner", .listed = YES, .learner = true, .created_s = 1},
    };
    for (size_t a = 0; a < COUNT_OF(order); a++)
        for (size_t b = 0; b < COUNT_OF(order); b++)
            assert_int_equal(member_asked_before(&order[a], &order[b]), a < b);
}

/* A Pod without an address cannot be asked: its address comes as an event. */
static void who_answers_no_is_asked_again_soon_who_cannot_be_asked_is_not(void **state)
{
    (void)state;
    struct observed starting = UNFORMED(3, MEMBERS(1, {.name = "a", .bootstrap = true}));
    const struct plan unasked = cluster_decide(&starting, 0);
    starting.members[0].healthy = NO;
    const struct plan silent = cluster_decide(&starting, 0);
    assert_true(unasked.recheck_ms > 1000);
    assert_true(silent.recheck_ms <= 100);
    struct observed joining = FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .learner = true)));
    joining.members[1].healthy = UNKNOWN;
    assert_true(cluster_decide(&joining, 0).recheck_ms > 1000);
    joining.members[1].healthy = NO;
    assert_true(cluster_decide(&joining, 0).recheck_ms <= 100);
}

TEST_MAIN(TEST(each_rule_decides), TEST(every_step_has_a_name),
          TEST(an_unknown_world_is_not_complete), TEST(each_chore_is_found),
          TEST(voters_are_asked_before_learners_the_leader_first_then_by_age),
          TEST(who_answers_no_is_asked_again_soon_who_cannot_be_asked_is_not),
          TEST(only_what_waits_long_is_at_rest), TEST(random_worlds_stay_safe_and_converge),
          TEST(random_worlds_end_growing_at_the_largest_size),
          TEST(random_worlds_let_go_when_their_cluster_is_deleted))
