/* SPDX-License-Identifier: Apache-2.0
 * The etcd side of a pass: who answers, what they say of each other, and how to reach them. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/kinds.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "base/sha1.h"
#include "control/cluster/engine_internal.h"
#include "etcd/client.h"
#include "etcd/probe.h"

enum { URL_MAX = 96, HOST_MAX = 400 };

/* The address of a running Pod; false if it has none yet. */
static bool dial_url(const struct pass_member *m, char out[URL_MAX])
{
    if (!m->pod || m->pod->ip[0] == '\0')
        return false;
    const bool v6 = strchr(m->pod->ip, ':') != NULL;
    (void)snprintf(out, URL_MAX, v6 ? "http://[%s]:2379" : "http://%s:2379", m->pod->ip);
    return true;
}

uint64_t founding_cluster_id(const char *peer_url, const char *token)
{
    /* A member's ID is the beginning of the digest of its URLs and the token; a cluster's, that of
     * its founding members' IDs. */
    unsigned char member[SHA1_BYTES], digest[SHA1_BYTES];
    auto_buf struct buf text = BUF_INIT(ENGINE_TEXT_MAX);
    buf_addf(&text, "%s%s", peer_url, token);
    sha1_of(buf_str(&text), member);
    sha1_of((struct str){(const char *)member, 8}, digest);
    uint64_t id = 0;
    for (size_t i = 0; i < 8; i++)
        id = id << 8 | digest[i];
    return id;
}

static const struct etcd_member *listed_as(const struct etcd_members *list, const char *peer_url)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->v[i].n_peer_urls; k++)
            if (strcmp(list->v[i].peer_urls[k], peer_url) == 0)
                return &list->v[i];
    return NULL;
}

/* Every member of etcd's list that some EtcdMember stands for is matched by its peer URL: a name
 * is empty until the process has started. */
static void match_list(struct pass *p, const struct etcd_members *list)
{
    size_t matched = 0;
    for (size_t i = 0; i < p->seen.n_members; i++) {
        struct seen_member *m = &p->seen.members[i];
        const struct etcd_member *found = listed_as(list, p->members[i].peer_url);
        m->listed = found ? YES : NO;
        m->id = found ? found->id : 0;
        m->learner = found && found->learner;
        matched += found != NULL;
    }
    p->seen.unmanaged = list->n - matched;
}

static void read_answer(struct pass *p, size_t i, const struct etcd_probe_answer *a)
{
    struct seen_member *m = &p->seen.members[i];
    if (a->outcome == ETCD_PROBE_UNKNOWN)
        return;
    const bool answered = a->outcome == ETCD_PROBE_ANSWERED && a->status.leader != 0;
    if (answered && (a->status.learner || a->read.known == ETCD_FACT_YES))
        m->healthy = YES;
    else if (a->outcome == ETCD_PROBE_TIMED_OUT && m->pod_ready == YES)
        m->healthy = UNKNOWN; /* slow, while the kubelet finds it well: no verdict */
    else
        m->healthy = NO;
    if (a->outcome != ETCD_PROBE_ANSWERED) {
        if (p->etcd_err.code == ERR_NONE)
            p->etcd_err = a->err;
        return;
    }
    p->members[i].answered_id = a->status.header.member_id;
    p->members[i].leader = a->status.leader;
    p->members[i].term = a->status.raft_term;
    m->leads = a->status.leader != 0 && a->status.leader == a->status.header.member_id;
    free(p->members[i].version);
    p->members[i].version = xstrdup(a->status.version ? a->status.version : "");
    p->members[i].db_bytes = a->status.db_size_bytes;
}

/* While the cluster has no ID, the seed is asked for one; it must be the one that follows from its
 * peer URL and token, or somebody else sits at that address. */
static void read_seed(struct pass *p, size_t i, const struct etcd_probe_answer *a)
{
    if (p->seen.formed != NO || !p->seen.members[i].bootstrap ||
        a->outcome != ETCD_PROBE_ANSWERED || a->status.leader == 0)
        return;
    p->seen.found_id = a->status.header.cluster_id;
    p->seen.found_id_expected =
        p->seen.found_id ==
        founding_cluster_id(p->members[i].peer_url, jstr(p->cluster, "status.clusterToken", ""));
}

