/* SPDX-License-Identifier: Apache-2.0
 * Every call of src/etcd against a real cluster, with the server's own answers as judge. Run by
 * test_etcd_suite.py on each version, with and without TLS and authentication.
 *
 *     etcd_suite setup-auth | all | limited | downgrade-cycle | interop-write | interop-read LEASE
 *                [options of etcd_args.c] */
#include "etcd/auth.h"
#include "etcd/cluster.h"
#include "etcd/errors.h"
#include "etcd/judge.h"
#include "etcd/kv.h"
#include "etcd/lease.h"
#include "etcd/maintenance.h"
#include "etcd/probe.h"
#include "etcd/version.h"
#include "etcd/watch.h"
#include "etcd_args.h"

static struct etcd_args args;
static struct ctx ctx; /* with the deadline of one step */
static struct etcd_client *c;
static struct err e;

static void put(const char *key, const char *value)
{
    OK(etcd_put(&ctx, c, &(struct etcd_put){.key = str_c(key), .value = str_c(value)}, NULL, &e));
}

static int64_t revision_now(void)
{
    struct etcd_kvs kvs = {0};
    OK(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("nothing")}, &kvs, &e));
    const int64_t revision = kvs.header.revision;
    etcd_kvs_done(&kvs);
    return revision;
}

/* --- KV */

static void keys_and_values(void)
{
    static const struct {
        struct str key, value;
    } pairs[] = {
        {STR("plain"), STR("value")},
        {STR("a\0b"), STR("\0")},
        {STR("\xff\xfe"), STR("\x80")},
        {STR("empty value"), STR("")},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        struct etcd_kvs kvs = {0};
        OK(etcd_put(&ctx, c, &(struct etcd_put){.key = pairs[i].key, .value = pairs[i].value}, &kvs,
                    &e));
        const int64_t revision = kvs.header.revision;
        CHECK(kvs.n == 0 && revision > 1);
        etcd_kvs_done(&kvs);
        OK(etcd_get(&ctx, c, &(struct etcd_range){.key = pairs[i].key}, &kvs, &e));
        CHECK(kvs.n == 1 && kvs.count == 1 && !kvs.more);
        CHECK(str_eq(kvs.v[0].key, pairs[i].key) && str_eq(kvs.v[0].value, pairs[i].value));
        CHECK(kvs.v[0].mod_revision == revision && kvs.v[0].version >= 1);
        etcd_kvs_done(&kvs);
    }
    struct etcd_kvs kvs = {0};
    OK(etcd_put(&ctx, c,
                &(struct etcd_put){.key = STR("plain"), .value = STR("two"), .prev_kv = true}, &kvs,
                &e));
    CHECK(kvs.n == 1 && str_eq(kvs.v[0].value, STR("value")));
    etcd_kvs_done(&kvs);
    OK(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("plain"), .ignore_value = true}, NULL, &e));
    FAILS(
        etcd_put(&ctx, c, &(struct etcd_put){.key = STR("absent"), .ignore_value = true}, NULL, &e),
        ERR_NOT_FOUND);
    FAILS(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("")}, NULL, &e), ERR_INVALID);
    CHECK(etcd_error_is(&e, ETCD_EMPTY_KEY));
    FAILS(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("x"), .revision = 1 << 30}, &kvs, &e),
          ERR_NOT_READY);
    OK(etcd_delete(&ctx, c, &(struct etcd_delete){.key = STR("plain"), .prev_kv = true}, &kvs, &e));
    CHECK(kvs.count == 1 && kvs.n == 1 && str_eq(kvs.v[0].value, STR("two")));
    etcd_kvs_done(&kvs);
    OK(etcd_delete(&ctx, c, &(struct etcd_delete){.key = STR("plain")}, &kvs, &e));
    CHECK(kvs.count == 0);
    etcd_kvs_done(&kvs);
}

enum { PAGED = 2500 };

