/* SPDX-License-Identifier: Apache-2.0
 * Every response we decode. The first byte picks the message. What unpacks can be turned into our
 * structs and packed again; packing is stable. */
#include "etcd/auth_internal.h"
#include "etcd/cluster_internal.h"
#include "etcd/kv_internal.h"
#include "etcd/lease_internal.h"
#include "etcd/maintenance_internal.h"
#include "etcd/message.h"
#include "etcd/watch_internal.h"
#include "fuzz.h"

static const ProtobufCMessageDescriptor *const types[] = {
    &pb__any_response__descriptor,
    &pb__range_response__descriptor,
    &pb__put_response__descriptor,
    &pb__delete_response__descriptor,
    &pb__txn_response__descriptor,
    &pb__watch_response__descriptor,
    &pb__lease_grant_response__descriptor,
    &pb__lease_keep_alive_response__descriptor,
    &pb__lease_time_to_live_response__descriptor,
    &pb__lease_list_response__descriptor,
    &pb__member_add_response__descriptor,
    &pb__members_response__descriptor,
    &pb__alarm_response__descriptor,
    &pb__status_response__descriptor,
    &pb__hash_response__descriptor,
    &pb__hash_kvresponse__descriptor,
    &pb__snapshot_response__descriptor,
    &pb__downgrade_response__descriptor,
    &pb__auth_status_response__descriptor,
    &pb__authenticate_response__descriptor,
    &pb__names_response__descriptor,
    &pb__role_get_response__descriptor,
};

/* Every byte a result points to can be read. */
static void touch(struct str s)
{
    volatile char seen = 0;
    for (size_t i = 0; i < s.n; i++)
        seen ^= s.p[i];
    (void)seen;
}

static void touch_kv(const struct etcd_kv *kv)
{
    touch(kv->key);
    touch(kv->value);
}

static void convert_more(const ProtobufCMessageDescriptor *type, struct arena *own,
                         const void *message)
{
    if (type == &pb__txn_response__descriptor) {
        const struct etcd_txn_result t = etcd_txn_result_of(own, message);
        for (size_t i = 0; i < t.n_ops; i++)
            for (size_t k = 0; k < t.ops[i].n; k++)
                touch_kv(&t.ops[i].v[k]);
    } else if (type == &pb__lease_time_to_live_response__descriptor) {
        const struct etcd_lease l = etcd_lease_of(own, message);
        for (size_t i = 0; i < l.n_keys; i++)
            touch(l.keys[i]);
    } else if (type == &pb__lease_list_response__descriptor) {
        const struct etcd_leases l = etcd_leases_of(own, message);
        touch((struct str){(const char *)l.v, l.n * sizeof(*l.v)});
    } else if (type == &pb__role_get_response__descriptor) {
        const struct etcd_permissions p = etcd_permissions_of(own, message);
        for (size_t i = 0; i < p.n; i++) {
            touch(p.v[i].key);
            touch(p.v[i].end);
        }
    } else if (type == &pb__watch_response__descriptor) {
        const Pb__WatchResponse *r = message;
        for (size_t i = 0; i < r->n_events; i++) {
            const struct etcd_event event = etcd_event_of(r->events[i]);
            FUZZ_CHECK(event.has_prev || event.prev.key.n == 0);
            touch_kv(&event.kv);
            touch_kv(&event.prev);
        }
    }
}

static void convert(const ProtobufCMessageDescriptor *type, struct arena *own, const void *message)
{
    if (type == &pb__status_response__descriptor) {
        const struct etcd_status s = etcd_status_of(own, message);
        FUZZ_CHECK(s.version && s.storage_version && s.downgrade_target);
    } else if (type == &pb__alarm_response__descriptor) {
        const struct etcd_alarms a = etcd_alarms_of(own, message);
        for (size_t i = 0; i < a.n; i++)
            (void)etcd_alarm_name(a.v[i].type);
    } else if (type == &pb__members_response__descriptor) {
        const Pb__MembersResponse *r = message;
        const struct etcd_members m = etcd_members_of(own, r->header, r->members, r->n_members);
        for (size_t i = 0; i < m.n; i++)
            FUZZ_CHECK(m.v[i].name);
    } else if (type == &pb__range_response__descriptor) {
        const Pb__RangeResponse *r = message;
        for (size_t i = 0; i < r->n_kvs; i++)
            (void)etcd_kv_of(r->kvs[i]);
    } else {
        convert_more(type, own, message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const ProtobufCMessageDescriptor *type = types[data[0] % COUNT_OF(types)];
    const struct str bytes = {(const char *)data + 1, size - 1};
    struct err e = {0};
    AUTO(arena_free_auto) struct arena *own = NULL, *again = NULL;
    void *message = NULL, *twin = NULL;
    (void)message_cluster_id(bytes);
    if (message_unpack(type, bytes, &own, &message, &e) < 0) {
        FUZZ_CHECK(e.code == ERR_CORRUPT || e.code == ERR_TOO_BIG);
        return 0;
    }
    convert(type, own, message);
    auto_buf struct buf once = BUF_INIT(64 << 20), twice = BUF_INIT(64 << 20);
    FUZZ_CHECK(message_pack(message, &once, &e) == 0);
    /* An unknown field of number 0 is kept on reading and cannot be read again once written; we
     * never send back what we received. */
    if (message_unpack(type, buf_str(&once), &again, &twin, &e) < 0)
        return 0;
    FUZZ_CHECK(message_pack(twin, &twice, &e) == 0);
    FUZZ_CHECK(str_eq(buf_str(&once), buf_str(&twice)));
    return 0;
}
