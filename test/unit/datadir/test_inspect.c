/* SPDX-License-Identifier: Apache-2.0
 * Data directories built file by file: what would stop etcd is named, what it lives with is not. */
#include "datadir/inspect.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "datadir/mvcc.h"
#include "datadir/snapfile.h"
#include "datadir/wire.h"
#include "image.h"
#include "scratch.h"
#include "unit.h"

enum { MEMBERS_MAX = 3, STEPS_MAX = 8, SNAPS_MAX = 2, TERM = 2 };

/* Of the log, behind metadata and the mark at 0. */
struct step {
    enum wal_type type; /* 0: no more */
    uint64_t from, to;  /* entries; of a mark or a state only `from`, its index or commit */
    uint64_t entry_type;
};

enum snap_kind { SNAP_SOUND, SNAP_BAD_CHECKSUM, SNAP_BAD_STORE };
struct snap {
    uint64_t index; /* 0: none */
    uint64_t voters, learners;
    enum snap_kind kind;
};

struct row {
    const char *name;
    struct step log[STEPS_MAX];
    struct snap snaps[SNAPS_MAX];
    uint64_t applied;
    int members;
    uint64_t snap_db;      /* the index of a received database; 0: none */
    const char *downgrade; /* with cluster version 3.5.0; NULL: none */
    bool damaged_log;      /* in its last record */
    const char *says;      /* NULL: no problem */
};

static struct ctx ctx;

static void write_file(const char *name, struct str bytes)
{
    struct err e = {0};
    auto_free char *path = xasprintf("%s/%s", scratch_dir, name);
    assert_ok(file_write_durable(path, bytes, 0600, &e));
}

static void add_numbers(struct buf *out, uint64_t first, uint64_t second)
{
    wire_put_number(out, 1, first);
    wire_put_number(out, 2, second);
}

static void add_step(struct buf *log, uint32_t *crc, const struct step *s)
{
    for (uint64_t i = s->from; i <= (s->type == WAL_ENTRY ? s->to : s->from); i++) {
        auto_buf struct buf data = BUF_INIT(256);
        if (s->type == WAL_ENTRY)
            add_numbers(&data, s->entry_type, TERM);
        else if (s->type == WAL_STATE)
            add_numbers(&data, TERM, 0xabc);
        else
            add_numbers(&data, i, TERM);
        if (s->type != WAL_SNAPSHOT)
            wire_put_number(&data, 3, i);
        wal_add_record(log, crc, s->type, buf_str(&data));
    }
}

static void write_log(const struct row *r)
{
    auto_buf struct buf log = BUF_INIT(1 << 20), metadata = BUF_INIT(64), mark = BUF_INIT(64);
    uint32_t crc = 0;
    add_numbers(&metadata, 0xabc, 0x123);
    add_numbers(&mark, 0, 0);
    wal_add_record(&log, &crc, WAL_CRC, (struct str){0});
    wal_add_record(&log, &crc, WAL_METADATA, buf_str(&metadata));
    wal_add_record(&log, &crc, WAL_SNAPSHOT, buf_str(&mark));
    for (size_t i = 0; i < STEPS_MAX && r->log[i].type != 0; i++)
        add_step(&log, &crc, &r->log[i]);
    if (r->damaged_log)
        log.p[log.n - 9] ^= 1;
    write_file("wal/0000000000000000-0000000000000000.wal", buf_str(&log));
}

static void snap_path(uint64_t index, char out[64])
{
    char name[SNAPFILE_NAME_BYTES];
    snapfile_name((struct raft_snapshot_point){.index = index, .term = TERM}, name);
    (void)snprintf(out, 64, "snap/%s", name);
}

static void write_snap(const struct snap *s)
{
    auto_buf struct buf conf = BUF_INIT(256), metadata = BUF_INIT(256), snapshot = BUF_INIT(1024),
                        file = BUF_INIT(2048);
    for (uint64_t i = 0; i < s->voters + s->learners; i++)
        wire_put_number(&conf, i < s->voters ? 1 : 2, 0xabc + i);
    wire_put_bytes(&metadata, 1, buf_str(&conf));
    wire_put_number(&metadata, 2, s->index);
    wire_put_number(&metadata, 3, TERM);
    wire_put_bytes(&snapshot, 1, s->kind == SNAP_BAD_STORE ? STR("{") : STR("{\"Root\":{}}"));
    wire_put_bytes(&snapshot, 2, buf_str(&metadata));
    wire_put_number(&file, 1,
                    crc32c(0, snapshot.p, snapshot.n) + (s->kind == SNAP_BAD_CHECKSUM ? 1 : 0));
    wire_put_bytes(&file, 2, buf_str(&snapshot));
    char path[64];
    snap_path(s->index, path);
    write_file(path, buf_str(&file));
}