static void pages(void)
{
    auto_buf struct buf end = BUF_INIT(100);
    etcd_prefix_end(STR("page/"), &end);
    const struct etcd_range all = {.key = STR("page/"), .end = buf_str(&end)};
    for (int i = 0; i < PAGED; i += 100) {
        char names[100][16];
        struct etcd_op ops[100];
        for (int k = 0; k < 100; k++) {
            (void)snprintf(names[k], sizeof(names[k]), "page/%05d", i + k);
            ops[k] = (struct etcd_op){.type = ETCD_OP_PUT,
                                      .put = {.key = str_c(names[k]), .value = str_c(names[k])}};
        }
        struct etcd_txn_result r = {0};
        OK(etcd_txn(&ctx, c, &(struct etcd_txn){.success = ops, .n_success = 100}, &r, &e));
        CHECK(r.succeeded && r.n_ops == 100);
        etcd_txn_result_done(&r);
    }
    for (int limit = 7; limit <= 5000; limit *= 9) {
        int seen = 0, rc = 0;
        struct etcd_pages p = {.range = all};
        p.range.limit = limit;
        while ((rc = etcd_pages_next(&ctx, c, &p, &e)) > 0) {
            for (size_t i = 0; i < p.page.n; i++) {
                char want[16];
                (void)snprintf(want, sizeof(want), "page/%05d", seen++);
                CHECK(str_eq(p.page.v[i].key, str_c(want)));
            }
            if (seen < PAGED / 2) /* does not show: all pages are of one revision */
                put("page/00000x", "late");
        }
        OK(rc);
        CHECK(seen == PAGED);
        etcd_pages_done(&p);
        OK(etcd_delete(&ctx, c, &(struct etcd_delete){.key = STR("page/00000x")}, NULL, &e));
    }
    struct etcd_kvs kvs = {0};
    struct etcd_range r = all;
    r.count_only = true;
    OK(etcd_get(&ctx, c, &r, &kvs, &e));
    CHECK(kvs.count == PAGED && kvs.n == 0);
    etcd_kvs_done(&kvs);
    r = all;
    r.keys_only = r.serializable = true;
    r.limit = 3;
    r.order = ETCD_SORT_DESCEND;
    OK(etcd_get(&ctx, c, &r, &kvs, &e));
    CHECK(kvs.n == 3 && kvs.more && kvs.v[0].value.n == 0);
    CHECK(str_eq(kvs.v[0].key, STR("page/02499")));
    etcd_kvs_done(&kvs);
    OK(etcd_delete(&ctx, c, &(struct etcd_delete){.key = all.key, .end = all.end}, &kvs, &e));
    CHECK(kvs.count == PAGED);
    etcd_kvs_done(&kvs);
}

static void transactions(void)
{
    put("txn", "1");
    struct etcd_kvs now = {0};
    OK(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("txn")}, &now, &e));
    const struct etcd_compare holds[] = {
        {.key = STR("txn"), .what = ETCD_VALUE, .value = STR("1")},
        {.key = STR("txn"), .what = ETCD_MOD_REVISION, .number = now.v[0].mod_revision},
        {.key = STR("txn"), .what = ETCD_CREATE_REVISION, .number = 0, .is = ETCD_GREATER},
        {.key = STR("txn"), .what = ETCD_VERSION, .number = 1000, .is = ETCD_LESS},
        {.key = STR("txn"), .what = ETCD_LEASE, .number = 0},
        {.key = STR("txn"), .what = ETCD_VALUE, .value = STR("2"), .is = ETCD_NOT_EQUAL},
        {.key = STR("never"), .what = ETCD_VERSION, .number = 0},
    };
    const struct etcd_op success[] = {
        {.type = ETCD_OP_PUT, .put = {.key = STR("txn"), .value = STR("2"), .prev_kv = true}},
        {.type = ETCD_OP_RANGE, .range = {.key = STR("txn")}},
        {.type = ETCD_OP_DELETE, .del = {.key = STR("never")}},
    };
    const struct etcd_op failure[] = {{.type = ETCD_OP_RANGE, .range = {.key = STR("txn")}}};
    struct etcd_txn t = {.compare = holds,
                         .n_compare = COUNT_OF(holds),
                         .success = success,
                         .n_success = COUNT_OF(success),
                         .failure = failure,
                         .n_failure = 1};
    struct etcd_txn_result r = {0};
    OK(etcd_txn(&ctx, c, &t, &r, &e));
    CHECK(r.succeeded && r.n_ops == 3);
    CHECK(r.ops[0].n == 1 && str_eq(r.ops[0].v[0].value, STR("1")));
    CHECK(r.ops[1].n == 1 && str_eq(r.ops[1].v[0].value, STR("2")) && r.ops[2].count == 0);
    etcd_txn_result_done(&r);
    OK(etcd_txn(&ctx, c, &t, &r, &e)); /* a second time the comparison fails */
    CHECK(!r.succeeded && r.n_ops == 1 && str_eq(r.ops[0].v[0].value, STR("2")));
    etcd_txn_result_done(&r);
    etcd_kvs_done(&now);

    const struct etcd_op twice[] = {{.type = ETCD_OP_PUT, .put = {.key = STR("d")}},
                                    {.type = ETCD_OP_PUT, .put = {.key = STR("d")}}};
    t = (struct etcd_txn){.success = twice, .n_success = 2};
    FAILS(etcd_txn(&ctx, c, &t, &r, &e), ERR_INVALID);
    CHECK(etcd_error_is(&e, ETCD_DUPLICATE_KEY));
    static struct etcd_op many[200];
    for (size_t i = 0; i < COUNT_OF(many); i++)
        many[i] = (struct etcd_op){.type = ETCD_OP_RANGE, .range = {.key = STR("d")}};
    t = (struct etcd_txn){.success = many, .n_success = COUNT_OF(many)};
    FAILS(etcd_txn(&ctx, c, &t, &r, &e), ERR_INVALID);
    CHECK(etcd_error_is(&e, ETCD_TOO_MANY_OPS));
}

