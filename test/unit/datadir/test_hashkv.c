/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/hashkv.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "datadir/livekeys.h"
#include "datadir/scan.h"
#include "datadir/wire.h"
#include "image.h"
#include "scratch.h"
#include "unit.h"

static struct ctx ctx;

static int set_up(void **state)
{
    ctx = ctx_root(&clock_real, NULL);
    return scratch_set_up(state);
}

#define REV(n) "\0\0\0\0\0\0\0" n "_\0\0\0\0\0\0\0\0"
#define PUT_A                                                                                      \
    BYTES("\x0a\1a\x10\2\x18\2\x20\1\x2a\1"                                                        \
          "1")
#define PUT_B                                                                                      \
    BYTES("\x0a\1b\x10\3\x18\3\x20\1\x2a\1"                                                        \
          "2")

/* put a=1 at 2, put b=2 at 3, delete a at 4; compacted at `compact` if that is not "". */
static struct dbfile open_store(struct str finished, bool physically)
{
    struct err e = {0};
    const struct image_item all[] = {
        {"key", BYTES(REV("\2")), PUT_A},
        {"key", BYTES(REV("\3")), PUT_B},
        {"key", BYTES(REV("\4") "t"), BYTES("\x0a\1a")},
        {"meta", BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\0\x08")},
        {"meta", BYTES("finishedCompactRev"), finished},
    };
    const size_t skip = physically ? 1 : 0;
    auto_buf struct buf image =
        image_of(all + skip, COUNT_OF(all) - skip - (finished.n == 0), 4096);
    assert_ok(file_write_durable(scratch_file, buf_str(&image), 0600, &e));
    struct dbfile f;
    assert_ok(dbfile_open(&f, scratch_file, MAPPING_SHARED, &e));
    return f;
}

static void known_values(void **state)
{
    (void)state;
    static const struct {
        struct str finished;
        bool physically;
        int64_t revision, compact;
        uint32_t hash;
    } rows[] = {
        {{0}, false, 3, -1, 0x6ceed8d6},
        {{0}, false, 4, -1, 0x5d230630},
        {{0}, false, 0, -1, 0x5d230630},
        {BYTES(REV("\3")), false, 4, 3, 0x2e4314b4},
        {BYTES(REV("\4")), false, 4, 4, 0x2b669cb7},
        {BYTES(REV("\4")), true, 0, 4, 0x2b669cb7}, /* removed or not: the same */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct hashkv h;
        AUTO(dbfile_done) struct dbfile f = open_store(rows[i].finished, rows[i].physically);
        assert_ok(hashkv_of(&ctx, &f, rows[i].revision, NULL, &h, &e));
        if (h.hash != rows[i].hash || h.compact_revision != rows[i].compact)
            fail_msg("row %zu: %08x at compaction %lld", i, h.hash, (long long)h.compact_revision);
    }
}

static void revisions_out_of_range_are_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct hashkv h;
    AUTO(dbfile_done) struct dbfile f = open_store(BYTES(REV("\4")), false);
    assert_err(hashkv_of(&ctx, &f, 3, NULL, &h, &e), ERR_EXPIRED, "compacted");
    assert_err(hashkv_of(&ctx, &f, 5, NULL, &h, &e), ERR_INVALID, "future");
}

static void status_counts_live_keys(void **state)
{
    (void)state;
    struct err e = {0};
    struct scan_result r;
    const struct scan_options o = {.hash = true, .keys = true, .strict = true};
    AUTO(dbfile_done) struct dbfile f = open_store((struct str){0}, false);
    assert_ok(scan_db(&ctx, &f, &o, &r, &e));
    assert_int_equal(r.total_keys, 1);
    assert_int_equal(r.entries, 3);
    assert_int_equal(r.revision, 4);
    assert_int_equal(r.meta.consistent_index, 8);
}

static void a_cancelled_scan_ends(void **state)
{
    (void)state;
    enum { N = 4000, VALUE = 8000 };
    struct err e = {0};
    static char keys[N][17];
    static struct image_item items[N + 1];
    auto_buf struct buf value = BUF_INIT(VALUE + 100);
    buf_add(&value, "\x0a\1a\x10\1\x18\1\x20\1\x2a\xc0\x3e", 12); /* not checked strictly here */
    memset(buf_reserve(&value, VALUE), 'v', VALUE);
    buf_wrote(&value, VALUE);
    for (int i = 0; i < N; i++) {
        memcpy(keys[i], "\0\0\0\0\0\0\0\0_\0\0\0\0\0\0\0\0", 17);
        keys[i][6] = (char)((i + 1) >> 8);
        keys[i][7] = (char)(i + 1);
        items[i] = (struct image_item){"key", {keys[i], 17}, buf_str(&value)};
    }
    items[N] = (struct image_item){"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\1")};
    auto_buf struct buf image = image_of(items, N + 1, 4096);
    assert_ok(file_write_durable(scratch_file, buf_str(&image), 0600, &e));
    AUTO(dbfile_done) struct dbfile f = {0};
    assert_ok(dbfile_open(&f, scratch_file, MAPPING_SHARED, &e));
    struct cancel cancel;
    assert_ok(cancel_init(&cancel, &e));
    const struct ctx stopped = ctx_with_cancel(&ctx, &cancel);
    cancel_fire(&cancel);
    struct scan_result r;
    const struct scan_options o = {.hash = true, .keys = true};
    assert_err(scan_db(&stopped, &f, &o, &r, &e), ERR_CANCELED, "canceled");
    cancel_done(&cancel);
}

/* Twelve small entries, then large ones: by the time that progress is told, the small are behind
 * the walk. Made to look compacted then, they are more than the first walk counted. */
