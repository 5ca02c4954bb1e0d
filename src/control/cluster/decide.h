/* SPDX-License-Identifier: Apache-2.0
 * The policy: what one pass does about one cluster. Pure: values in, value out, time passed in.
 *
 * A pass takes at most one step. Chores are the small work that disturbs nobody and may be done
 * for several members in the same pass. Before a step that can cost availability, act asks the
 * other voters themselves; decide only says what is wanted. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct observed;
struct seen_member;

enum step {
    STEP_WAIT,         /* nothing, for the reason given */
    STEP_LATCH_TARGET, /* copy spec into status.observed, stamp a fresh deadline */
    STEP_ENSURE_SERVICES,
    STEP_CREATE_SEED,   /* the first EtcdMember, under its computed name */
    STEP_LATCH_ID,      /* record the cluster ID the seed answered with */
    STEP_CREATE_MEMBER, /* a further EtcdMember, pending */
    STEP_ADD_LEARNER,   /* MemberAdd of the pending member */
    STEP_COMPLETE,      /* the pending member is in etcd's list: write its initialCluster */
    STEP_PROMOTE,       /* the learner */
    STEP_WAKE,          /* clear dormant */
    STEP_SLEEP,         /* set dormant on the last member */
    STEP_DELETE_MEMBER, /* delete the EtcdMember; its finalizer then leads to STEP_REMOVE */
    STEP_REMOVE,        /* MemberRemove of a terminating member, then let it go */
    STEP_RELEASE,       /* let a terminating member go: etcd does not know it (any more) */
    STEP_COUNT,
};

enum chore {
    CHORE_NONE,
    CHORE_ADD_FINALIZER,
    CHORE_ADOPT, /* name the cluster as its controller */
    CHORE_CREATE_PVC,
    CHORE_RECORD_PVC, /* keep the UID of the volume the member will live on */
    CHORE_LABEL_PVC,  /* somebody took our label off */
    CHORE_CREATE_POD,
    CHORE_DELETE_POD, /* of a dormant member */
    CHORE_LABEL_POD,  /* the role label does not say what etcd says */
};

#define PLAN_NO_MEMBER SIZE_MAX

struct plan {
    enum step step;
    size_t member;      /* whom the step is about, or PLAN_NO_MEMBER */
    const char *reason; /* CamelCase, for condition, event, log and metric alike; static */
    int64_t recheck_ms; /* when to look again if no event comes first */
    bool again;         /* it was refused: to be tried again then, even if nothing changed */
};

struct plan cluster_decide(const struct observed *s, int64_t now_s);

/* The chore of one member, independent of the step of the pass. */
enum chore member_decide(const struct observed *s, const struct seen_member *m);

/* Nothing is under way: it is finished, or waits for a person. */
bool plan_at_rest(const struct plan *plan);

const char *step_name(enum step step);

/* --- Questions others ask too; all pure ------------------------------------------------------ */

/* A Pod ran on a volume that is gone or replaced. Such a member never starts again: an empty disk
 * under an old member ID would forget what it has voted for. */
int member_volume_lost(const struct seen_member *m);

/* Who is asked for a change of membership rather than whom: voters, of them the leader, then the
 * oldest. etcd lets the member that is asked judge by its own connections, and an old one has known
 * the others for longer. */
bool member_asked_before(const struct seen_member *a, const struct seen_member *b);

/* The target is reached: as many running members as wanted, all ready, all voters. */
int cluster_complete(const struct observed *s);

size_t cluster_voters(const struct observed *s);