static void sizes(void)
{
    enum { FINE = 1 << 20, TOO_BIG = 1600 * 1024, FAR_TOO_BIG = 3 << 20 };
    auto_free char *big = xcalloc(1, FAR_TOO_BIG);
    memset(big, 'x', FAR_TOO_BIG);
    OK(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("big"), .value = {big, FINE}}, NULL, &e));
    struct etcd_kvs kvs = {0};
    OK(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("big")}, &kvs, &e));
    CHECK(kvs.n == 1 && str_eq(kvs.v[0].value, (struct str){big, FINE}));
    etcd_kvs_done(&kvs);
    FAILS(
        etcd_put(&ctx, c, &(struct etcd_put){.key = STR("big"), .value = {big, TOO_BIG}}, NULL, &e),
        ERR_TOO_BIG);
    /* Past the server's message limit it may only reset the stream. Never "done". */
    CHECK(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("big"), .value = {big, FAR_TOO_BIG}},
                   NULL, &e) < 0);
    CHECK(e.code == ERR_TOO_BIG || e.code == ERR_UNAVAILABLE || e.code == ERR_OUTCOME_UNKNOWN);
    OK(etcd_delete(&ctx, c, &(struct etcd_delete){.key = STR("big")}, NULL, &e));
}

static void compaction(void)
{
    put("compact", "1");
    const int64_t old = revision_now();
    put("compact", "2");
    put("compact", "3");
    OK(etcd_compact(&ctx, c, old + 1, true, &e));
    struct etcd_kvs kvs = {0};
    FAILS(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("compact"), .revision = old}, &kvs, &e),
          ERR_EXPIRED);
    OK(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("compact"), .revision = old + 1}, &kvs,
                &e));
    CHECK(str_eq(kvs.v[0].value, STR("2")));
    etcd_kvs_done(&kvs);
    FAILS(etcd_compact(&ctx, c, old, false, &e), ERR_EXPIRED);
}

/* --- Lease */

static void leases(void)
{
    int64_t id = 0, ttl_s = 0;
    OK(etcd_lease_grant(&ctx, c, 60, 0, &id, &ttl_s, &e));
    CHECK(id != 0 && ttl_s == 60);
    FAILS(etcd_lease_grant(&ctx, c, 60, id, &id, &ttl_s, &e), ERR_EXISTS);
    OK(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("leased"), .lease = id}, NULL, &e));
    struct etcd_lease info = {0};
    OK(etcd_lease_info(&ctx, c, id, true, &info, &e));
    CHECK(info.granted_s == 60 && info.ttl_s > 50 && info.n_keys == 1);
    CHECK(str_eq(info.keys[0], STR("leased")));
    etcd_lease_done(&info);
    struct etcd_leases list = {0};
    OK(etcd_lease_list(&ctx, c, &list, &e));
    bool found = false;
    for (size_t i = 0; i < list.n; i++)
        found |= list.v[i] == id;
    CHECK(found);
    etcd_leases_done(&list);
    struct etcd_keeper *k = etcd_keeper_new(c);
    for (int i = 0; i < 3; i++) {
        OK(etcd_keeper_renew(&ctx, k, id, &ttl_s, &e));
        CHECK(ttl_s == 60);
    }
    FAILS(etcd_keeper_renew(&ctx, k, id + 1, &ttl_s, &e), ERR_NOT_FOUND);
    etcd_keeper_free(k);
    OK(etcd_lease_revoke(&ctx, c, id, &e));
    FAILS(etcd_lease_revoke(&ctx, c, id, &e), ERR_NOT_FOUND);
    FAILS(etcd_lease_info(&ctx, c, id, false, &info, &e), ERR_NOT_FOUND);
    struct etcd_kvs kvs = {0};
    OK(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("leased")}, &kvs, &e));
    CHECK(kvs.n == 0);
    etcd_kvs_done(&kvs);
}

/* --- Cluster */

static void membership(void)
{
    const char *peer = "http://127.0.0.1:1";
    struct etcd_members members = {0};
    OK(etcd_member_list(&ctx, c, true, &members, &e));
    const size_t before = members.n;
    CHECK(before >= 1 && members.v[0].id != 0 && members.v[0].n_client_urls > 0);
    const uint64_t voter = members.v[0].id;
    etcd_members_done(&members);
    OK(etcd_member_list(&ctx, c, false, &members, &e));
    CHECK(members.n == before);
    etcd_members_done(&members);

    uint64_t id = 0;
    for (int i = 0; etcd_member_add(&ctx, c, peer, true, &id, &members, &e) < 0; i++) {
        CHECK(e.code == ERR_NOT_READY && i < 100); /* voters must have been connected for 5 s */
        OK(ctx_sleep(&ctx, 200, &e));
    }
    CHECK(members.n == before + 1);
    const struct etcd_member *m = etcd_members_find(&members, id);
    CHECK(m && m->learner && m->name[0] == '\0' && strcmp(m->peer_urls[0], peer) == 0);
    etcd_members_done(&members);
    uint64_t other = 0;
    FAILS(etcd_member_add(&ctx, c, peer, true, &other, NULL, &e), ERR_EXISTS);
    FAILS(etcd_member_add(&ctx, c, "http://127.0.0.1:2", true, &other, NULL, &e), ERR_CONFLICT);
    FAILS(etcd_member_add(&ctx, c, "nonsense", true, &other, NULL, &e), ERR_INVALID);
    FAILS(etcd_member_promote(&ctx, c, id, &e), ERR_NOT_READY);
    FAILS(etcd_member_promote(&ctx, c, voter, &e), ERR_CONFLICT);
    OK(etcd_member_update(&ctx, c, id, "http://127.0.0.1:3", &e));
    OK(etcd_member_remove(&ctx, c, id, &e));
    FAILS(etcd_member_remove(&ctx, c, id, &e), ERR_NOT_FOUND);
    OK(etcd_member_list(&ctx, c, true, &members, &e));
    CHECK(members.n == before && !etcd_members_find(&members, id));
    etcd_members_done(&members);
}

