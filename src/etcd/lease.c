/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/lease.h"

#include <stdlib.h>

#include "base/ctx.h"
#include "base/mem.h"
#include "etcd/client_internal.h"
#include "etcd/lease_internal.h"
#include "net/grpc.h"

enum { RETRY_MS = 200 };

#define RPC(name_, response_, ...)                                                                 \
    {                                                                                              \
        .path = "/etcdserverpb.Lease/" name_, .response = &pb__##response_##__descriptor,          \
        __VA_ARGS__                                                                                \
    }

static const struct etcd_rpc rpc_grant = RPC("LeaseGrant", lease_grant_response, .mutating = true);
static const struct etcd_rpc rpc_revoke = RPC("LeaseRevoke", any_response, .mutating = true);
static const struct etcd_rpc rpc_info = RPC("LeaseTimeToLive", lease_time_to_live_response);
static const struct etcd_rpc rpc_list = RPC("LeaseLeases", lease_list_response);
static const struct etcd_rpc rpc_keep =
    RPC("LeaseKeepAlive", lease_keep_alive_response, .leader = true);

int etcd_lease_grant(const struct ctx *ctx, struct etcd_client *c, int64_t ttl_s, int64_t id,
                     int64_t *out_id, int64_t *out_ttl_s, struct err *e)
{
    Pb__LeaseGrantRequest m = PB__LEASE_GRANT_REQUEST__INIT;
    m.ttl = ttl_s;
    m.id = id;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_grant, &m, &reply, e) < 0)
        return err_wrap(e, "grant lease");
    const Pb__LeaseGrantResponse *r = reply.message;
    *out_id = r->id;
    *out_ttl_s = r->ttl;
    return 0;
}

int etcd_lease_revoke(const struct ctx *ctx, struct etcd_client *c, int64_t id, struct err *e)
{
    Pb__LeaseRequest m = PB__LEASE_REQUEST__INIT;
    m.id = id;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_revoke, &m, &reply, e) < 0)
        return err_wrap(e, "revoke lease %llx", (unsigned long long)id);
    return 0;
}

struct etcd_lease etcd_lease_of(struct arena *own, const Pb__LeaseTimeToLiveResponse *r)
{
    struct str *keys = arena_array(own, r->n_keys, sizeof(*keys));
    for (size_t i = 0; i < r->n_keys; i++)
        keys[i] = str_of_bytes(r->keys[i]);
    return (struct etcd_lease){r->id, r->ttl, r->granted_ttl, keys, r->n_keys, own};
}

int etcd_lease_info(const struct ctx *ctx, struct etcd_client *c, int64_t id, bool with_keys,
                    struct etcd_lease *out, struct err *e)
{
    Pb__LeaseTimeToLiveRequest m = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    m.id = id;
    m.keys = with_keys;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_info, &m, &reply, e) < 0)
        return err_wrap(e, "lease %llx", (unsigned long long)id);
    const Pb__LeaseTimeToLiveResponse *r = reply.message;
    if (r->ttl < 0)
        return err_set(e, ERR_NOT_FOUND, 0, "lease %llx: expired or never granted",
                       (unsigned long long)id);
    *out = etcd_lease_of(TAKE(reply.own), r);
    return 0;
}

void etcd_lease_done(struct etcd_lease *l)
{
    if (!l)
        return;
    arena_free(l->own, false);
    *l = (struct etcd_lease){0};
}

struct etcd_leases etcd_leases_of(struct arena *own, const Pb__LeaseListResponse *r)
{
    int64_t *v = arena_array(own, r->n_leases, sizeof(*v));
    for (size_t i = 0; i < r->n_leases; i++)
        v[i] = r->leases[i]->id;
    return (struct etcd_leases){v, r->n_leases, own};
}

int etcd_lease_list(const struct ctx *ctx, struct etcd_client *c, struct etcd_leases *out,
                    struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_list, &m, &reply, e) < 0)
        return err_wrap(e, "list leases");
    *out = etcd_leases_of(reply.own, reply.message);
    return 0;
}

void etcd_leases_done(struct etcd_leases *l)
{
    if (!l)
        return;
    arena_free(l->own, false);
    *l = (struct etcd_leases){0};
}

/* --- Keeping alive */

struct etcd_keeper {
    struct etcd_client *client;
    struct grpc_call *call; /* NULL: not open */
    size_t at;
};

struct etcd_keeper *etcd_keeper_new(struct etcd_client *c)
{
    struct etcd_keeper *k = xcalloc(1, sizeof(*k));
    k->client = c;
    return k;
}

void etcd_keeper_free(struct etcd_keeper *k)
{
    if (!k)
        return;
    grpc_call_free(k->call);
    free(k);
}

static int renew_once(const struct ctx *ctx, struct etcd_keeper *k, int64_t id, int64_t *out_ttl_s,
                      struct err *e)
{
    Pb__LeaseRequest m = PB__LEASE_REQUEST__INIT;
    m.id = id;
    auto_buf struct buf bytes = BUF_INIT(64);
    if (message_pack(&m, &bytes, e) < 0)
        return -1;
    if (!k->call && etcd_stream(ctx, k->client, ETCD_ANY, &rpc_keep, &k->call, &k->at, e) < 0)
        return -1;
    if (grpc_call_send(k->call, buf_str(&bytes), false, e) < 0)
        return -1;
    for (;;) {
        AUTO(etcd_reply_done) struct etcd_reply reply = {0};
        const int got = etcd_stream_next(ctx, k->client, k->at, &rpc_keep, k->call, &reply, e);
        if (got == 0)
            err_set(e, ERR_UNAVAILABLE, 0, "server ended the stream");
        if (got <= 0)
            return -1;
        const Pb__LeaseKeepAliveResponse *r = reply.message;
        if (r->id != id)
            continue; /* the answer to a renewal nobody waited for */
        if (r->ttl <= 0)
            return err_set(e, ERR_NOT_FOUND, 0, "expired or never granted");
        *out_ttl_s = r->ttl;
        return 0;
    }
}

/* After a failed attempt: whether to make another one, with a new token or a little later. */
static bool recover(const struct ctx *ctx, struct etcd_keeper *k, bool *renewed, struct err *e)
{
    struct err over;
    const bool stale = k->call && etcd_stream_failed(k->client, k->at, e);
    grpc_call_free(TAKE(k->call));
    if (stale && !*renewed) {
        *renewed = true;
        return true;
    }
    if (!err_transient(e) || e->code == ERR_CONFLICT || ctx_check(ctx, &over) < 0)
        return false;
    if (ctx_sleep(ctx, RETRY_MS, &over) == 0)
        return true;
    err_wrap(e, "%s", over.text); /* why it took so long is more useful than that it did */
    e->code = over.code;
    return false;
}

int etcd_keeper_renew(const struct ctx *ctx, struct etcd_keeper *k, int64_t id, int64_t *out_ttl_s,
                      struct err *e)
{
    bool renewed = false;
    while (renew_once(ctx, k, id, out_ttl_s, e) < 0)
        if (e->code == ERR_NOT_FOUND || !recover(ctx, k, &renewed, e))
            return err_wrap(e, "renew lease %llx", (unsigned long long)id);
    return 0;
}
