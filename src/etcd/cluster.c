/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/cluster.h"

#include "etcd/client_internal.h"
#include "etcd/cluster_internal.h"

#define RPC(name_, response_, ...)                                                                 \
    {                                                                                              \
        .path = "/etcdserverpb.Cluster/" name_, .response = &pb__##response_##__descriptor,        \
        __VA_ARGS__                                                                                \
    }

static const struct etcd_rpc rpc_list = RPC("MemberList", members_response);
static const struct etcd_rpc rpc_add = RPC("MemberAdd", member_add_response, .mutating = true);
static const struct etcd_rpc rpc_promote = RPC("MemberPromote", members_response, .mutating = true);
static const struct etcd_rpc rpc_remove = RPC("MemberRemove", members_response, .mutating = true);
static const struct etcd_rpc rpc_update = RPC("MemberUpdate", members_response, .mutating = true);

struct etcd_members etcd_members_of(struct arena *own, const Pb__Header *header,
                                    Pb__Member *const *members, size_t n)
{
    struct etcd_member *v = arena_array(own, n, sizeof(*v));
    for (size_t i = 0; i < n; i++)
        v[i] = (struct etcd_member){
            .id = members[i]->id,
            .name = members[i]->name,
            .peer_urls = (const char *const *)members[i]->peer_urls,
            .n_peer_urls = members[i]->n_peer_urls,
            .client_urls = (const char *const *)members[i]->client_urls,
            .n_client_urls = members[i]->n_client_urls,
            .learner = members[i]->is_learner,
        };
    return (struct etcd_members){.header = etcd_header_of(header), .v = v, .n = n, .own = own};
}

void etcd_members_done(struct etcd_members *m)
{
    if (!m)
        return;
    arena_free(m->own, false);
    *m = (struct etcd_members){0};
}

const struct etcd_member *etcd_members_find(const struct etcd_members *m, uint64_t id)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->v[i].id == id)
            return &m->v[i];
    return NULL;
}

int etcd_member_list_at(const struct ctx *ctx, struct etcd_client *c, size_t at, bool linearizable,
                        struct etcd_members *out, struct err *e)
{
    Pb__MemberListRequest m = PB__MEMBER_LIST_REQUEST__INIT;
    m.linearizable = linearizable;
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_list, &m, &reply, e) < 0)
        return err_wrap(e, "list members");
    const Pb__MembersResponse *r = reply.message;
    *out = etcd_members_of(reply.own, r->header, r->members, r->n_members);
    return 0;
}

int etcd_member_list(const struct ctx *ctx, struct etcd_client *c, bool linearizable,
                     struct etcd_members *out, struct err *e)
{
    return etcd_member_list_at(ctx, c, ETCD_ANY, linearizable, out, e);
}

int etcd_member_add(const struct ctx *ctx, struct etcd_client *c, const char *peer_url,
                    bool learner, uint64_t *out_id, struct etcd_members *out, struct err *e)
{
    char *urls[] = {(char *)peer_url}; /* packing only reads */
    Pb__MemberAddRequest m = PB__MEMBER_ADD_REQUEST__INIT;
    m.peer_urls = urls;
    m.n_peer_urls = 1;
    m.is_learner = learner;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_add, &m, &reply, e) < 0)
        return err_wrap(e, "add %s %s", learner ? "learner" : "voter", peer_url);
    const Pb__MemberAddResponse *r = reply.message;
    if (!r->member)
        return err_set(e, ERR_OUTCOME_UNKNOWN, 0, "add %s: answer names no member", peer_url);
    *out_id = r->member->id;
    if (out)
        *out = etcd_members_of(TAKE(reply.own), r->header, r->members, r->n_members);
    return 0;
}

static int by_id(const struct ctx *ctx, struct etcd_client *c, const struct etcd_rpc *rpc,
                 uint64_t id, const char *verb, struct err *e)
{
    Pb__MemberRequest m = PB__MEMBER_REQUEST__INIT;
    m.id = id;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, rpc, &m, &reply, e) < 0)
        return err_wrap(e, "%s member %llx", verb, (unsigned long long)id);
    return 0;
}

int etcd_member_promote(const struct ctx *ctx, struct etcd_client *c, uint64_t id, struct err *e)
{
    return by_id(ctx, c, &rpc_promote, id, "promote", e);
}

int etcd_member_remove(const struct ctx *ctx, struct etcd_client *c, uint64_t id, struct err *e)
{
    return by_id(ctx, c, &rpc_remove, id, "remove", e);
}

int etcd_member_update(const struct ctx *ctx, struct etcd_client *c, uint64_t id,
                       const char *peer_url, struct err *e)
{
    char *urls[] = {(char *)peer_url};
    Pb__MemberUpdateRequest m = PB__MEMBER_UPDATE_REQUEST__INIT;
    m.id = id;
    m.peer_urls = urls;
    m.n_peer_urls = 1;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_update, &m, &reply, e) < 0)
        return err_wrap(e, "update member %llx", (unsigned long long)id);
    return 0;
}
