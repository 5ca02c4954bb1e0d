/* SPDX-License-Identifier: Apache-2.0
 * Databases that are read back while they are written, and are not always what was meant. */
#include "datadir/readback.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "datadir/mvcc.h"
#include "datadir/wire.h"
#include "image.h"
#include "unit.h"

enum { ENTRIES = 2000, ITEMS = ENTRIES + 3, PAGE = 1024, LONG = 1 << 20, UNDAMAGED = -1 };

static char path[] = "/tmp/raftsman-readback-XXXXXX";
static int fd = -1;
static struct ctx ctx;
static struct image_item items[ITEMS];

/* One value spans pages, and there are buckets without a page of their own. */
static void make_items(void)
{
    static uint8_t revisions[ENTRIES][MVCC_PUT_KEY_BYTES];
    static char large[5000], values[ENTRIES][64];
    items[0] = (struct image_item){"alarm", {0}, {0}};
    for (int i = 0; i < ENTRIES; i++) {
        auto_buf struct buf kv = BUF_INIT(64);
        mvcc_revision_encode(i + 2, revisions[i]);
        wire_put_bytes(&kv, 1, STR("a key"));
        wire_put_number(&kv, 2, 2);
        wire_put_number(&kv, 3, (uint64_t)i + 2);
        memcpy(values[i], kv.p, kv.n);
        items[i + 1] = (struct image_item){
            "key", {(const char *)revisions[i], MVCC_PUT_KEY_BYTES}, {values[i], kv.n}};
    }
    auto_buf struct buf kv = BUF_INIT(2 * sizeof(large));
    wire_put_bytes(&kv, 1, STR("a key"));
    wire_put_bytes(&kv, 5, (struct str){large, sizeof(large) - 16});
    memcpy(large, kv.p, kv.n);
    items[ENTRIES / 2].value = (struct str){large, kv.n};
    items[ITEMS - 2] = (struct image_item){"meta", BYTES("consistent_index"), BYTES("12345678")};
    items[ITEMS - 1] = (struct image_item){"meta", BYTES("term"), BYTES("12345678")};
}

static uint32_t crc_of_items(void)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        if (i == 0 || strcmp(items[i - 1].bucket, items[i].bucket) != 0)
            crc = crc32c(crc, items[i].bucket, strlen(items[i].bucket));
        crc = crc32c(crc, items[i].key.p, items[i].key.n);
        crc = crc32c(crc, items[i].value.p, items[i].value.n);
    }
    return crc;
}

/* The writer's sink: what lies in the file differs at one byte from what was given. A few pages are
 * written at a time, and read as soon as they are. */
struct writing {
    struct readback *r;
    int64_t damaged; /* its offset */
    int rc;          /* of following */
    struct err *e;
};

static void write_bytes(uint64_t offset, const void *bytes, size_t n)
{
    assert_int_equal(pwrite(fd, bytes, n, (off_t)offset), n);
}

static int write_damaged(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    enum { STEP = 7 * PAGE };
    (void)e;
    struct writing *w = arg;
    const uint8_t *p = bytes;
    for (size_t at = 0; at < n; at += STEP) {
        const size_t part = n - at < STEP ? n - at : STEP;
        write_bytes(offset + at, p + at, part);
        if (w->damaged >= (int64_t)(offset + at) && w->damaged < (int64_t)(offset + at + part)) {
            const uint8_t byte = p[(uint64_t)w->damaged - offset] ^ 0x10;
            write_bytes((uint64_t)w->damaged, &byte, 1);
        }
        if (offset > 0 && w->rc == 0)
            w->rc = readback_follow(w->r, offset + at + part, w->e);
    }
    return 0;
}

static void announce(void *arg, uint64_t page, uint64_t end)
{
    readback_announce(((struct writing *)arg)->r, BUCKET_KEY, page, end);
}

/* `length`: of the file when it is mapped. Returns what readback says, and the number of parts. */
static int write_and_read(off_t length, int64_t damaged, uint32_t *crc, size_t *parts,
                          struct err *e)
{
    AUTO(readback_done) struct readback r = {0};
    struct writing w = {.r = &r, .damaged = damaged, .e = e};
    const struct bolt_sink sink = {&w, write_damaged, NULL, announce};
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(ftruncate(fd, length), 0);
    if (readback_begin(&r, &ctx, path, PAGE, e) < 0)
        return -1;
    const uint64_t pages = image_put(&sink, items, ITEMS, PAGE);
    *parts = r.walked.n;
    if (w.rc < 0)
        return -1;
    assert_int_equal(ftruncate(fd, (off_t)(pages * PAGE)), 0);
    return readback_finish(&r, crc, e);
}

static void the_checksum_is_that_of_the_content(void **state)
{
    (void)state;
    struct err e = {0};
    uint32_t crc = 0;
    size_t parts = 0;
    assert_ok(write_and_read(LONG, UNDAMAGED, &crc, &parts, &e));
    assert_int_equal(crc, crc_of_items());
    assert_true(parts > 3);
}

static void a_file_that_outgrows_what_was_mapped_is_read_at_the_end(void **state)
{
    (void)state;
    static const off_t lengths[] = {0, 1, PAGE * 20, PAGE * 60 + 1};
    size_t whole = 0;
    for (size_t i = 0; i < COUNT_OF(lengths); i++) {
        struct err e = {0};
        uint32_t crc = 0;
        size_t parts = 0;
        assert_ok(write_and_read(lengths[i], UNDAMAGED, &crc, &parts, &e));
        assert_int_equal(crc, crc_of_items());
        assert_true(parts >= whole);
        whole = parts;
    }
}

/* The head of each page, its first element, and bytes of what may be a value. */
static void what_differs_in_the_file_is_noticed(void **state)
{
    (void)state;
    static const int64_t at[] = {0, 10, 20, 400};
    struct err e = {0};
    uint32_t crc = 0;
    size_t parts = 0;
    assert_ok(write_and_read(LONG, UNDAMAGED, &crc, &parts, &e));
    const int64_t end = lseek(fd, 0, SEEK_END) / PAGE - 3; /* two branches, the root: small */
    for (int64_t page = 2; page < end; page += 3)
        for (size_t i = 0; i < COUNT_OF(at); i++) {
            e = (struct err){0};
            crc = 0;
            const int rc = write_and_read(LONG, page * PAGE + at[i], &crc, &parts, &e);
            if (rc < 0 ? e.code != ERR_CORRUPT : crc == crc_of_items())
                fail_msg("page %d, byte %d: \"%s\"", (int)page, (int)at[i], e.text);
        }
}

static void entries_that_do_not_decode_are_named(void **state)
{
    (void)state;
    static const size_t which[] = {1, ENTRIES / 3, ENTRIES};
    for (size_t i = 0; i < COUNT_OF(which); i++) {
        struct err e = {0};
        uint32_t crc = 0;
        size_t parts = 0;
        const struct str before = items[which[i]].value;
        items[which[i]].value = STR("\xff\xff");
        assert_err(write_and_read(LONG, UNDAMAGED, &crc, &parts, &e), ERR_CORRUPT, "bucket key");
        items[which[i]].value = before;
    }
}

static int set_up(void **state)
{
    (void)state;
    ctx = ctx_root(&clock_real, NULL);
    make_items();
    fd = mkostemp(path, O_CLOEXEC);
    return fd < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)close(fd);
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_checksum_is_that_of_the_content),
        TEST(a_file_that_outgrows_what_was_mapped_is_read_at_the_end),
        TEST(what_differs_in_the_file_is_noticed),
        TEST(entries_that_do_not_decode_are_named),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
