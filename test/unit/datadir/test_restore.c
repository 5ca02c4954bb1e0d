/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/restore.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "datadir/defrag.h"
#include "datadir/hashkv.h"
#include "datadir/inspect.h"
#include "datadir/membership.h"
#include "datadir/mvcc.h"
#include "datadir/wire.h"
#include "image.h"
#include "scratch.h"
#include "unit.h"

enum { ENTRIES = 3000 };

static char *snapshot, *data_dir, *member, *db;
static struct ctx ctx;
static struct membership members;

/* What a snapshot may have that etcd is not known to write, and starts on all the same. */
static bool odd;
/* 100 MiB instead of some hundred KiB: it is copied in many steps, together with the hash. */
static bool large;
static uint32_t page_bytes = 4096;

/* A snapshot as etcd sends it: pages, then their hash. */
static int write_snapshot(void)
{
    static uint8_t revisions[ENTRIES][MVCC_PUT_KEY_BYTES];
    static struct buf values[ENTRIES];
    static struct image_item items[ENTRIES + 10];
    size_t n = 0;
    struct err e = {0};
    items[n++] = (struct image_item){"alarm", BYTES("\x08\1\x10\1"), {0}};
    items[n++] = (struct image_item){"cluster", BYTES("downgrade"),
                                     BYTES("{\"target-version\":\"3.5.0\",\"enabled\":true}")};
    for (int i = 0; i < ENTRIES; i++) {
        char key[16];
        const int key_n = snprintf(key, sizeof(key), "key%d", i);
        values[i] = BUF_INIT(64 << 10);
        mvcc_revision_encode(i + 2, revisions[i]);
        wire_put_bytes(&values[i], 1, (struct str){key, (size_t)key_n});
        wire_put_number(&values[i], 2, odd && i > 10 ? 5 : (uint64_t)i + 2);
        wire_put_number(&values[i], 3, (uint64_t)i + 2);
        wire_put_number(&values[i], 4, 1);
        static char long_value[35000] = {1};
        wire_put_bytes(&values[i], 5,
                       large ? (struct str){long_value, sizeof(long_value)} : BYTES("a value"));
        items[n++] = (struct image_item){
            "key", {(const char *)revisions[i], MVCC_PUT_KEY_BYTES}, buf_str(&values[i])};
    }
    items[n++] =
        (struct image_item){"members", BYTES("abc"), BYTES("{\"id\":2748,\"name\":\"o\"}")};
    items[n++] = (struct image_item){"meta", BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\1\0")};
    if (odd)
        items[n++] = (struct image_item){"meta", BYTES("newThing"), BYTES("of a newer etcd")};
    items[n++] = (struct image_item){"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\x09")};
    if (odd)
        items[n++] = (struct image_item){"newBucket", BYTES("k"), BYTES("v")};
    auto_buf struct buf image = image_of(items, n, page_bytes);
    AUTO(sha256_free_auto) struct sha256 *h = sha256_new();
    unsigned char sum[SHA256_BYTES];
    sha256_add(h, buf_str(&image));
    sha256_finish(h, sum);
    buf_add(&image, sum, sizeof(sum));
    for (int i = 0; i < ENTRIES; i++)
        buf_done(&values[i]);
    return file_write_durable(snapshot, buf_str(&image), 0600, &e);
}

static int set_up(void **state)
{
    struct err e = {0};
    json_setup();
    ctx = ctx_root(&clock_real, NULL);
    if (scratch_set_up(state) < 0)
        return -1;
    snapshot = xasprintf("%s/s.db", scratch_dir);
    data_dir = xasprintf("%s/deep/er/data", scratch_dir);
    member = xasprintf("%s/member", data_dir);
    db = xasprintf("%s/snap/db", member);
    if (membership_parse("n1", "n1=http://h:1,n2=http://h:2,n3=http://h:3", "t", "http://h:1",
                         &members, &e) < 0)
        return -1;
    return write_snapshot();
}

