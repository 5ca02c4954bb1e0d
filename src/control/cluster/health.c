/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void question_done(struct question *q)
{
    for (size_t i = 0; i < q->n; i++)
        free(q->members[i].peer_url);
    *q = (struct question){0};
}

struct question question_copy(const struct question *q)
{
    struct question copy = *q;
    for (size_t i = 0; i < q->n; i++)
        copy.members[i].peer_url = xstrdup(q->members[i].peer_url);
    return copy;
}

bool question_same(const struct question *a, const struct question *b)
{
    if (a->cluster_id != b->cluster_id || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->members[i].url, b->members[i].url) != 0 ||
            strcmp(a->members[i].peer_url, b->members[i].peer_url) != 0)
            return false;
    return true;
}

size_t question_targets(const struct question *q,
                        struct etcd_probe_target out[OBSERVED_MEMBERS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++)
        if (*q->members[i].url != '\0')
            out[n++] = (struct etcd_probe_target){
                .endpoint = {.url = q->members[i].url},
                .cluster_id = q->cluster_id,
                .ask = ETCD_ASK_MEMBERS | ETCD_ASK_READ,
                .timeout_ms = HEALTH_TIMEOUT_MS,
            };
    return n;
}

static const struct etcd_member *listed_as(const struct etcd_members *list, const char *peer_url)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->v[i].n_peer_urls; k++)
            if (strcmp(list->v[i].peer_urls[k], peer_url) == 0)
                return &list->v[i];
    return NULL;
}

/* Members are matched by their peer URL: a name is empty until the process has started. */
static void read_list(const struct question *q, const struct etcd_members *list, struct health *out)
{
    size_t matched = 0;
    for (size_t i = 0; i < q->n; i++) {
        const struct etcd_member *found = listed_as(list, q->members[i].peer_url);
        out->members[i].listed_id = found ? found->id : 0;
        out->members[i].learner = found && found->learner;
        matched += found != NULL;
    }
    out->unmanaged = list->n - matched;
    out->quorum = YES;
}

static void read_member(const struct etcd_probe_answer *a, struct health_member *m)
{
    m->outcome = a->outcome;
    if (a->outcome != ETCD_PROBE_ANSWERED)
        return;
    m->read = a->read.known == ETCD_FACT_YES;
    m->feels_learner = a->status.learner;
    m->cluster_id = a->status.header.cluster_id;
    m->id = a->status.header.member_id;
    m->leader = a->status.leader;
    m->term = a->status.raft_term;
    m->db_bytes = a->status.db_size_bytes;
    (void)snprintf(m->version, sizeof(m->version), "%s",
                   a->status.version ? a->status.version : "");
}

void health_read(const struct question *q, const struct etcd_probe_answer *answers,
                 struct health *out)
{
    *out = (struct health){.n = q->n};
    const struct etcd_probe_answer *a = answers;
    for (size_t i = 0; i < q->n; i++) {
        if (*q->members[i].url == '\0')
            continue;
        read_member(a, &out->members[i]);
        if (out->quorum == UNKNOWN)
            out->quorum = NO;
        if (out->quorum != YES && a->has_members.known == ETCD_FACT_YES)
            read_list(q, &a->members, out);
        if (a->outcome != ETCD_PROBE_ANSWERED && out->err.code == ERR_NONE)
            out->err = a->err;
        a++;
    }
}

static bool member_same(const struct health_member *a, const struct health_member *b)
{
    return a->outcome == b->outcome && a->read == b->read && a->feels_learner == b->feels_learner &&
           a->cluster_id == b->cluster_id && a->id == b->id && a->leader == b->leader &&
           a->listed_id == b->listed_id && a->learner == b->learner &&
           strcmp(a->version, b->version) == 0;
}

bool health_same(const struct health *a, const struct health *b)
{
    if (a->quorum != b->quorum || a->unmanaged != b->unmanaged || a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (!member_same(&a->members[i], &b->members[i]))
            return false;
    return true;
}

static bool all_silent(const struct health *h)
{
    size_t silent = 0, asked = 0;
    for (size_t i = 0; i < h->n; i++) {
        silent += h->members[i].outcome == ETCD_PROBE_TIMED_OUT;
        asked += h->members[i].outcome != ETCD_PROBE_UNKNOWN;
    }
    return asked > 0 && silent == asked;
}

enum fact health_quorum(const struct health *h)
{
    return h->quorum == NO && all_silent(h) && h->silent_ms < HEALTH_SILENCE_MS ? UNKNOWN
                                                                                : h->quorum;
}

enum fact health_verdict(const struct health_member *h, enum presence pod, enum fact pod_ready)
{
    if (h->outcome == ETCD_PROBE_UNKNOWN)
        return pod == ABSENT ? NO : UNKNOWN;
    if (h->outcome == ETCD_PROBE_ANSWERED && h->leader != 0) {
        if (h->read || h->learner)
            return YES;
        if (h->feels_learner)
            return UNKNOWN; /* promoted a moment ago, and it has not heard of it yet */
    }
    /* Slow, while the kubelet finds it well: no verdict. */
    return h->outcome == ETCD_PROBE_TIMED_OUT && pod_ready == YES ? UNKNOWN : NO;
}

enum fact health_told(enum fact verdict, enum fact pod_ready, enum fact before)
{
    if (verdict != UNKNOWN)
        return verdict;
    return pod_ready == YES ? YES : before;
}

uint64_t health_leader(const struct health *h)
{
    uint64_t leader = 0, term = 0;
    for (size_t i = 0; i < h->n; i++) {
        const struct health_member *m = &h->members[i];
        if (m->leader == 0 || m->term < term) /* 0 also of who did not answer */
            continue;
        leader = m->leader;
        term = m->term;
    }
    return leader;
}

void health_ask(const struct ctx *ctx, const struct question *q, struct health *out)
{
    struct etcd_probe_target targets[OBSERVED_MEMBERS_MAX] = {0};
    struct etcd_probe_answer answers[OBSERVED_MEMBERS_MAX] = {0};
    const size_t n = question_targets(q, targets);
    struct err e = {0};
    /* What was answered before a cancel or an error counts all the same. */
    const int rc = n > 0 ? etcd_probe(ctx, targets, n, answers, &e) : 0;
    health_read(q, answers, out);
    if (rc < 0)
        out->err = e;
    for (size_t i = 0; i < n; i++)
        etcd_probe_answer_done(&answers[i]);
}