enum { SMALL = 12, LARGE = 8, LARGE_BYTES = 1400 * 1000 };

struct changing {
    struct buf image;
    struct dbfile f;
};

static struct changing changing_store(void)
{
    static char keys[SMALL + LARGE][17];
    struct image_item items[SMALL + LARGE + 1];
    auto_buf struct buf value = BUF_INIT(2 * LARGE_BYTES);
    struct err e = {0};
    wire_put_bytes(&value, 1, STR("k"));
    const size_t small_n = value.n;
    static char zeros[LARGE_BYTES];
    wire_put_bytes(&value, 5, (struct str){zeros, sizeof(zeros)});
    for (int i = 0; i < SMALL + LARGE; i++) {
        memcpy(keys[i], REV("\0"), 17);
        keys[i][7] = (char)(i + 2);
        items[i] = (struct image_item){
            "key", {keys[i], 17}, str_first(buf_str(&value), i < SMALL ? small_n : value.n)};
    }
    items[SMALL + LARGE] =
        (struct image_item){"meta", BYTES("finishedCompactRev"), BYTES(REV("\3"))};
    struct changing c = {.image = image_of(items, COUNT_OF(items), 4096)};
    c.f = (struct dbfile){.path = scratch_file,
                          .map = {.fd = -1, .p = (const uint8_t *)c.image.p, .n = c.image.n},
                          .n = c.image.n};
    assert_ok(bolt_open(&c.f.bolt, c.image.p, c.image.n, &e));
    return c;
}

static void change(void *arg, uint64_t done, uint64_t total)
{
    struct buf *image = arg;
    (void)done;
    (void)total;
    for (int i = 2; i < SMALL; i++) { /* entry i, of revision i + 2, becomes 3.i */
        const char revision[] = {0, 0, 0, 0, 0, 0, 0, (char)(i + 2), '_'};
        char *at = memmem(image->p, image->n, revision, sizeof(revision));
        if (!at)
            return; /* done before */
        at[7] = 3;
        at[16] = (char)i;
    }
}

static void change_keys(void *arg, uint64_t done, uint64_t total)
{
    struct buf *image = arg;
    (void)done;
    (void)total;
    char *at = memmem(image->p, image->n, "\x0a\1k", 3);
    if (at)
        at[2] = 'x';
}

static void a_file_that_changes_between_two_walks_is_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct hashkv h;
    AUTO(livekeys_done) struct livekeys keys = {0};
    struct changing c = changing_store();
    const struct progress changed = {&c.image, change};
    assert_err(hashkv_of(&ctx, &c.f, 0, &changed, &h, &e), ERR_CONFLICT, "changes while");
    buf_done(&c.image);
    c = changing_store();
    const struct progress renamed = {&c.image, change_keys};
    assert_err(livekeys_find(&ctx, &c.f, STR("k"), false, &renamed, &keys, &e), ERR_CONFLICT,
               "changes while");
    buf_done(&c.image);
}

static int count_difference(void *arg, enum diff_kind kind, struct str key, struct err *e)
{
    (void)key;
    (void)e;
    ((int *)arg)[kind]++;
    return 0;
}

static void live_keys_and_their_differences(void **state)
{
    (void)state;
    struct err e = {0};
    const struct image_item items[] = {
        {"key", BYTES(REV("\2")), PUT_A},
        {"key", BYTES(REV("\3")), BYTES("\x0a\1z\x10\3\x18\3\x20\1")},
        {"key", BYTES(REV("\4")), BYTES("\x0a\1z\x10\3\x18\4\x20\2\x2a\1n")},
        {"key", BYTES(REV("\5")), BYTES("")}, /* a revision bump is no key */
        {"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\1")},
    };
    AUTO(dbfile_done) struct dbfile old = open_store((struct str){0}, false);
    auto_free char *other = xasprintf("%s/other", scratch_dir);
    auto_buf struct buf image = image_of(items, COUNT_OF(items), 4096);
    assert_ok(file_write_durable(other, buf_str(&image), 0600, &e));
    AUTO(dbfile_done) struct dbfile new = {0};
    assert_ok(dbfile_open(&new, other, MAPPING_SHARED, &e));
    assert_int_equal(unlink(other), 0);

    AUTO(livekeys_done) struct livekeys a = {0}, b = {0}, z = {0}, none = {0};
    assert_ok(livekeys_find(&ctx, &old, (struct str){0}, false, NULL, &a, &e));
    assert_ok(livekeys_find(&ctx, &new, (struct str){0}, false, NULL, &b, &e));
    assert_int_equal(a.n, 1); /* b: a is deleted */
    assert_int_equal(b.n, 2); /* a and z */
    assert_true(str_eq(livekeys_at(&b, 0).key, STR("a")));
    assert_true(str_eq(livekeys_at(&b, 1).value, STR("n")));
    int found[3] = {0};
    assert_ok(livekeys_diff(&a, &b, count_difference, found, &e));
    assert_true(found[DIFF_ADDED] == 2 && found[DIFF_REMOVED] == 1 && found[DIFF_CHANGED] == 0);
    assert_ok(livekeys_find(&ctx, &new, STR("z"), true, NULL, &z, &e));
    assert_int_equal(z.n, 1);
    assert_ok(livekeys_find(&ctx, &new, STR("zz"), false, NULL, &none, &e));
    assert_int_equal(none.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(known_values),
        TEST(revisions_out_of_range_are_refused),
        TEST(status_counts_live_keys),
        TEST(a_cancelled_scan_ends),
        TEST(a_file_that_changes_between_two_walks_is_refused),
        TEST(live_keys_and_their_differences),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