static int tear_down(void **state)
{
    membership_done(&members);
    free(snapshot);
    free(data_dir);
    free(member);
    free(db);
    return scratch_remove_all(state);
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static struct restore_options options(void)
{
    return (struct restore_options){
        .snapshot = snapshot, .data_dir = data_dir, .membership = &members};
}

static void forget(void)
{
    auto_free char *top = xasprintf("%s/deep", scratch_dir);
    scratch_remove(top);
}

static void a_restored_member_is_what_was_asked_for(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    const struct restore_options o = options();
    assert_ok(restore_run(&ctx, &o, &r, &e));
    assert_int_equal(r.revision, ENTRIES + 1);
    AUTO(inspection_done) struct inspection i = {0};
    assert_ok(inspect_member_dir(&ctx, member, NULL, &i, &e));
    assert_int_equal(i.problems.n, 0);
    assert_int_equal(i.members, 3);
    assert_true(i.is_member);
    assert_int_equal(i.db.meta.consistent_index, 3);
    assert_int_equal(i.db.meta.term, 1);
    assert_false(i.db.meta.downgrade_enabled);
    assert_true(i.wal.metadata.cluster_id == members.cluster_id);
    assert_int_equal(i.wal.state.commit, 3);
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_EXISTS, "is not touched");

    /* Defragmented, it holds the same. */
    struct hashkv before, after;
    struct defragmented d;
    {
        AUTO(dbfile_done) struct dbfile f = {0};
        assert_ok(dbfile_open(&f, db, MAPPING_SHARED, &e));
        assert_ok(hashkv_of(&ctx, &f, 0, NULL, &before, &e));
        assert_err(defrag_run(&ctx, db, NULL, &d, &e), ERR_CONFLICT, "in use");
    }
    assert_ok(defrag_run(&ctx, db, NULL, &d, &e));
    assert_true(d.bytes_after <= d.bytes_before);
    AUTO(dbfile_done) struct dbfile f = {0};
    assert_ok(dbfile_open(&f, db, MAPPING_SHARED, &e));
    assert_ok(hashkv_of(&ctx, &f, 0, NULL, &after, &e));
    assert_int_equal(before.hash, after.hash);
    assert_int_equal(before.hash_revision, after.hash_revision);
    assert_int_equal(before.compact_revision, after.compact_revision);
    forget();
}

static void a_bump_moves_the_revision_and_marks_it_compacted(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    struct restore_options o = options();
    o.bump_revision = 1000000;
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_INVALID, "go together");
    o.mark_compacted = true;
    assert_ok(restore_run(&ctx, &o, &r, &e));
    AUTO(inspection_done) struct inspection i = {0};
    assert_ok(inspect_member_dir(&ctx, member, NULL, &i, &e));
    assert_int_equal(i.db.revision, ENTRIES + 1 + 1000000);
    assert_int_equal(db_compact_revision(&i.db.meta), i.db.revision);
    forget();
}

static void a_failed_or_cancelled_restore_leaves_nothing(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    struct cancel cancel;
    const struct restore_options o = options();
    auto_free char *deep = xasprintf("%s/deep", scratch_dir);
    assert_ok(cancel_init(&cancel, &e));
    cancel_fire(&cancel);
    const struct ctx stopped = ctx_with_cancel(&ctx, &cancel);
    assert_err(restore_run(&stopped, &o, &r, &e), ERR_CANCELED, "canceled");
    assert_false(exists(deep));
    cancel_done(&cancel);

    FILE *f = fopen(snapshot, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    const int last = fgetc(f);
    assert_int_equal(fseek(f, -1, SEEK_END), 0);
    assert_int_equal(fputc(last ^ 1, f), last ^ 1);
    assert_int_equal(fclose(f), 0);
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_CORRUPT, "SHA-256");
    assert_false(exists(deep));
    struct restore_options skip = o; /* the hash is cut off, not compared */
    skip.skip_hash_check = true;
    assert_ok(restore_run(&ctx, &skip, &r, &e));
    forget();
    assert_int_equal(write_snapshot(), 0);
}

/* The meta pages are the first two, however large pages are. */
static void pages_may_have_any_size(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1024, 8192, 65536, 1 << 20, 1 << 21};
    for (size_t k = 0; k < COUNT_OF(sizes); k++) {
        struct err e = {0};
        AUTO(restored_done) struct restored r = {0};
        AUTO(inspection_done) struct inspection i = {0};
        const struct restore_options o = options();
        page_bytes = sizes[k];
        assert_int_equal(write_snapshot(), 0);
        assert_ok(restore_run(&ctx, &o, &r, &e));
        assert_int_equal(r.warnings.n, 0);
        assert_ok(inspect_member_dir(&ctx, member, NULL, &i, &e));
        assert_int_equal(i.problems.n + i.oddities.n, 0);
        assert_int_equal(i.db.entries, ENTRIES);
        assert_int_equal(i.db.meta.consistent_index, 3);
        forget();
    }
    page_bytes = 4096;
    assert_int_equal(write_snapshot(), 0);
}

