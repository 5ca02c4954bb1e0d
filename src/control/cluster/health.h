/* SPDX-License-Identifier: Apache-2.0
 * What the members of one cluster say of themselves and of each other, in a few bytes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "control/cluster/observed.h"
#include "etcd/probe.h"

enum {
    HEALTH_URL_MAX = 96,
    HEALTH_VERSION_MAX = 24,
    HEALTH_TIMEOUT_MS = 1000, /* of one question to one member */
    HEALTH_SILENCE_MS = 5000, /* of all members, from which nothing is concluded yet */
};

/* Whom to ask. The members of the cluster in the order the caller knows them by. */
struct question {
    uint64_t cluster_id; /* who else answers is a stranger; 0: not known yet */
    size_t n;
    struct {
        char url[HEALTH_URL_MAX]; /* "": it cannot be asked */
        char *peer_url;           /* how etcd's list calls it; owned */
    } members[OBSERVED_MEMBERS_MAX];
};

struct health_member {
    enum etcd_probe_outcome outcome; /* UNKNOWN: it was not asked, or the asking was cut short */
    bool read;                       /* it answered a linearizable read */
    bool feels_learner;              /* by its own word */
    uint64_t cluster_id, id;         /* it answered with */
    uint64_t leader, term;           /* whom it takes for the leader, and since which election */
    int64_t db_bytes;
    char version[HEALTH_VERSION_MAX];

    /* of etcd's list, where there was one */
    uint64_t listed_id; /* 0: not in it */
    bool learner;
};

struct health {
    enum fact quorum; /* YES: etcd's own, linearizable list; NO: nobody gave one; UNKNOWN: no one
                         could be asked */
    size_t unmanaged; /* in the list and in no member of the question */
    size_t n;
    struct health_member members[OBSERVED_MEMBERS_MAX];
    struct err err;    /* of the first that did not answer; code ERR_NONE: all did */
    int64_t stable_ms; /* for how long they have said the same … */
    int64_t silent_ms; /* … and for how long nobody has said anything */
};

void question_done(struct question *q); /* idempotent */
struct question question_copy(const struct question *q);
bool question_same(const struct question *a, const struct question *b);

/* The members that can be asked, for etcd_probe(). Returns how many; the URLs are borrowed. */
size_t question_targets(const struct question *q,
                        struct etcd_probe_target out[OBSERVED_MEMBERS_MAX]);

/* What their answers come to, in the order of question_targets(). Pure. */
void health_read(const struct question *q, const struct etcd_probe_answer *answers,
                 struct health *out);

/* Whether anything differs that a decision or a status could rest on. Sizes drift and do not
 * count. */
bool health_same(const struct health *a, const struct health *b);

/* Whether the cluster has quorum. That nobody answered at all, nor refused, is no proof at first.
 */
enum fact health_quorum(const struct health *h);
/* Whether a member is well, by its answer and by what is known of its Pod. */
enum fact health_verdict(const struct health_member *h, enum presence pod, enum fact pod_ready);

/* What to say of it: the verdict; without one the kubelet's word, and without that what was said
 * before. UNKNOWN: nothing. */
enum fact health_told(enum fact verdict, enum fact pod_ready, enum fact before);

/* Whom those follow that answered, by the latest election that any of them knows of; 0: nobody. A
 * leader that is slow to answer still leads. */
uint64_t health_leader(const struct health *h);

/* Asks now, in the caller's thread. */
void health_ask(const struct ctx *ctx, const struct question *q, struct health *out);