static void write_db(const struct row *r)
{
    static const char *const ids[MEMBERS_MAX] = {"abc", "abd", "abe"};
    static const char *const json[MEMBERS_MAX] = {"{\"id\":2748,\"name\":\"a\"}",
                                                  "{\"id\":2749,\"name\":\"b\"}",
                                                  "{\"id\":2750,\"name\":\"c\"}"};
    struct image_item items[MEMBERS_MAX + 6];
    uint8_t revision[MVCC_PUT_KEY_BYTES];
    const char applied[8] = {0, 0, 0, 0, 0, 0, (char)(r->applied >> 8), (char)r->applied};
    size_t n = 0;
    mvcc_revision_encode(2, revision);
    if (r->downgrade) {
        items[n++] = (struct image_item){"cluster", BYTES("clusterVersion"), BYTES("3.5.0")};
        items[n++] = (struct image_item){"cluster", BYTES("downgrade"), str_c(r->downgrade)};
    }
    items[n++] = (struct image_item){
        "key", {(const char *)revision, sizeof(revision)}, BYTES("\x0a\1a\x10\2\x18\2\x20\1")};
    if (r->members == 0)
        items[n++] = (struct image_item){"members", {0}, {0}};
    for (int i = 0; i < r->members; i++)
        items[n++] = (struct image_item){"members", str_c(ids[i]), str_c(json[i])};
    items[n++] = (struct image_item){"meta", BYTES("consistent_index"), {applied, sizeof(applied)}};
    items[n++] = (struct image_item){"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\2")};
    auto_buf struct buf image = image_of(items, n, 4096);
    write_file("snap/db", buf_str(&image));
}

static void remove_files(const struct row *r)
{
    char path[64];
    auto_free char *received = xasprintf("%s/snap/%016" PRIx64 ".snap.db", scratch_dir, r->snap_db);
    (void)unlink(received);
    for (size_t i = 0; i < SNAPS_MAX; i++) {
        snap_path(r->snaps[i].index, path);
        auto_free char *snap = xasprintf("%s/%s", scratch_dir, path);
        (void)unlink(snap);
    }
}

static void build(const struct row *r)
{
    write_log(r);
    write_db(r);
    for (size_t i = 0; i < SNAPS_MAX && r->snaps[i].index > 0; i++)
        write_snap(&r->snaps[i]);
    if (r->snap_db > 0) {
        char name[64];
        (void)snprintf(name, sizeof(name), "snap/%016" PRIx64 ".snap.db", r->snap_db);
        write_file(name, STR("a database"));
    }
}

#define ENTRIES(from, to)                                                                          \
    {                                                                                              \
        WAL_ENTRY, from, to, 0                                                                     \
    }
#define CHANGE(index)                                                                              \
    {                                                                                              \
        WAL_ENTRY, index, index, RAFT_CONF_CHANGE                                                  \
    }
#define COMMIT(index)                                                                              \
    {                                                                                              \
        WAL_STATE, index, 0, 0                                                                     \
    }
#define MARK(index)                                                                                \
    {                                                                                              \
        WAL_SNAPSHOT, index, 0, 0                                                                  \
    }
#define SNAP(index)                                                                                \
    {                                                                                              \
        {                                                                                          \
            index, 1, 0, SNAP_SOUND                                                                \
        }                                                                                          \
    }

