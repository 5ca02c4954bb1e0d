/* SPDX-License-Identifier: Apache-2.0
 * A database file that is cut short while it is read: everything that reads one says so, and
 * neither dies nor takes the zeros for damage. */
#include "datadir/dbfile.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "datadir/defrag.h"
#include "datadir/hashkv.h"
#include "datadir/livekeys.h"
#include "datadir/membership.h"
#include "datadir/restore.h"
#include "datadir/scan.h"
#include "datadir/wire.h"
#include "image.h"
#include "scratch.h"
#include "unit.h"

enum { ENTRIES = 12, VALUE_BYTES = 1400 * 1000, CUT_AT = 3 * 4096 + 100 };

static char *data_dir;
static struct ctx ctx;

static void write_db(void)
{
    static uint8_t revisions[ENTRIES][MVCC_PUT_KEY_BYTES];
    struct buf values[ENTRIES];
    struct image_item items[ENTRIES + 2];
    struct err e = {0};
    auto_free char *large = xcalloc(1, VALUE_BYTES);
    size_t n = 0;
    for (int i = 0; i < ENTRIES; i++) {
        values[i] = BUF_INIT(2 * VALUE_BYTES);
        mvcc_revision_encode(i + 2, revisions[i]);
        wire_put_bytes(&values[i], 1, STR("key"));
        wire_put_number(&values[i], 2, 2);
        wire_put_number(&values[i], 3, (uint64_t)i + 2);
        wire_put_number(&values[i], 4, (uint64_t)i + 1);
        wire_put_bytes(&values[i], 5, (struct str){large, VALUE_BYTES});
        items[n++] = (struct image_item){
            "key", {(const char *)revisions[i], MVCC_PUT_KEY_BYTES}, buf_str(&values[i])};
    }
    items[n++] = (struct image_item){"meta", BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\1\0")};
    items[n++] = (struct image_item){"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\x09")};
    auto_buf struct buf image = image_of(items, n, 4096);
    for (int i = 0; i < ENTRIES; i++)
        buf_done(&values[i]);
    assert_ok(file_write_durable(scratch_file, buf_str(&image), 0600, &e));
}

static int set_up(void **state)
{
    json_setup();
    ctx = ctx_root(&clock_real, NULL);
    if (scratch_set_up(state) < 0)
        return -1;
    data_dir = xasprintf("%s/data", scratch_dir);
    return 0;
}

static int tear_down(void **state)
{
    free(data_dir);
    return scratch_tear_down(state);
}

static void cut(void *arg, uint64_t done, uint64_t total)
{
    (void)arg;
    (void)done;
    (void)total;
    (void)!truncate(scratch_file, CUT_AT);
}

static const struct progress cutting = {NULL, cut};

static int try_scan(const struct dbfile *f, struct err *e)
{
    struct scan_result r;
    const struct scan_options o = {.hash = true, .keys = true, .strict = true};
    return scan_db(&ctx, f, &o, &r, e);
}

static int ignore(void *arg, const struct scan_finding *finding, struct err *e)
{
    (void)arg;
    (void)finding;
    (void)e;
    return 0;
}

static int try_verify(const struct dbfile *f, struct err *e)
{
    struct scan_result r;
    const struct scan_options o = {.strict = true, .found = ignore};
    return scan_db(&ctx, f, &o, &r, e);
}

static int try_hashkv(const struct dbfile *f, struct err *e)
{
    struct hashkv h;
    return hashkv_of(&ctx, f, 0, NULL, &h, e);
}

static int try_livekeys(const struct dbfile *f, struct err *e)
{
    AUTO(livekeys_done) struct livekeys keys = {0};
    return livekeys_find(&ctx, f, STR("k"), false, NULL, &keys, e);
}

static int try_sha256(const struct dbfile *f, struct err *e)
{
    AUTO(dbfile_hash_done) struct dbfile_hash hash = {0};
    struct dbfile hashed = *f; /* its last bytes taken for a hash */
    hashed.n -= SHA256_BYTES;
    dbfile_hash_begin(&hash, &ctx);
    return dbfile_hash_start(&hash, &f->map, 0, hashed.n, NULL, e) < 0
               ? -1
               : dbfile_hash_check(&hash, &hashed, e);
}