/* --- Maintenance */

static int count_bytes(void *arg, struct str bytes, struct err *why)
{
    (void)why;
    *(uint64_t *)arg += bytes.n;
    return 0;
}

static int refuse_bytes(void *arg, struct str bytes, struct err *why)
{
    (void)arg;
    (void)bytes;
    return err_set(why, ERR_IO, 0, "disk full");
}

static void statuses(void)
{
    uint64_t cluster = 0;
    for (size_t at = 0; at < args.n_endpoints; at++) {
        struct etcd_status s = {0};
        struct etcd_version v;
        OK(etcd_status(&ctx, c, at, &s, &e));
        OK(etcd_version_parse(str_c(s.version), &v, &e));
        CHECK(v.major == 3 && s.db_size_bytes > 0 && s.leader != 0 && s.raft_index > 0);
        CHECK(v.minor < 6 || s.db_quota_bytes > 0);
        CHECK(cluster == 0 || s.header.cluster_id == cluster);
        cluster = s.header.cluster_id;
        etcd_status_done(&s);
    }
}

static void alarms(void)
{
    struct etcd_status s = {0};
    OK(etcd_status(&ctx, c, 0, &s, &e));
    const struct etcd_alarm alarm = {s.header.member_id, ETCD_ALARM_NOSPACE};
    etcd_status_done(&s);
    OK(etcd_alarm_set(&ctx, c, alarm, true, &e));
    struct etcd_alarms list = {0};
    OK(etcd_alarm_list(&ctx, c, ETCD_ANY, &list, &e));
    CHECK(list.n == 1 && list.v[0].member_id == alarm.member_id &&
          list.v[0].type == ETCD_ALARM_NOSPACE);
    etcd_alarms_done(&list);
    FAILS(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("full")}, NULL, &e), ERR_TOO_BIG);
    CHECK(etcd_error_is(&e, ETCD_NO_SPACE));
    OK(etcd_alarm_set(&ctx, c, alarm, false, &e));
    OK(etcd_alarm_list(&ctx, c, ETCD_ANY, &list, &e));
    CHECK(list.n == 0);
    etcd_alarms_done(&list);
    put("full", "no longer");
}

static void upkeep(void)
{
    const int64_t revision = revision_now();
    struct etcd_hash_kv first = {0};
    for (size_t at = 0; at < args.n_endpoints; at++) {
        struct etcd_hash_kv h = {0};
        uint32_t whole = 0;
        OK(etcd_hash_kv(&ctx, c, at, revision, &h, &e));
        if (at == 0)
            first = h;
        CHECK(h.hash == first.hash && h.compact_revision == first.compact_revision);
        OK(etcd_hash(&ctx, c, at, &whole, &e));
        uint64_t seen = 0;
        struct etcd_snapshot snapshot = {0};
        OK(etcd_snapshot(&ctx, c, at, count_bytes, &seen, &snapshot, &e));
        CHECK(seen == snapshot.size_bytes + 32 && strlen(snapshot.sha256) == 64);
        FAILS(etcd_snapshot(&ctx, c, at, refuse_bytes, NULL, &snapshot, &e), ERR_IO);
        OK(etcd_defragment(&ctx, c, at, &e));
    }
}

static size_t leader_at(void)
{
    for (size_t at = 0; at < args.n_endpoints; at++) {
        struct etcd_status s = {0};
        OK(etcd_status(&ctx, c, at, &s, &e));
        const bool leads = s.leader == s.header.member_id;
        etcd_status_done(&s);
        if (leads)
            return at;
    }
    CHECK(!"a leader");
    return 0;
}

static void leadership(void)
{
    if (args.n_endpoints < 3)
        return;
    struct etcd_status s = {0};
    const size_t leader = leader_at();
    const size_t next = (leader + 1) % 3;
    OK(etcd_status(&ctx, c, next, &s, &e));
    const uint64_t to = s.header.member_id;
    etcd_status_done(&s);
    FAILS(etcd_move_leader(&ctx, c, next, to, &e), ERR_CONFLICT);
    CHECK(etcd_error_is(&e, ETCD_NOT_LEADER));
    FAILS(etcd_move_leader(&ctx, c, leader, 12345, &e), ERR_INVALID);
    OK(etcd_move_leader(&ctx, c, leader, to, &e));
    CHECK(leader_at() == next);
}