static const struct row rows[] = {
    {.name = "a young member", .log = {ENTRIES(1, 9), COMMIT(9)}, .applied = 9, .members = 1},
    {.name = "with a snapshot",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(5)},
     .snaps = SNAP(5),
     .applied = 9,
     .members = 1},
    {.name = "a follower that received a database",
     .log = {ENTRIES(1, 5), COMMIT(5), MARK(500), ENTRIES(501, 510), COMMIT(510)},
     .snaps = SNAP(500),
     .applied = 510,
     .members = 1},
    {.name = "one that received it and nothing else",
     .log = {ENTRIES(1, 5), MARK(500), COMMIT(500)},
     .snaps = SNAP(500),
     .applied = 500,
     .members = 1},
    {.name = "a mark that was not committed",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(20)},
     .snaps = {{5, 1, 0, SNAP_SOUND}, {20, 1, 0, SNAP_SOUND}},
     .applied = 9,
     .members = 1},
    {.name = "a database that waits to be installed",
     .log = {ENTRIES(1, 5), MARK(500), COMMIT(500)},
     .snaps = SNAP(500),
     .applied = 5,
     .members = 1,
     .snap_db = 500},
    {.name = "none",
     .log = {ENTRIES(1, 5), MARK(500), COMMIT(500)},
     .snaps = SNAP(500),
     .applied = 5,
     .members = 1,
     .says = "consistent index 5 is behind the raft snapshot at 500"},
    {.name = "one of another index",
     .log = {ENTRIES(1, 5), MARK(500), COMMIT(500)},
     .snaps = SNAP(500),
     .applied = 5,
     .members = 1,
     .snap_db = 400,
     .says = "01f4.snap.db and stops"},
    {.name = "an applied index past the end",
     .log = {ENTRIES(1, 9), COMMIT(9)},
     .applied = 10,
     .members = 1,
     .says = "consistent index 10 is past the log's end at 9"},
    {.name = "a commit past the end",
     .log = {ENTRIES(1, 9), COMMIT(12)},
     .applied = 9,
     .members = 1,
     .says = "commit 12 is past the log's end at 9"},
    {.name = "a log whose beginning is gone",
     .log = {ENTRIES(7, 9), COMMIT(9)},
     .applied = 9,
     .members = 1,
     .says = "entries begin at 7"},
    {.name = "no members",
     .log = {ENTRIES(1, 9), COMMIT(9)},
     .applied = 9,
     .says = "snap/db: no members"},
    {.name = "a member too many",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(5)},
     .snaps = SNAP(5),
     .applied = 9,
     .members = 2,
     .says = "2 members, but 1 in the raft snapshot"},
    {.name = "a learner is a member",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(5)},
     .snaps = {{5, 1, 1, SNAP_SOUND}},
     .applied = 9,
     .members = 2},
    {.name = "a member that joined after the snapshot",
     .log = {ENTRIES(1, 6), CHANGE(7), COMMIT(7), MARK(5)},
     .snaps = SNAP(5),
     .applied = 7,
     .members = 2},
    {.name = "a log that cannot be read says nothing about indexes",
     .log = {ENTRIES(1, 3), COMMIT(3)},
     .applied = 9,
     .members = 1,
     .damaged_log = true,
     .says = "checksum"},
    {.name = "a snap file with a wrong checksum beside another",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(5), MARK(7)},
     .snaps = {{5, 1, 0, SNAP_SOUND}, {7, 1, 0, SNAP_BAD_CHECKSUM}},
     .applied = 9,
     .members = 1},
    {.name = "and alone",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(7)},
     .snaps = {{7, 1, 0, SNAP_BAD_CHECKSUM}},
     .applied = 9,
     .members = 1,
     .says = "the checksum does not match, and there is no other"},
    {.name = "a snap file whose store is no JSON",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(5), MARK(7)},
     .snaps = {{5, 1, 0, SNAP_SOUND}, {7, 1, 0, SNAP_BAD_STORE}},
     .applied = 9,
     .members = 1,
     .says = "the v2 store in it is not JSON"},
    {.name = "which is not the newest",
     .log = {ENTRIES(1, 9), COMMIT(9), MARK(5), MARK(7)},
     .snaps = {{5, 1, 0, SNAP_BAD_STORE}, {7, 1, 0, SNAP_SOUND}},
     .applied = 9,
     .members = 1},
    {.name = "a downgrade to another version",
     .log = {ENTRIES(1, 9), COMMIT(9)},
     .applied = 9,
     .members = 1,
     .downgrade = "{\"target-version\":\"3.4.0\",\"enabled\":true}",
     .says = "a downgrade to 3.4.0 is enabled"},
    {.name = "a downgrade that is there",
     .log = {ENTRIES(1, 9), COMMIT(9)},
     .applied = 9,
     .members = 1,
     .downgrade = "{\"target-version\":\"3.5.0\",\"enabled\":true}"},
    {.name = "a downgrade that was given up",
     .log = {ENTRIES(1, 9), COMMIT(9)},
     .applied = 9,
     .members = 1,
     .downgrade = "{\"target-version\":\"\",\"enabled\":false}"},
};

static void what_would_stop_etcd_is_named_and_nothing_else(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        AUTO(inspection_done) struct inspection seen = {0};
        build(&rows[i]);
        assert_ok(inspect_member_dir(&ctx, scratch_dir, NULL, &seen, &e));
        remove_files(&rows[i]);
        const char *first = seen.problems.n > 0 ? seen.problems.v[0] : "no problem";
        if (seen.problems.n != (rows[i].says ? 1 : 0) ||
            (rows[i].says && !strstr(first, rows[i].says)))
            fail_msg("%s: %zu problems, \"%s\"", rows[i].name, seen.problems.n, first);
    }
}

static int set_up(void **state)
{
    json_setup();
    ctx = ctx_root(&clock_real, NULL);
    if (scratch_set_up(state) < 0)
        return -1;
    auto_free char *wal = xasprintf("%s/wal", scratch_dir),
                   *snap = xasprintf("%s/snap", scratch_dir);
    return mkdir(wal, 0700) == 0 && mkdir(snap, 0700) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    static const char *const names[] = {"wal/0000000000000000-0000000000000000.wal", "snap/db",
                                        "wal", "snap"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        auto_free char *path = xasprintf("%s/%s", scratch_dir, names[i]);
        (void)remove(path);
    }
    return scratch_tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {TEST(what_would_stop_etcd_is_named_and_nothing_else)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
