/* SPDX-License-Identifier: Apache-2.0
 * What one pass knows about one cluster. Plain values, gathered by observe, judged by decide.
 *
 * Every fact has a third value: not learned. It is the zero value, so a world that nobody filled
 * in is a world about which nothing is known, and nothing is done. Unknown is not unhealthy, and
 * unhealthy is not gone. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fact { UNKNOWN, NO, YES };

/* An object found by its name: there and ours (controller UID), there and somebody else's. */
enum presence { PRESENCE_UNKNOWN, ABSENT, OURS, FOREIGN };

enum {
    OBSERVED_MEMBERS_MAX = 16, /* of one cluster; a replacement needs one beside the others */
    OBSERVED_NAME_MAX = 64,
};

struct seen_member {
    char name[OBSERVED_NAME_MAX];
    int64_t created_s;

    /* the EtcdMember */
    bool deleting;    /* has a deletionTimestamp */
    bool finalizer;   /* carries ours */
    bool ownerless;   /* has no controller, and the cluster's token: made by a migration */
    bool bootstrap;   /* founded the cluster */
    bool dormant;     /* no Pod is wanted */
    bool pending;     /* initialCluster is empty: etcd may not know it yet */
    bool id_recorded; /* status.memberID is set: it has been part of etcd */

    /* its Pod */
    enum presence pod;
    bool pod_terminating;
    enum fact pod_ready;
    bool pod_labeled_voter;
    bool pod_ended; /* phase Failed or Succeeded: it never runs again */

    /* its volume */
    enum presence pvc;
    bool pvc_recorded; /* the UID of the member's volume was kept, so it may start */
    bool pvc_changed;  /* the volume there now has another UID than that */
    bool pvc_hidden;   /* it is there without the label by which we would see it */

    /* etcd's own list, linearizable; id is valid where listed is YES */
    enum fact listed;
    uint64_t id;
    bool learner;

    /* the prober's verdict: it answers, has a leader, raises no error */
    enum fact healthy;
    bool leads;
};

/* By etcd's own list: it counts for quorum. */
static inline bool member_votes(const struct seen_member *m)
{
    return m->listed == YES && !m->learner;
}

struct observed {
    /* the EtcdCluster */
    enum fact exists; /* NO is proven by a live read */
    bool deleting;
    const char *unsupported; /* what it uses that this release does not do; borrowed, static */
    bool target_latched;     /* status.observed and status.clusterToken are there */
    bool spec_changed;       /* spec differs from the target */
    const char *bad_name;    /* why no cluster of that name is possible; borrowed, static */
    bool version_refused;    /* a new member of the target's version could not join */
    int32_t want;            /* replicas of the target */
    int64_t deadline_s;      /* status.progressDeadline; 0: none */

    enum fact formed; /* status.clusterID is set; NO is proven by a live read */
    /* Services, YES: as it should be · NO: missing or drifted */
    enum fact peer_service, client_service;
    bool service_foreign; /* a Service of our name belongs to somebody else */

    /* members, by live list when a step may follow from what is missing */
    enum fact members_known;
    struct seen_member members[OBSERVED_MEMBERS_MAX];
    size_t n_members;
    bool crowded;   /* there are more than fit in here: nothing is judged */
    size_t remains; /* members and Pods of an earlier cluster of that name: its UID was another */

    /* etcd, asked through its voters */
    enum fact quorum;  /* a linearizable read was answered; NO: the voters refused or timed out */
    uint64_t found_id; /* cluster ID the seed answered with while formed is NO; 0: no answer */
    bool found_id_expected; /* it is the one computed from token and peer URL */
    size_t unmanaged;       /* members etcd lists that no EtcdMember stands for */
};
