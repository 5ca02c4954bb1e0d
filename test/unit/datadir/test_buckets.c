/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/buckets.h"

#include "base/json.h"
#include "image.h"
#include "unit.h"

static void what_etcd_writes_is_accepted_and_damage_is_not(void **state)
{
    (void)state;
    static const struct {
        enum bucket bucket;
        struct str key, value;
        bool good;
    } rows[] = {
        {BUCKET_META, BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\0\3"), true},
        {BUCKET_META, BYTES("consistent_index"), BYTES("\0\0\3"), false},
        {BUCKET_META, BYTES("consistent_indey"), BYTES("\0\0\0\0\0\0\0\3"), false},
        {BUCKET_META, BYTES("storageVersion"), BYTES("3.6.0"), true},
        {BUCKET_META, BYTES("storageVersion"), BYTES("3.6"), false},
        {BUCKET_META, BYTES("confState"),
         BYTES("{\"voters\":[16572835460022140086],\"auto_leave\":false}"), true},
        {BUCKET_META, BYTES("confState"), BYTES("{\"voters\":[1657]"), false},
        {BUCKET_META, BYTES("finishedCompactRev"), BYTES("\0\0\0\0\0\0\0\3_\0\0\0\0\0\0\0\0"),
         true},
        {BUCKET_META, BYTES("finishedCompactRev"), BYTES("\0\0\0\0\0\0\0\3x\0\0\0\0\0\0\0\0"),
         false},
        {BUCKET_LEASE, BYTES("\0\0\0\0\0\0\3\x09"), BYTES("\x08\x89\6\x10\xa0\x38"), true},
        {BUCKET_LEASE, BYTES("\0\0\0\0\0\0\3\x08"), BYTES("\x08\x89\6\x10\xa0\x38"), false},
        {BUCKET_LEASE, BYTES("\3\x09"), BYTES("\x08\x89\6\x10\xa0\x38"), false},
        {BUCKET_ALARM, BYTES("\x08\xbd\x9c\xfd\xc3\xc2\xb3\xd6\x95\x37\x10\1"), {0}, true},
        {BUCKET_ALARM, BYTES("\x08\xbd\x9c\xfd\xc3\xc2\xb3\xd6\x95\x37\x10\x09"), {0}, false},
        {BUCKET_MEMBERS, BYTES("346f0b0468448c0"),
         BYTES("{\"id\":236140670371514560,\"peerURLs\":[\"http://127.0.0.1:27803\"]}"), true},
        {BUCKET_MEMBERS, BYTES("346f0b0468448c1"),
         BYTES("{\"id\":236140670371514560,\"peerURLs\":[\"http://127.0.0.1:27803\"]}"), false},
        {BUCKET_MEMBERS, BYTES("e3286700c3ec3966"),
         BYTES("{\"id\":16368446098662766950,\"peerURLs\":null}"), true},
        {BUCKET_MEMBERS, BYTES("x"), BYTES("{\"id\":1,\"peerURLs\":null}"), false},
        {BUCKET_MEMBERS_REMOVED, BYTES("abc"), BYTES("removed"), true},
        {BUCKET_MEMBERS_REMOVED, BYTES("0abc"), BYTES("removed"), false},
        {BUCKET_AUTH, BYTES("authEnabled"), BYTES("\1"), true},
        {BUCKET_AUTH, BYTES("authEnabled"), BYTES("\7"), false},
        {BUCKET_AUTH_ROLES, BYTES("r1"), BYTES("\x0a\2r1\x12\3\x12\1a\x12\x08\x08\2\x12\1k\x1a\1l"),
         true},
        {BUCKET_AUTH_ROLES, BYTES("r2"), BYTES("\x0a\2r1"), false},
        {BUCKET_AUTH_USERS, BYTES("cert"), BYTES("\x0a\4cert\x22\2\x08\1"), true},
        {BUCKET_CLUSTER, BYTES("clusterVersion"), BYTES("3.5.0"), true},
        {BUCKET_CLUSTER, BYTES("clusterVersion"), BYTES("banana"), false},
        {BUCKET_CLUSTER, BYTES("downgrade"),
         BYTES("{\"target-version\":\"3.5.0\",\"enabled\":true}"), true},
        {BUCKET_UNKNOWN, BYTES("any"), BYTES("thing"), true},
    };
    json_setup();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        const int rc = bucket_entry_check(rows[i].bucket, rows[i].key, rows[i].value, &e);
        if ((rc == 0) != rows[i].good)
            fail_msg("row %zu: %s", i, e.text);
    }
}

static void the_stores_revision_is_raised_by_compaction(void **state)
{
    (void)state;
    static const struct {
        int64_t last, scheduled, finished, want, compact;
    } rows[] = {
        {0, -1, -1, 1, -1}, {7, -1, -1, 7, -1}, {7, 5, 5, 7, 5}, {7, 9, 5, 9, 9}, {7, 5, 9, 9, 9},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct db_meta m = {.scheduled_compact = rows[i].scheduled,
                                  .finished_compact = rows[i].finished};
        assert_int_equal(db_current_revision(&m, rows[i].last), rows[i].want);
        assert_int_equal(db_compact_revision(&m), rows[i].compact);
    }
}

TEST_MAIN(TEST(what_etcd_writes_is_accepted_and_damage_is_not),
          TEST(the_stores_revision_is_raised_by_compaction))
