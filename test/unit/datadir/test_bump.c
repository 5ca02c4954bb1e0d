/* SPDX-License-Identifier: Apache-2.0
 * From where a restore raises the revision. That etcdutl does the same is shown by
 * test/integration/test_snapshot_bump.py. */
#include <stdio.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "datadir/inspect.h"
#include "datadir/membership.h"
#include "datadir/restore.h"
#include "image.h"
#include "scratch.h"
#include "unit.h"

#define REV(main) "\0\0\0\0\0\0\0" main "_\0\0\0\0\0\0\0\0"
#define KV(main) "\x0a\1k\x10" main "\x18" main "\x20\1"

static const struct {
    const char *name;
    const char *last; /* one entry of this revision; NULL: none */
    bool compacted;   /* up to revision 9 */
    int64_t bump;
    int64_t revision, next; /* next 0: refused */
} rows[] = {
    {"an empty store", NULL, false, 100, 1, 100},
    {"by nothing", NULL, false, 0, 1, 1},
    {"a store with entries", "\7", false, 100, 7, 107},
    {"entries past the compaction", "\x0b", true, 100, 11, 111},
    {"a store that is compacted to nothing", NULL, true, 100, 9, 100},
    {"to where it is compacted", NULL, true, 9, 9, 9},
    {"not even to where it is compacted", NULL, true, 8, 9, 0},
    {"past the largest revision", "\7", false, INT64_MAX, 7, 0},
};

static void write_database(const char *path, size_t row)
{
    struct err e = {0};
    const bool eleven = rows[row].last && *rows[row].last == '\x0b';
    const struct str revision = eleven ? BYTES(REV("\x0b")) : BYTES(REV("\7"));
    const struct str entry = eleven ? BYTES(KV("\x0b")) : BYTES(KV("\7"));
    struct image_item items[] = {
        {"alarm", {0}, {0}},
        {"cluster", {0}, {0}},
        {"key", rows[row].last ? revision : (struct str){0}, entry},
        {"lease", {0}, {0}},
        {"members", BYTES("abc"), BYTES("{\"id\":2748,\"name\":\"o\"}")},
        {"members_removed", {0}, {0}},
        {"meta", BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\1\0")},
        {"meta", BYTES("finishedCompactRev"), BYTES(REV("\x09"))},
        {"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\x09")},
    };
    if (!rows[row].compacted)
        items[7].key = (struct str){0};
    auto_buf struct buf image = image_of(items, COUNT_OF(items), 4096);
    assert_ok(file_write_durable(path, buf_str(&image), 0600, &e));
}

static void a_bump_counts_from_the_last_entry_and_never_goes_back(void **state)
{
    (void)state;
    struct err e = {0};
    const struct ctx ctx = ctx_root(&clock_real, NULL);
    AUTO(membership_done) struct membership members = {0};
    assert_ok(membership_parse("n", "n=http://h:1", "t", "http://h:1", &members, &e));
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_free char *path = xasprintf("%s/%zu.db", scratch_dir, i),
                       *data = xasprintf("%s/%zu", scratch_dir, i);
        auto_free char *member = xasprintf("%s/member", data);
        const struct restore_options o = {.snapshot = path,
                                          .data_dir = data,
                                          .membership = &members,
                                          .skip_hash_check = true,
                                          .bump_revision = rows[i].bump,
                                          .mark_compacted = rows[i].bump > 0};
        struct restored r = {0};
        write_database(path, i);
        const int rc = restore_run(&ctx, &o, &r, &e);
        if (rows[i].next == 0) {
            if (rc == 0 || e.code != ERR_INVALID || !strstr(e.text, "--bump-revision"))
                fail_msg("%s: %d %s", rows[i].name, rc, e.text);
            continue;
        }
        if (rc < 0 || r.revision != rows[i].revision || r.next_revision != rows[i].next)
            fail_msg("%s: %d %s: %ld to %ld", rows[i].name, rc, e.text, (long)r.revision,
                     (long)r.next_revision);
        AUTO(inspection_done) struct inspection seen = {0};
        assert_ok(inspect_member_dir(&ctx, member, NULL, &seen, &e));
        assert_int_equal(db_current_revision(&seen.db.meta, seen.db.revision), rows[i].next);
    }
}

int main(void)
{
    json_setup();
    const struct CMUnitTest tests[] = {TEST(a_bump_counts_from_the_last_entry_and_never_goes_back)};
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_remove_all);
}
