/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/maintenance.h"

#include "base/mem.h"
#include "etcd/client_internal.h"
#include "etcd/maintenance_internal.h"

#define RPC(name_, response_, ...)                                                                 \
    {                                                                                              \
        .path = "/etcdserverpb.Maintenance/" name_, .response = &pb__##response_##__descriptor,    \
        __VA_ARGS__                                                                                \
    }

static const struct etcd_rpc rpc_status = RPC("Status", status_response);
static const struct etcd_rpc rpc_alarm_list = RPC("Alarm", alarm_response);
static const struct etcd_rpc rpc_alarm = RPC("Alarm", alarm_response, .mutating = true);
/* A defragmentation can be repeated without harm, but it costs: not a read. */
static const struct etcd_rpc rpc_defragment =
    RPC("Defragment", any_response, .mutating = true, .unchecked = true);
static const struct etcd_rpc rpc_move_leader =
    RPC("MoveLeader", any_response, .mutating = true, .unchecked = true);
static const struct etcd_rpc rpc_hash = RPC("Hash", hash_response);
static const struct etcd_rpc rpc_hash_kv = RPC("HashKV", hash_kvresponse);
static const struct etcd_rpc rpc_downgrade = RPC("Downgrade", downgrade_response, .mutating = true);
static const struct etcd_rpc rpc_downgrade_check = RPC("Downgrade", downgrade_response);

struct etcd_status etcd_status_of(struct arena *own, const Pb__StatusResponse *r)
{
    return (struct etcd_status){
        .header = etcd_header_of(r->header),
        .version = r->version,
        .db_size_bytes = r->db_size,
        .db_in_use_bytes = r->db_size_in_use,
        .db_quota_bytes = r->db_size_quota,
        .leader = r->leader,
        .raft_index = r->raft_index,
        .raft_applied = r->raft_applied_index,
        .raft_term = r->raft_term,
        .learner = r->is_learner,
        .storage_version = r->storage_version,
        .downgrading = r->downgrade_info && r->downgrade_info->enabled,
        .downgrade_target = r->downgrade_info ? r->downgrade_info->target_version : "",
        .errors = (const char *const *)r->errors,
        .n_errors = r->n_errors,
        .own = own,
    };
}

int etcd_status(const struct ctx *ctx, struct etcd_client *c, size_t at, struct etcd_status *out,
                struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_status, &m, &reply, e) < 0)
        return err_wrap(e, "status");
    *out = etcd_status_of(reply.own, reply.message);
    return 0;
}

void etcd_status_done(struct etcd_status *s)
{
    if (!s)
        return;
    arena_free(s->own, false);
    *s = (struct etcd_status){0};
}

const char *etcd_alarm_name(int type)
{
    static const char *const names[] = {"NONE", "NOSPACE", "CORRUPT"};
    return type >= 0 && (size_t)type < COUNT_OF(names) ? names[type] : "?";
}

struct etcd_alarms etcd_alarms_of(struct arena *own, const Pb__AlarmResponse *r)
{
    struct etcd_alarm *v = arena_array(own, r->n_alarms, sizeof(*v));
    for (size_t i = 0; i < r->n_alarms; i++)
        v[i] = (struct etcd_alarm){r->alarms[i]->member_id, r->alarms[i]->alarm};
    return (struct etcd_alarms){etcd_header_of(r->header), v, r->n_alarms, own};
}

int etcd_alarm_list(const struct ctx *ctx, struct etcd_client *c, size_t at,
                    struct etcd_alarms *out, struct err *e)
{
    const Pb__AlarmRequest m = PB__ALARM_REQUEST__INIT;
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_alarm_list, &m, &reply, e) < 0)
        return err_wrap(e, "list alarms");
    *out = etcd_alarms_of(reply.own, reply.message);
    return 0;
}

void etcd_alarms_done(struct etcd_alarms *a)
{
    if (!a)
        return;
    arena_free(a->own, false);
    *a = (struct etcd_alarms){0};
}

int etcd_alarm_set(const struct ctx *ctx, struct etcd_client *c, struct etcd_alarm alarm,
                   bool active, struct err *e)
{
    enum { ACTIVATE = 1, DEACTIVATE = 2 };
    Pb__AlarmRequest m = PB__ALARM_REQUEST__INIT;
    m.action = active ? ACTIVATE : DEACTIVATE;
    m.member_id = alarm.member_id;
    m.alarm = alarm.type;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_alarm, &m, &reply, e) < 0)
        return err_wrap(e, "%s alarm %s", active ? "raise" : "clear", etcd_alarm_name(alarm.type));
    return 0;
}

int etcd_defragment(const struct ctx *ctx, struct etcd_client *c, size_t at, struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_defragment, &m, &reply, e) < 0)
        return err_wrap(e, "defragment");
    return 0;
}

int etcd_move_leader(const struct ctx *ctx, struct etcd_client *c, size_t at, uint64_t to,
                     struct err *e)
{
    Pb__MoveLeaderRequest m = PB__MOVE_LEADER_REQUEST__INIT;
    m.target_id = to;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_move_leader, &m, &reply, e) < 0)
        return err_wrap(e, "move leader to %llx", (unsigned long long)to);
    return 0;
}

int etcd_hash(const struct ctx *ctx, struct etcd_client *c, size_t at, uint32_t *out, struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_hash, &m, &reply, e) < 0)
        return err_wrap(e, "hash");
    *out = ((Pb__HashResponse *)reply.message)->hash;
    return 0;
}

int etcd_hash_kv(const struct ctx *ctx, struct etcd_client *c, size_t at, int64_t revision,
                 struct etcd_hash_kv *out, struct err *e)
{
    Pb__HashKVRequest m = PB__HASH_KVREQUEST__INIT;
    m.revision = revision;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_hash_kv, &m, &reply, e) < 0)
        return err_wrap(e, "hash of keys at revision %lld", (long long)revision);
    const Pb__HashKVResponse *r = reply.message;
    *out = (struct etcd_hash_kv){etcd_header_of(r->header), r->hash, r->compact_revision,
                                 r->hash_revision};
    return 0;
}

int etcd_downgrade(const struct ctx *ctx, struct etcd_client *c, enum etcd_downgrade action,
                   const char *version, char **out_version, struct err *e)
{
    static const char *const verbs[] = {"validate", "enable", "cancel"};
    Pb__DowngradeRequest m = PB__DOWNGRADE_REQUEST__INIT;
    m.action = (int32_t)action;
    m.version = (char *)(version ? version : ""); /* packing only reads */
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    const bool check = action == ETCD_DOWNGRADE_VALIDATE;
    if (etcd_call(ctx, c, ETCD_ANY, check ? &rpc_downgrade_check : &rpc_downgrade, &m, &reply, e) <
        0)
        return err_wrap(e, "%s downgrade%s%s", verbs[action], version ? " to " : "",
                        version ? version : "");
    *out_version = xstrdup(((Pb__DowngradeResponse *)reply.message)->version);
    return 0;
}