static void downgrades(void)
{
    char *version = NULL;
    FAILS(etcd_downgrade(&ctx, c, ETCD_DOWNGRADE_VALIDATE, "nonsense", &version, &e), ERR_INVALID);
    FAILS(etcd_downgrade(&ctx, c, ETCD_DOWNGRADE_VALIDATE, "2.0", &version, &e), ERR_INVALID);
    CHECK(etcd_error_is(&e, ETCD_DOWNGRADE_TARGET));
    struct etcd_status s = {0};
    struct etcd_version v;
    OK(etcd_status(&ctx, c, 0, &s, &e));
    OK(etcd_version_parse(str_c(s.version), &v, &e));
    etcd_status_done(&s);
    char target[16];
    (void)snprintf(target, sizeof(target), "3.%d", v.minor - 1);
    OK(etcd_downgrade(&ctx, c, ETCD_DOWNGRADE_VALIDATE, target, &version, &e));
    CHECK(version && version[0] == '3');
    free(version);
}

/* Down and back again, on 3.6 and later. */
static void downgrade_cycle(void)
{
    char *before = NULL;
    struct etcd_status s = {0};
    struct etcd_version v, target, storage;
    OK(etcd_status(&ctx, c, 0, &s, &e));
    OK(etcd_version_parse(str_c(s.version), &v, &e));
    CHECK(!s.downgrading && s.storage_version[0] == '3');
    etcd_status_done(&s);
    char lower[16];
    (void)snprintf(lower, sizeof(lower), "3.%d.0", v.minor - 1);
    OK(etcd_version_parse(str_c(lower), &target, &e));
    OK(etcd_downgrade(&ctx, c, ETCD_DOWNGRADE_ENABLE, lower, &before, &e));
    CHECK(before && before[0] == '3');
    free(TAKE(before));
    for (bool ready = false; !ready;) {
        OK(etcd_status(&ctx, c, 0, &s, &e));
        ready = s.storage_version[0] != '\0' &&
                etcd_version_parse(str_c(s.storage_version), &storage, &e) == 0 &&
                etcd_downgrade_ready(s.downgrading, target, storage, &e) == 0;
        CHECK(!ready || strcmp(s.downgrade_target, lower) == 0);
        etcd_status_done(&s);
        OK(ctx_sleep(&ctx, 100, &e));
    }
    FAILS(etcd_downgrade(&ctx, c, ETCD_DOWNGRADE_ENABLE, lower, &before, &e), ERR_INVALID);
    OK(etcd_downgrade(&ctx, c, ETCD_DOWNGRADE_CANCEL, NULL, &before, &e));
    free(TAKE(before));
    for (bool back = false; !back;) {
        OK(etcd_status(&ctx, c, 0, &s, &e));
        back = !s.downgrading && etcd_version_parse(str_c(s.storage_version), &storage, &e) == 0 &&
               etcd_version_minors(storage, v) == 0;
        etcd_status_done(&s);
        OK(ctx_sleep(&ctx, 100, &e));
    }
}

/* --- With etcdctl as the other side */

enum { OUR_LEASE = 0x77 };

static void interop_write(void)
{
    int64_t id = 0, ttl_s = 0;
    OK(etcd_lease_grant(&ctx, c, 300, OUR_LEASE, &id, &ttl_s, &e));
    OK(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("ours/leased"), .lease = id}, NULL, &e));
    const struct etcd_compare absent = {.key = STR("ours/1"), .what = ETCD_VERSION, .number = 0};
    const struct etcd_op puts[] = {
        {.type = ETCD_OP_PUT, .put = {.key = STR("ours/1"), .value = STR("one")}},
        {.type = ETCD_OP_PUT, .put = {.key = STR("ours/2"), .value = STR("two")}},
    };
    struct etcd_txn_result r = {0};
    OK(etcd_txn(
        &ctx, c,
        &(struct etcd_txn){.compare = &absent, .n_compare = 1, .success = puts, .n_success = 2}, &r,
        &e));
    CHECK(r.succeeded);
    etcd_txn_result_done(&r);
    struct etcd_status s = {0};
    OK(etcd_status(&ctx, c, 0, &s, &e));
    OK(etcd_alarm_set(&ctx, c, (struct etcd_alarm){s.header.member_id, ETCD_ALARM_NOSPACE}, true,
                      &e));
    etcd_status_done(&s);
}

/* What etcdctl made of it: `etcd_suite interop-read LEASE`. */
static void interop_read(void)
{
    struct etcd_alarms alarms = {0};
    OK(etcd_alarm_list(&ctx, c, ETCD_ANY, &alarms, &e));
    CHECK(alarms.n == 0);
    etcd_alarms_done(&alarms);
    struct etcd_lease lease = {0};
    FAILS(etcd_lease_info(&ctx, c, OUR_LEASE, false, &lease, &e), ERR_NOT_FOUND);
    OK(etcd_lease_info(&ctx, c, strtoll(args.words[1], NULL, 16), true, &lease, &e));
    CHECK(lease.granted_s == 200 && lease.n_keys == 1);
    CHECK(str_eq(lease.keys[0], STR("theirs/leased")));
    etcd_lease_done(&lease);
    struct etcd_kvs kvs = {0};
    OK(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("theirs/1"), .end = STR("theirs/3")}, &kvs,
                &e));
    CHECK(kvs.n == 2 && kvs.v[0].mod_revision == kvs.v[1].mod_revision);
    CHECK(str_eq(kvs.v[0].value, STR("one")) && str_eq(kvs.v[1].value, STR("two")));
    etcd_kvs_done(&kvs);
}

