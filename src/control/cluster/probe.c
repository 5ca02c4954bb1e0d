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

enum { ANSWER_MAX = 1 << 20 }; /* a list of members is the largest we ask for */

/* The address of a running Pod; false if it has none yet. */
static bool dial_url(const struct pass_member *m, char out[HEALTH_URL_MAX])
{
    if (!m->pod || m->pod->ip[0] == '\0')
        return false;
    const bool v6 = strchr(m->pod->ip, ':') != NULL;
    (void)snprintf(out, HEALTH_URL_MAX, v6 ? "http://[%s]:2379" : "http://%s:2379", m->pod->ip);
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

/* --- Health ---------------------------------------------------------------------------------- */

static struct question question_of(const struct pass *p)
{
    struct question q = {.cluster_id = p->cluster_id, .n = p->seen.n_members};
    for (size_t i = 0; i < q.n; i++) {
        q.members[i].peer_url = xstrdup(p->members[i].peer_url);
        if (p->seen.members[i].pod == OURS)
            (void)dial_url(&p->members[i], q.members[i].url); /* "": it has none yet */
    }
    return q;
}

static void apply_member(struct seen_member *m, const struct health *all,
                         const struct health_member *h)
{
    m->healthy = health_verdict(h, m->pod, m->pod_ready);
    m->leads = h->leader != 0 && h->leader == h->id;
    m->listed = all->quorum != YES ? UNKNOWN : h->listed_id != 0 ? YES : NO;
    m->id = h->listed_id;
    m->learner = h->learner;
}

/* While the cluster has no ID, the seed is asked for one; it must be the one that follows from its
 * peer URL and token, or somebody else sits at that address. */
static void apply_seed(struct pass *p, size_t i, const struct health_member *h)
{
    if (p->seen.formed != NO || !p->seen.members[i].bootstrap ||
        h->outcome != ETCD_PROBE_ANSWERED || h->leader == 0)
        return;
    p->seen.found_id = h->cluster_id;
    p->seen.found_id_expected =
        h->cluster_id ==
        founding_cluster_id(p->members[i].peer_url, jstr(p->cluster, "status.clusterToken", ""));
}

static void apply(struct pass *p, const struct health *h)
{
    p->health = *h;
    for (size_t i = 0; i < h->n; i++) {
        apply_member(&p->seen.members[i], h, &h->members[i]);
        apply_seed(p, i, &h->members[i]);
    }
    p->seen.unmanaged = h->unmanaged;
    p->seen.quorum = health_quorum(h);
    if (h->quorum == UNKNOWN && h->n > 0 && p->seen.formed == YES)
        p->seen.quorum = NO; /* there is nobody to ask */
}

void pass_look(struct pass *p)
{
    struct question q = question_of(p);
    struct etcd_probe_target targets[OBSERVED_MEMBERS_MAX];
    struct health h = {.n = q.n};
    p->asked = question_targets(&q, targets) > 0;
    if (!p->asked)
        prober_forget(p->engine->prober, p->key);
    else if (!prober_look(p->engine->prober, p->key, &q, &h))
        p->blind = true;
    if (!p->blind)
        apply(p, &h);
    question_done(&q);
}

void pass_ask(const struct ctx *ctx, struct pass *p)
{
    struct question q = question_of(p);
    struct health h;
    health_ask(ctx, &q, &h);
    apply(p, &h);
    question_done(&q);
}

int pass_begin_change(const struct ctx *ctx, struct pass *p, struct ctx *out, struct err *e)
{
    const struct kube_guard *guard = &p->worker->guard;
    *out = ctx_with_timeout(ctx, ENGINE_ETCD_MS);
    return guard->may_write ? guard->may_write(guard->arg, ctx_left_ms(out), e) : 0;
}

/* --- Clients --------------------------------------------------------------------------------- */

static int new_client(const struct ctx *ctx, const struct pass *p,
                      const struct etcd_endpoint *endpoints, size_t n, struct etcd_client **out,
                      struct err *e)
{
    if (n == 0)
        return err_set(e, ERR_UNAVAILABLE, 0, "no member of %s has an address", p->key->name);
    const struct etcd_options options = {.endpoints = endpoints,
                                         .n_endpoints = n,
                                         .cluster_id = p->cluster_id,
                                         .dial_timeout_ms = HEALTH_TIMEOUT_MS,
                                         .max_message_bytes = ANSWER_MAX};
    return etcd_client_new(ctx->clock, &options, out, e);
}

size_t pass_askable(const struct pass *p, size_t but, size_t out[OBSERVED_MEMBERS_MAX])
{
    const struct seen_member *members = p->seen.members;
    char url[HEALTH_URL_MAX];
    size_t n = 0;
    for (size_t i = 0; i < p->seen.n_members; i++) {
        size_t at = n;
        if (i == but || members[i].pod != OURS || !dial_url(&p->members[i], url))
            continue;
        for (; at > 0 && member_asked_before(&members[i], &members[out[at - 1]]); at--)
            out[at] = out[at - 1];
        out[at] = i;
        n++;
    }
    while (n > 1 && member_votes(&members[out[0]]) && !member_votes(&members[out[n - 1]]))
        n--;
    return n;
}

int pass_dial(const struct ctx *ctx, struct pass *p, size_t but, struct etcd_client **out,
              struct err *e)
{
    size_t order[OBSERVED_MEMBERS_MAX];
    struct etcd_endpoint endpoints[OBSERVED_MEMBERS_MAX] = {0};
    char urls[OBSERVED_MEMBERS_MAX][HEALTH_URL_MAX];
    const size_t n = pass_askable(p, but, order);
    for (size_t i = 0; i < n; i++) {
        (void)dial_url(&p->members[order[i]], urls[i]); /* it has one */
        endpoints[i].url = urls[i];
    }
    return new_client(ctx, p, endpoints, n, out, e);
}

int pass_dial_one(const struct ctx *ctx, struct pass *p, size_t i, struct etcd_client **out,
                  struct err *e)
{
    char url[HEALTH_URL_MAX];
    const struct etcd_endpoint endpoint = {.url = url};
    return new_client(ctx, p, &endpoint, dial_url(&p->members[i], url), out, e);
}
