/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/buckets.h"

#include "base/json.h"
#include "image.h"
#include "unit.h"

static void what_etcd_writes_is_told_from_what_is_odd_and_what_is_damage(void **state)
{
    (void)state;
    static const struct {
        enum bucket bucket;
        struct str key, value;
        enum err_code want;
    } rows[] = {
        {BUCKET_META, BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\0\3"), ERR_NONE},
        {BUCKET_META, BYTES("consistent_index"), BYTES("\0\0\3"), ERR_CORRUPT},
        {BUCKET_META, BYTES("consistent_indey"), BYTES("\0\0\0\0\0\0\0\3"), ERR_INVALID},
        {BUCKET_META, BYTES("storageVersion"), BYTES("3.6.0"), ERR_NONE},
        {BUCKET_META, BYTES("storageVersion"), BYTES("3.6"), ERR_CORRUPT},
        {BUCKET_META, BYTES("confState"),
         BYTES("{\"voters\":[16572835460022140086],\"auto_leave\":false}"), ERR_NONE},
        {BUCKET_META, BYTES("confState"), BYTES("{\"voters\":[1657]"), ERR_CORRUPT},
        {BUCKET_META, BYTES("finishedCompactRev"), BYTES("\0\0\0\0\0\0\0\3_\0\0\0\0\0\0\0\0"),
         ERR_NONE},
        {BUCKET_META, BYTES("finishedCompactRev"), BYTES("\0\0\0\0\0\0\0\3x\0\0\0\0\0\0\0\0"),
         ERR_CORRUPT},
        {BUCKET_LEASE, BYTES("\0\0\0\0\0\0\3\x09"), BYTES("\x08\x89\6\x10\xa0\x38"), ERR_NONE},
        {BUCKET_LEASE, BYTES("\0\0\0\0\0\0\3\x08"), BYTES("\x08\x89\6\x10\xa0\x38"), ERR_CORRUPT},
        {BUCKET_LEASE, BYTES("\3\x09"), BYTES("\x08\x89\6\x10\xa0\x38"), ERR_CORRUPT},
        {BUCKET_ALARM, BYTES("\x08\xbd\x9c\xfd\xc3\xc2\xb3\xd6\x95\x37\x10\1"), {0}, ERR_NONE},
        {BUCKET_ALARM, BYTES("\x08\xbd\x9c\xfd\xc3\xc2\xb3\xd6\x95\x37\x10\x09"), {0}, ERR_INVALID},
        {BUCKET_ALARM, BYTES("\x08\1\x12\1x"), {0}, ERR_CORRUPT},
        {BUCKET_MEMBERS, BYTES("346f0b0468448c0"),
         BYTES("{\"id\":236140670371514560,\"peerURLs\":[\"http://127.0.0.1:27803\"]}"), ERR_NONE},
        {BUCKET_MEMBERS, BYTES("346f0b0468448c1"),
         BYTES("{\"id\":236140670371514560,\"peerURLs\":[\"http://127.0.0.1:27803\"]}"),
         ERR_CORRUPT},
        {BUCKET_MEMBERS, BYTES("e3286700c3ec3966"),
         BYTES("{\"id\":16368446098662766950,\"peerURLs\":null}"), ERR_NONE},
        {BUCKET_MEMBERS, BYTES("x"), BYTES("{\"id\":1,\"peerURLs\":null}"), ERR_CORRUPT},
        {BUCKET_MEMBERS_REMOVED, BYTES("abc"), BYTES("removed"), ERR_NONE},
        {BUCKET_MEMBERS_REMOVED, BYTES("0abc"), BYTES("removed"), ERR_CORRUPT},
        {BUCKET_AUTH, BYTES("authEnabled"), BYTES("\1"), ERR_NONE},
        {BUCKET_AUTH, BYTES("authEnabled"), BYTES("\7"), ERR_CORRUPT},
        {BUCKET_AUTH_ROLES, BYTES("r1"), BYTES("\x0a\2r1\x12\3\x12\1a\x12\x08\x08\2\x12\1k\x1a\1l"),
         ERR_NONE},
        {BUCKET_AUTH_ROLES, BYTES("r2"), BYTES("\x0a\2r1"), ERR_CORRUPT},
        {BUCKET_AUTH_USERS, BYTES("cert"), BYTES("\x0a\4cert\x22\2\x08\1"), ERR_NONE},
        {BUCKET_AUTH, BYTES("authNew"), BYTES("\1"), ERR_INVALID},
        {BUCKET_LEASE, BYTES("\0\0\0\0\0\0\3\x09"), BYTES("\x08\x89\6\x10\xa0\x38\x20\1"),
         ERR_INVALID},
        {BUCKET_CLUSTER, BYTES("new"), BYTES("3.5.0"), ERR_INVALID},
        {BUCKET_CLUSTER, BYTES("clusterVersion"), BYTES("3.5.0"), ERR_NONE},
        {BUCKET_CLUSTER, BYTES("clusterVersion"), BYTES("banana"), ERR_CORRUPT},
        {BUCKET_CLUSTER, BYTES("downgrade"),
         BYTES("{\"target-version\":\"3.5.0\",\"enabled\":true}"), ERR_NONE},
        {BUCKET_UNKNOWN, BYTES("any"), BYTES("thing"), ERR_NONE},
    };
    json_setup();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        const int rc = bucket_entry_check(rows[i].bucket, rows[i].key, rows[i].value, &e);
        if ((rc == 0) != (rows[i].want == ERR_NONE) || (rc < 0 && e.code != rows[i].want))
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

TEST_MAIN(TEST(what_etcd_writes_is_told_from_what_is_odd_and_what_is_damage),
          TEST(the_stores_revision_is_raised_by_compaction))