static void read_answers(struct pass *p, const size_t *asked, size_t n,
                         const struct etcd_probe_answer *answers)
{
    bool any_list = false;
    for (size_t i = 0; i < n; i++) {
        read_answer(p, asked[i], &answers[i]);
        read_seed(p, asked[i], &answers[i]);
        if (!any_list && answers[i].has_members.known == ETCD_FACT_YES) {
            match_list(p, &answers[i].members);
            any_list = true;
        }
    }
    p->seen.quorum = any_list ? YES : NO;
}

void pass_probe(const struct ctx *ctx, struct pass *p)
{
    struct etcd_probe_target targets[OBSERVED_MEMBERS_MAX] = {0};
    struct etcd_probe_answer answers[OBSERVED_MEMBERS_MAX] = {0};
    char urls[OBSERVED_MEMBERS_MAX][URL_MAX];
    size_t asked[OBSERVED_MEMBERS_MAX], n = 0;
    for (size_t i = 0; i < p->seen.n_members; i++) {
        if (p->seen.members[i].pod != OURS || !dial_url(&p->members[i], urls[n])) {
            p->seen.members[i].healthy = p->seen.members[i].pod == ABSENT ? NO : UNKNOWN;
            continue;
        }
        targets[n] = (struct etcd_probe_target){
            .endpoint = {.url = urls[n]},
            .cluster_id = p->cluster_id,
            .ask = ETCD_ASK_MEMBERS | ETCD_ASK_READ,
            .timeout_ms = ENGINE_PROBE_MS,
        };
        asked[n++] = i;
    }
    if (n == 0) {
        p->seen.quorum = p->seen.n_members > 0 && p->seen.formed == YES ? NO : UNKNOWN;
        return;
    }
    struct err e = {0};
    if (etcd_probe(ctx, targets, n, answers, &e) < 0)
        p->etcd_err = e; /* what was answered in time counts all the same */
    read_answers(p, asked, n, answers);
    for (size_t i = 0; i < n; i++)
        etcd_probe_answer_done(&answers[i]);
}

static int new_client(const struct ctx *ctx, const struct pass *p,
                      const struct etcd_endpoint *endpoints, size_t n, struct etcd_client **out,
                      struct err *e)
{
    if (n == 0)
        return err_set(e, ERR_UNAVAILABLE, 0, "no member of %s has an address", p->key->name);
    const struct etcd_options options = {.endpoints = endpoints,
                                         .n_endpoints = n,
                                         .cluster_id = p->cluster_id,
                                         .dial_timeout_ms = ENGINE_PROBE_MS};
    return etcd_client_new(ctx->clock, &options, out, e);
}

int pass_dial(const struct ctx *ctx, struct pass *p, size_t but, struct etcd_client **out,
              struct err *e)
{
    struct etcd_endpoint endpoints[OBSERVED_MEMBERS_MAX] = {0};
    char urls[OBSERVED_MEMBERS_MAX][URL_MAX];
    size_t n = 0;
    for (int voters_only = 1; voters_only >= 0 && n == 0; voters_only--) {
        for (size_t i = 0; i < p->seen.n_members; i++) {
            const struct seen_member *m = &p->seen.members[i];
            const bool voter = m->listed == YES && !m->learner;
            if (i == but || (voters_only && !voter) || m->pod != OURS ||
                !dial_url(&p->members[i], urls[n]))
                continue;
            endpoints[n].url = urls[n];
            n++;
        }
    }
    return new_client(ctx, p, endpoints, n, out, e);
}

int pass_dial_one(const struct ctx *ctx, struct pass *p, size_t i, struct etcd_client **out,
                  struct err *e)
{
    char url[URL_MAX];
    const struct etcd_endpoint endpoint = {.url = url};
    return new_client(ctx, p, &endpoint, dial_url(&p->members[i], url), out, e);
}