static void whoever_reads_a_file_that_was_cut_short_says_so(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int (*try)(const struct dbfile *f, struct err *e);
    } rows[] = {
        {"scan", try_scan},         {"verify", try_verify}, {"hashkv", try_hashkv},
        {"livekeys", try_livekeys}, {"sha256", try_sha256},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        write_db();
        AUTO(dbfile_done) struct dbfile f = {0};
        assert_ok(dbfile_open(&f, scratch_file, MAPPING_SHARED, &e));
        assert_int_equal(truncate(scratch_file, CUT_AT), 0);
        if (rows[i].try(&f, &e) == 0 || e.code != ERR_IO || !strstr(e.text, "cut short"))
            fail_msg("%s: %s \"%s\"", rows[i].name, err_code_name(e.code), e.text);
    }
}

static void a_restore_of_it_leaves_nothing(void **state)
{
    (void)state;
    struct err e = {0};
    struct restored r;
    struct stat st;
    AUTO(membership_done) struct membership m = {0};
    assert_ok(membership_parse("n1", "n1=http://h:1", "t", "http://h:1", &m, &e));
    const struct restore_options o = {.snapshot = scratch_file,
                                      .data_dir = data_dir,
                                      .membership = &m,
                                      .skip_hash_check = true,
                                      .progress = &cutting};
    write_db();
    assert_err(restore_run(&ctx, &o, &r, &e), ERR_IO, "cut short");
    assert_int_equal(stat(data_dir, &st), -1);
}

static void a_defragmentation_of_it_leaves_the_rest_of_it(void **state)
{
    (void)state;
    struct err e = {0};
    struct defragmented d;
    struct stat st;
    write_db();
    assert_err(defrag_run(&ctx, scratch_file, &cutting, &d, &e), ERR_IO, "cut short");
    assert_int_equal(stat(scratch_file, &st), 0);
    assert_int_equal(st.st_size, CUT_AT);
}

static size_t files_in_dir(void)
{
    size_t n = 0;
    DIR *d = opendir(scratch_dir);
    assert_non_null(d);
    while (readdir(d))
        n++;
    assert_int_equal(closedir(d), 0);
    return n - 2; /* itself and its parent */
}

static void a_defragmentation_whose_writes_fail_leaves_the_old_file(void **state)
{
    (void)state;
    static const rlim_t limits[] = {0, 4096, 1 << 20, 8 << 20};
    write_db();
    struct stat before, after;
    assert_int_equal(stat(scratch_file, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        struct err e = {0};
        struct defragmented d;
        struct rlimit limit;
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        limit.rlim_cur = limits[i];
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const int rc = defrag_run(&ctx, scratch_file, NULL, &d, &e);
        limit.rlim_cur = RLIM_INFINITY;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        if (rc == 0 || e.code != ERR_TOO_BIG)
            fail_msg("limit %ld: %s \"%s\"", (long)limits[i], err_code_name(e.code), e.text);
        assert_int_equal(files_in_dir(), 1);
        assert_int_equal(stat(scratch_file, &after), 0);
        assert_true(before.st_ino == after.st_ino && before.st_size == after.st_size);
    }
}

static void put_a_directory_there(void *arg, uint64_t done, uint64_t total)
{
    (void)arg;
    (void)done;
    (void)total;
    (void)unlink(scratch_file);
    (void)mkdir(scratch_file, 0700);
}

static void one_that_cannot_take_the_name_leaves_nothing(void **state)
{
    (void)state;
    struct err e = {0};
    struct defragmented d;
    const struct progress progress = {NULL, put_a_directory_there};
    write_db();
    assert_err(defrag_run(&ctx, scratch_file, &progress, &d, &e), ERR_IO, "rename");
    assert_int_equal(files_in_dir(), 1);
    assert_int_equal(rmdir(scratch_file), 0);
}

/* A gigabyte of zeros that takes no memory: hashing it takes a while. */
static void a_hash_nobody_waits_for_ends_at_once(void **state)
{
    (void)state;
    struct err e = {0};
    const size_t n = (size_t)1 << 30;
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    const struct mapping zeros = {.fd = -1, .p = p, .n = n};
    struct dbfile_hash hash;
    dbfile_hash_begin(&hash, &ctx);
    assert_ok(dbfile_hash_start(&hash, &zeros, 0, n, NULL, &e));
    dbfile_hash_done(&hash);
    assert_true(hash.at < n);
    dbfile_hash_done(&hash);
    assert_int_equal(munmap(p, n), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(whoever_reads_a_file_that_was_cut_short_says_so),
        TEST(a_restore_of_it_leaves_nothing),
        TEST(a_defragmentation_whose_writes_fail_leaves_the_old_file),
        TEST(one_that_cannot_take_the_name_leaves_nothing),
        TEST(a_hash_nobody_waits_for_ends_at_once),
        TEST(a_defragmentation_of_it_leaves_the_rest_of_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