/* As a store that etcdctl migrate made: version 1, though modified after it was created. */
static void what_is_odd_is_a_warning_and_restored(void **state)
{
    (void)state;
    struct err e = {0};
    AUTO(restored_done) struct restored r = {0};
    const struct restore_options o = options();
    odd = true;
    assert_int_equal(write_snapshot(), 0);
    odd = false;
    assert_ok(restore_run(&ctx, &o, &r, &e));
    assert_int_equal(r.warnings.n, 11);
    assert_non_null(strstr(r.warnings.v[0], "version 1 does not fit create_revision 5"));
    assert_non_null(strstr(r.warnings.v[10], "and 2981 more")); /* 2989, one key, one bucket */
    AUTO(inspection_done) struct inspection i = {0};
    assert_ok(inspect_member_dir(&ctx, member, NULL, &i, &e));
    assert_int_equal(i.problems.n, 0);
    assert_int_equal(i.db.odd, ENTRIES - 11 + 2);
    forget();
    assert_int_equal(write_snapshot(), 0);
    restored_done(&r);
    assert_ok(restore_run(&ctx, &o, &r, &e));
    assert_int_equal(r.warnings.n, 0);
    forget();
}

static void cancel_at_the_end(void *arg, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    cancel_fire(arg); /* the snapshot is copied in one step: what comes next is the edit */
}

static void the_edit_can_be_cancelled_too(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    struct cancel cancel;
    assert_ok(cancel_init(&cancel, &e));
    const struct ctx stopped = ctx_with_cancel(&ctx, &cancel);
    const struct progress progress = {&cancel, cancel_at_the_end};
    struct restore_options o = options();
    o.progress = &progress;
    auto_free char *says = xasprintf("%s: canceled", snapshot);
    assert_err(restore_run(&stopped, &o, &r, &e), ERR_CANCELED, says);
    assert_false(exists(member));
    cancel_done(&cancel);
}

struct watched {
    uint64_t last, total, cancel_at;
    struct cancel cancel;
};

/* From two threads: none waits for the other to look at what it says. */
static void watch(void *arg, uint64_t done, uint64_t total)
{
    struct watched *w = arg;
    __atomic_store_n(&w->last, done, __ATOMIC_SEQ_CST);
    __atomic_store_n(&w->total, total, __ATOMIC_SEQ_CST);
    if (w->cancel_at > 0 && done >= w->cancel_at)
        cancel_fire(&w->cancel);
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, f), byte ^ 1);
    assert_int_equal(fclose(f), 0);
}

/* In several steps, with the check beside the copy: complete, cancelled half-way, damaged. */
static void a_copy_in_steps_is_checked_as_it_grows(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    struct stat st;
    auto_free char *deep = xasprintf("%s/deep", scratch_dir);
    large = true;
    assert_int_equal(write_snapshot(), 0);
    large = false;
    assert_int_equal(stat(snapshot, &st), 0);
    assert_true(st.st_size > 100 << 20);

    struct watched w = {0};
    assert_ok(cancel_init(&w.cancel, &e));
    const struct ctx stopped = ctx_with_cancel(&ctx, &w.cancel);
    const struct progress progress = {&w, watch};
    struct restore_options o = options();
    o.progress = &progress;
    assert_ok(restore_run(&stopped, &o, &r, &e));
    assert_int_equal(w.total, (uint64_t)st.st_size - SHA256_BYTES);
    assert_true(w.last >= w.total / 2 && w.last <= w.total);
    AUTO(inspection_done) struct inspection i = {0};
    assert_ok(inspect_member_dir(&ctx, member, NULL, &i, &e));
    assert_int_equal(i.problems.n, 0);
    assert_int_equal(i.db.entries, ENTRIES);
    forget();

    w.cancel_at = w.total / 4; /* in the middle of the copy, with the check waiting for it */
    assert_err(restore_run(&stopped, &o, &r, &e), ERR_CANCELED, "canceled");
    assert_false(exists(deep));
    cancel_done(&w.cancel);

    o.progress = NULL;
    o.skip_hash_check = true;
    const long page = (long)st.st_size / 4096 / 2;
    flip(snapshot, page * 4096); /* the number of a page: of which one, says the message */
    auto_free char *says = xasprintf("page %ld: says it is page %ld", page, page ^ 1);
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_CORRUPT, says);
    assert_false(exists(deep));
    assert_int_equal(write_snapshot(), 0);
}

struct repair {
    long at;
    bool done;
};

/* Once it has been copied. */
static void repair(void *arg, uint64_t done, uint64_t total)
{
    (void)total;
    struct repair *r = arg;
    if (done > (uint64_t)r->at && !__atomic_exchange_n(&r->done, true, __ATOMIC_SEQ_CST))
        flip(snapshot, r->at);
}