/* --- Auth */

static void users_and_roles(void)
{
    OK(etcd_role_add(&ctx, c, "reader", &e));
    FAILS(etcd_role_add(&ctx, c, "reader", &e), ERR_EXISTS);
    const struct etcd_permission perm = {ETCD_READ, STR("r/"), STR("r0")};
    OK(etcd_role_grant(&ctx, c, "reader", &perm, &e));
    struct etcd_permissions perms = {0};
    OK(etcd_role_permissions(&ctx, c, "reader", &perms, &e));
    CHECK(perms.n == 1 && perms.v[0].type == ETCD_READ && str_eq(perms.v[0].end, STR("r0")));
    etcd_permissions_done(&perms);
    OK(etcd_user_add(&ctx, c, "limited", "pass word", &e));
    FAILS(etcd_user_add(&ctx, c, "limited", "x", &e), ERR_EXISTS);
    FAILS(etcd_user_add(&ctx, c, "", "x", &e), ERR_INVALID);
    OK(etcd_user_add(&ctx, c, "by certificate", NULL, &e));
    OK(etcd_user_set_password(&ctx, c, "limited", "limited", &e));
    OK(etcd_user_grant(&ctx, c, "limited", "reader", &e));
    FAILS(etcd_user_grant(&ctx, c, "limited", "no such role", &e), ERR_NOT_FOUND);
    struct etcd_names names = {0};
    OK(etcd_user_roles(&ctx, c, "limited", &names, &e));
    CHECK(names.n == 1 && strcmp(names.v[0], "reader") == 0);
    etcd_names_done(&names);
    OK(etcd_user_list(&ctx, c, &names, &e));
    CHECK(names.n >= 2);
    etcd_names_done(&names);
    OK(etcd_role_list(&ctx, c, &names, &e));
    CHECK(names.n >= 1);
    etcd_names_done(&names);
    OK(etcd_user_revoke(&ctx, c, "limited", "reader", &e));
    FAILS(etcd_user_revoke(&ctx, c, "limited", "reader", &e), ERR_NOT_FOUND);
    OK(etcd_role_revoke(&ctx, c, "reader", STR("r/"), STR("r0"), &e));
    FAILS(etcd_role_revoke(&ctx, c, "reader", STR("r/"), STR("r0"), &e), ERR_NOT_FOUND);
    OK(etcd_user_delete(&ctx, c, "limited", &e));
    OK(etcd_user_delete(&ctx, c, "by certificate", &e));
    FAILS(etcd_user_delete(&ctx, c, "limited", &e), ERR_NOT_FOUND);
    OK(etcd_role_delete(&ctx, c, "reader", &e));
    FAILS(etcd_role_delete(&ctx, c, "reader", &e), ERR_NOT_FOUND);
    bool on = false;
    OK(etcd_auth_status(&ctx, c, &on, &e));
    CHECK(on == (args.user != NULL));
}

/* --- Watch */

static void expect(struct etcd_watcher *w, struct etcd_watch_batch *b, int64_t watch, int kind)
{
    do
        OK(etcd_watcher_next(&ctx, w, b, &e));
    while ((int)b->kind == ETCD_WATCH_CREATED && kind != ETCD_WATCH_CREATED);
    CHECK(b->watch == watch && (int)b->kind == kind);
}

static void watches(void)
{
    struct etcd_watch_batch b;
    put("w/old", "1");
    const int64_t start = revision_now();
    struct etcd_watcher *w = etcd_watcher_new(c);
    FAILS(etcd_watcher_next(&ctx, w, &b, &e), ERR_NOT_FOUND);
    const int64_t all = etcd_watch_add(
        w, &(struct etcd_watch){.key = STR("w/"), .end = STR("w0"), .start_revision = start});
    expect(w, &b, all, ETCD_WATCH_CREATED);
    expect(w, &b, all, ETCD_WATCH_EVENTS);
    CHECK(b.n == 1 && b.v[0].type == ETCD_PUT && str_eq(b.v[0].kv.key, STR("w/old")));
    const int64_t one = etcd_watch_add(
        w, &(struct etcd_watch){.key = STR("w/one"), .prev_kv = true, .no_put = true});
    expect(w, &b, one, ETCD_WATCH_CREATED);
    put("w/one", "first"); /* the same stream, driven by another call */
    OK(etcd_delete(&ctx, c, &(struct etcd_delete){.key = STR("w/one")}, NULL, &e));
    bool seen_put = false, seen_delete = false, seen_one = false;
    while (!seen_delete || !seen_one) {
        OK(etcd_watcher_next(&ctx, w, &b, &e));
        for (size_t i = 0; i < b.n; i++) {
            seen_put |= b.watch == all && b.v[i].type == ETCD_PUT;
            seen_delete |= b.watch == all && b.v[i].type == ETCD_DELETE;
            if (b.watch != one)
                continue;
            CHECK(b.v[i].type == ETCD_DELETE && b.v[i].has_prev);
            CHECK(str_eq(b.v[i].prev.value, STR("first")));
            seen_one = true;
        }
    }
    CHECK(seen_put);
    etcd_watch_ask_progress(w);
    expect(w, &b, -1, ETCD_WATCH_PROGRESS);
    CHECK(b.revision >= start);
    etcd_watch_cancel(w, one);
    const struct ctx brief = ctx_with_timeout(&ctx, 100);
    FAILS(etcd_watcher_next(&brief, w, &b, &e), ERR_TIMEOUT);
    put("w/after", "1"); /* a timeout of the reader costs nothing */
    expect(w, &b, all, ETCD_WATCH_EVENTS);
    CHECK(b.n == 1 && str_eq(b.v[0].kv.key, STR("w/after")));

    put("w/after", "2");
    OK(etcd_compact(&ctx, c, revision_now(), true, &e));
    const int64_t late = etcd_watch_add(
        w, &(struct etcd_watch){.key = STR("w/"), .end = STR("w0"), .start_revision = start});
    int expired = 0;
    for (int i = 0; i < 3 && expired == 0; i++) {
        if (etcd_watcher_next(&ctx, w, &b, &e) == 0)
            continue;
        CHECK(e.code == ERR_EXPIRED && b.watch == late && b.compact_revision > start);
        expired++;
    }
    CHECK(expired == 1);
    put("w/after", "3"); /* the other watch goes on */
    do
        expect(w, &b, all, ETCD_WATCH_EVENTS);
    while (!str_eq(b.v[b.n - 1].kv.value, STR("3")));
    etcd_watcher_free(w);
}

/* A watch that is too large to be sent ends, and the others go on. */
static void watch_too_large(void)
{
    enum { BYTES = 5 << 20 };
    auto_free char *key = xcalloc(1, BYTES);
    struct etcd_watch_batch b;
    struct etcd_watcher *w = etcd_watcher_new(c);
    const int64_t large = etcd_watch_add(w, &(struct etcd_watch){.key = {key, BYTES}});
    const int64_t small = etcd_watch_add(w, &(struct etcd_watch){.key = STR("small")});
    FAILS(etcd_watcher_next(&ctx, w, &b, &e), ERR_TOO_BIG);
    CHECK(b.watch == large);
    expect(w, &b, small, ETCD_WATCH_CREATED);
    etcd_watcher_free(w);
}

/* What a watch missed comes in fragments of 2 MiB and fits in one window after the other. */
static void fragments(void)
{
    enum { PUTS = 80, BYTES = 100 * 1000 };
    auto_free char *big = xcalloc(1, BYTES);
    const int64_t start = revision_now() + 1;
    for (int i = 0; i < PUTS; i++) {
        memset(big, 'a' + i % 26, BYTES);
        OK(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("f"), .value = {big, BYTES}}, NULL, &e));
    }
    struct etcd_watcher *w = etcd_watcher_new(c);
    (void)etcd_watch_add(w, &(struct etcd_watch){.key = STR("f"), .start_revision = start});
    int64_t seen = 0, batches = 0;
    while (seen < PUTS) {
        struct etcd_watch_batch b;
        OK(etcd_watcher_next(&ctx, w, &b, &e));
        for (size_t i = 0; i < b.n; i++)
            CHECK(b.v[i].kv.mod_revision == start + seen++ && b.v[i].kv.value.n == BYTES);
        batches += b.n > 0 ? 1 : 0;
    }
    CHECK(batches > 1);
    etcd_watcher_free(w);
    OK(etcd_delete(&ctx, c, &(struct etcd_delete){.key = STR("f")}, NULL, &e));
}

/* --- Probe */