/* In the end the file is what its hash says, but that is not what was copied. The byte is one of a
 * value, so that nothing else tells. */
static void a_snapshot_that_somebody_still_writes_is_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    struct repair later = {.at = 1000000};
    const struct progress progress = {&later, repair};
    struct restore_options o = options();
    large = true;
    assert_int_equal(write_snapshot(), 0);
    large = false;
    flip(snapshot, later.at);
    o.skip_hash_check = true;
    assert_ok(restore_run(&ctx, &o, &r, &e));
    restored_done(&r);
    forget();
    o.skip_hash_check = false;
    o.progress = &progress;
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_CORRUPT, "SHA-256");
    assert_true(later.done);
    assert_false(exists(member));
    o.progress = NULL;
    assert_ok(restore_run(&ctx, &o, &r, &e)); /* now that it is complete */
    restored_done(&r);
    forget();
    assert_int_equal(write_snapshot(), 0);
}

static void touch_snapshot(void *arg, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    const struct timespec *times = arg;
    (void)utimensat(AT_FDCWD, snapshot, times, 0);
}

/* Not even if the hash fits: parts of it are read before, to be changed. */
static void a_snapshot_that_changes_meanwhile_is_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    struct timespec times[2] = {{.tv_sec = 12345}, {.tv_sec = 12345}};
    const struct progress progress = {times, touch_snapshot};
    struct restore_options o = options();
    o.progress = &progress;
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_CONFLICT, "s.db: the file changes");
    assert_false(exists(member));
    assert_ok(restore_run(&ctx, &o, &r, &e)); /* nothing new: it has that time already */
    restored_done(&r);
    forget();
}

/* From here on no file takes a byte past `bytes`, as on a disk that is full. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* At the first byte, inside the copy, inside the edit behind it, and at the log. */
static void a_write_that_fails_anywhere_leaves_nothing(void **state)
{
    (void)state;
    struct stat st;
    assert_int_equal(stat(snapshot, &st), 0);
    const rlim_t pages = (rlim_t)st.st_size / 4096 * 4096;
    const rlim_t limits[] = {0, 1, 4096, pages / 2, pages, pages + 100, pages + 4096, 1 << 20};
    const struct restore_options o = options();
    auto_free char *deep = xasprintf("%s/deep", scratch_dir);
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct err e = {0};
        struct restored r;
        limit_files(limits[i]);
        const int rc = restore_run(&ctx, &o, &r, &e);
        limit_files(RLIM_INFINITY);
        if (rc == 0 || e.code != ERR_TOO_BIG || exists(deep))
            fail_msg("limit %ld: %s \"%s\"", (long)limits[i], err_code_name(e.code), e.text);
    }
}

static void take_the_name(void *arg, uint64_t done, uint64_t total)
{
    (void)arg;
    (void)done;
    (void)total;
    (void)mkdir(member, 0700);
}

static void a_member_that_appears_meanwhile_is_not_touched(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    const struct progress progress = {NULL, take_the_name};
    auto_free char *building = xasprintf("%s/member.partial", data_dir);
    struct restore_options o = options();
    o.progress = &progress;
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_EXISTS, "rename");
    assert_false(exists(building));
    assert_int_equal(rmdir(member), 0); /* as empty as it came */
    forget();
}

static void what_a_killed_run_left_is_replaced(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    const struct restore_options o = options();
    auto_free char *left = xasprintf("%s/member.partial/snap", data_dir);
    auto_free char *command = xasprintf("%s/half", left);
    for (char *at = left + strlen(scratch_dir) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        (void)mkdir(left, 0700);
        *at = '/';
    }
    assert_int_equal(mkdir(left, 0700), 0);
    assert_ok(file_write_durable(command, STR("half a file"), 0600, &e));
    assert_ok(restore_run(&ctx, &o, &r, &e));
    assert_true(exists(member));
    assert_false(exists(left));
    forget();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_restored_member_is_what_was_asked_for),
        TEST(a_bump_moves_the_revision_and_marks_it_compacted),
        TEST(a_failed_or_cancelled_restore_leaves_nothing),
        TEST(pages_may_have_any_size),
        TEST(what_is_odd_is_a_warning_and_restored),
        TEST(the_edit_can_be_cancelled_too),
        TEST(a_copy_in_steps_is_checked_as_it_grows),
        TEST(a_snapshot_that_somebody_still_writes_is_refused),
        TEST(a_snapshot_that_changes_meanwhile_is_refused),
        TEST(a_write_that_fails_anywhere_leaves_nothing),
        TEST(a_member_that_appears_meanwhile_is_not_touched),
        TEST(what_a_killed_run_left_is_replaced),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