static void probes(void)
{
    const size_t n = args.n_endpoints;
    struct etcd_probe_target targets[8] = {0};
    struct etcd_probe_answer answers[8] = {0};
    struct etcd_witness witnesses[8] = {0};
    struct etcd_login login = {.user = args.user, .password = buf_cstr(&args.password)};
    CHECK(n < 8);
    for (size_t i = 0; i <= n; i++)
        targets[i] = (struct etcd_probe_target){
            .endpoint = i < n ? args.endpoints[i] : (struct etcd_endpoint){"127.0.0.1:1", NULL},
            .tls = args.tls,
            .login = &login,
            .ask = ETCD_ASK_ALARMS | ETCD_ASK_MEMBERS | ETCD_ASK_READ,
            .timeout_ms = 5000,
        };
    for (int round = 0; round < 2; round++) { /* the second with a token that is no longer good */
        if (round == 1 && login.token)
            memset(login.token, 'x', strlen(login.token));
        OK(etcd_probe(&ctx, targets, n + 1, answers, &e));
        size_t voters = 0;
        for (size_t i = 0; i < n; i++) {
            const struct etcd_probe_answer *a = &answers[i];
            if (a->outcome != ETCD_PROBE_ANSWERED)
                (void)fprintf(stderr, "%s\n", a->err.text);
            CHECK(a->outcome == ETCD_PROBE_ANSWERED);
            CHECK(a->read.known == ETCD_FACT_YES && a->has_alarms.known == ETCD_FACT_YES);
            CHECK(a->has_members.known == ETCD_FACT_YES && a->members.n >= n);
            voters = a->members.n;
            witnesses[i] = (struct etcd_witness){true,
                                                 a->status.header.member_id,
                                                 a->status.leader,
                                                 a->status.raft_term,
                                                 a->status.raft_index,
                                                 a->status.raft_applied,
                                                 a->status.header.revision,
                                                 a->status.learner,
                                                 true};
        }
        CHECK(answers[n].outcome == ETCD_PROBE_REFUSED);
        const struct etcd_verdict v = etcd_judge(witnesses, n, voters);
        CHECK(v.quorum && v.leader != 0 && v.healthy == n);
        for (size_t i = 0; i <= n; i++)
            etcd_probe_answer_done(&answers[i]);
    }
    etcd_login_done(&login);
}

/* --- With and without rights */

static void setup_auth(void)
{
    OK(etcd_user_add(&ctx, c, "root", "root-password", &e));
    OK(etcd_role_add(&ctx, c, "root", &e));
    OK(etcd_user_grant(&ctx, c, "root", "root", &e));
    OK(etcd_user_add(&ctx, c, "mallory", "mallory-password", &e));
    OK(etcd_role_add(&ctx, c, "few", &e));
    const struct etcd_permission perm = {ETCD_READWRITE, STR("few/"), STR("few0")};
    OK(etcd_role_grant(&ctx, c, "few", &perm, &e));
    OK(etcd_user_grant(&ctx, c, "mallory", "few", &e));
    OK(etcd_auth_enable(&ctx, c, &e));
}

static void limited(void)
{
    struct etcd_kvs kvs = {0};
    put("few/1", "mine");
    OK(etcd_get(&ctx, c, &(struct etcd_range){.key = STR("few/1")}, &kvs, &e));
    etcd_kvs_done(&kvs);
    FAILS(etcd_put(&ctx, c, &(struct etcd_put){.key = STR("other")}, NULL, &e), ERR_DENIED);
    CHECK(etcd_error_is(&e, ETCD_PERMISSION_DENIED));
    uint64_t id = 0, bytes = 0;
    struct etcd_snapshot snapshot;
    FAILS(etcd_member_add(&ctx, c, "http://127.0.0.1:1", true, &id, NULL, &e), ERR_DENIED);
    FAILS(etcd_defragment(&ctx, c, 0, &e), ERR_DENIED);
    FAILS(etcd_snapshot(&ctx, c, 0, count_bytes, &bytes, &snapshot, &e), ERR_DENIED);
    FAILS(etcd_auth_disable(&ctx, c, &e), ERR_DENIED);
    struct etcd_watch_batch b;
    struct etcd_watcher *w = etcd_watcher_new(c);
    const int64_t watch = etcd_watch_add(w, &(struct etcd_watch){.key = STR("other")});
    FAILS(etcd_watcher_next(&ctx, w, &b, &e), ERR_DENIED);
    CHECK(b.watch == watch);
    etcd_watcher_free(w);
}

static const struct {
    const char *name;
    void (*run)(void);
    bool in_all;
} steps[] = {
    {"setup-auth", setup_auth, false},
    {"limited", limited, false},
    {"downgrade-cycle", downgrade_cycle, false},
    {"interop-write", interop_write, false},
    {"interop-read", interop_read, false},
    {"keys and values", keys_and_values, true},
    {"pages", pages, true},
    {"transactions", transactions, true},
    {"sizes", sizes, true},
    {"compaction", compaction, true},
    {"leases", leases, true},
    {"statuses", statuses, true},
    {"alarms", alarms, true},
    {"leadership", leadership, true},
    {"downgrades", downgrades, true},
    {"users and roles", users_and_roles, true},
    {"watches", watches, true},
    {"fragments", fragments, true},
    {"watch too large", watch_too_large, true},
    {"upkeep", upkeep, true},
    {"membership", membership, true},
    {"probes", probes, true},
};

int main(int argc, char **argv)
{
    etcd_args_init(&args, argc, (const char *const *)argv);
    c = etcd_args_client(&args);
    const char *want = args.n_words > 0 ? args.words[0] : "all";
    int ran = 0;
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        if (strcmp(want, "all") == 0 ? !steps[i].in_all : strcmp(want, steps[i].name) != 0)
            continue;
        ctx = ctx_with_timeout(&args.root, args.timeout_ms * 3);
        (void)fprintf(stderr, "%s\n", steps[i].name);
        steps[i].run();
        ran++;
    }
    etcd_client_free(c);
    etcd_args_done(&args);
    return ran > 0 ? 0 : 2;
}
