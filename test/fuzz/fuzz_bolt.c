/* SPDX-License-Identifier: Apache-2.0
 * Pages of a database file. The fuzzer gives damage, not whole files: the input is a list of
 * (offset, byte) pairs over a sound image, or an image itself if it begins like one. Whatever
 * the bytes, reading and editing stay in bounds and end; what the walk accepts, the other readers
 * accept, and an edit of it is sound again. */
#include <string.h>

#include "base/crc32c.h"
#include "bolt/find.h"
#include "damage.h"
#include "datadir/buckets.h"
#include "fuzz.h"

enum { PAGE = 1024, ITEMS = 90, IMAGE_BYTES_MAX = 64 * 1024 };

static struct buf sound(void)
{
    static char keys[ITEMS][17];
    static struct image_item items[ITEMS + 2];
    static char large[3000];
    for (int i = 0; i < ITEMS; i++) {
        memcpy(keys[i], "\0\0\0\0\0\0\0\0_\0\0\0\0\0\0\0\0", 17);
        keys[i][7] = (char)(i + 1);
        items[i] = (struct image_item){"key", {keys[i], 17}, BYTES("\x0a\1a\x10\2\x18\2\x20\1")};
    }
    items[45].value = (struct str){large, sizeof(large)};
    items[ITEMS] = (struct image_item){"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\1")};
    items[ITEMS + 1] = (struct image_item){"z", {0}, {0}};
    return image_of(items, ITEMS + 2, PAGE);
}

static int on_item(void *arg, const struct bolt_item *item, struct err *e)
{
    (void)e;
    /* Every byte is read: the sanitizer sees what lies outside. */
    static uint32_t crc;
    crc = crc32c(crc32c(crc, item->key.p, item->key.n), item->value.p, item->value.n);
    (*(size_t *)arg)++;
    return 0;
}

static int on_problem(void *arg, uint64_t page, const char *what, struct err *e)
{
    (void)arg;
    (void)page;
    (void)e;
    FUZZ_CHECK(what[0] != '\0');
    return 0;
}

/* A sink with a ceiling: damage may claim any length. */
static int limited_write(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    const struct buf *copy = arg;
    if (offset + n > copy->max)
        return err_set(e, ERR_TOO_BIG, 0, "more than %zu bytes", copy->max);
    return image_write(arg, offset, bytes, n, e);
}

/* Any file, walked or not, can be asked to change; one without a problem is sound afterwards. */
static void edit(const struct bolt *b, const struct buf *image, bool sound)
{
    struct err e = {0};
    struct bolt_meta next;
    auto_buf struct buf copy = BUF_INIT(4 * IMAGE_BYTES_MAX);
    FUZZ_CHECK(buf_add(&copy, image->p, (size_t)b->meta.pages * b->meta.page_size));
    const struct bolt_sink sink = {&copy, limited_write};
    const struct bolt_change change = {.key = STR("\x7f"), .value = STR("new")};
    const struct bolt_bucket_edit edits[] = {{.name = STR("alarm"), .clear = true},
                                             {.name = STR("key"), .v = &change, .n = 1}};
    if (bolt_edit(b, edits, 2, &sink, &next, &e) < 0) {
        /* Of what the walk accepts, only leaves at different depths are refused. */
        FUZZ_CHECK(e.code == ERR_CORRUPT || (!sound && e.code == ERR_TOO_BIG));
        return;
    }
    if (!sound)
        return;
    bolt_meta_encode(&next, next.txid % 2, (uint8_t *)copy.p + next.txid % 2 * next.page_size);
    struct bolt again;
    struct bolt_totals totals;
    const struct bolt_visitor strict = {0};
    FUZZ_CHECK(bolt_open(&again, copy.p, copy.n, &e) == 0);
    FUZZ_CHECK(again.meta.txid != next.txid || bolt_walk(&again, &strict, &totals, &e) == 0);
}

/* A walk without a problem: everything in it can be found. */
static void find(const struct bolt *b)
{
    struct err e = {0};
    struct bolt_bucket key;
    struct bolt_element last;
    struct str value;
    if (bolt_find_bucket(b, STR("key"), &key, &e) == 0 && bolt_find_last(&key, &last, &e) == 0)
        FUZZ_CHECK(bolt_find(&key, last.key, &value, &e) == 0 && str_eq(value, last.value));
}

/* Some subtree first and the rest afterwards: the same items, or a refusal, as for one that no
 * branch names. */
static void walk_in_parts(const struct bolt *b, uint64_t page, size_t items)
{
    struct err e = {0};
    struct bolt_totals totals;
    size_t n = 0;
    const struct bolt_visitor v = {.arg = &n, .item = on_item};
    AUTO(bolt_parts_free_auto) struct bolt_parts *parts = bolt_parts_new(&v);
    if (bolt_walk_part(parts, b, page, &e) < 0 || bolt_walk_rest(parts, b, &totals, &e) < 0)
        FUZZ_CHECK(e.code == ERR_CORRUPT);
    else
        FUZZ_CHECK(n == items && totals.items == items);
}

static void read_all(const struct buf *image)
{
    struct err e = {0};
    struct bolt b;
    struct bolt_totals totals;
    size_t items = 0;
    if (bolt_open(&b, image->p, image->n, &e) < 0) {
        FUZZ_CHECK(e.code == ERR_CORRUPT);
        return;
    }
    const struct bolt_visitor v = {.arg = &items, .item = on_item, .problem = on_problem};
    FUZZ_CHECK(bolt_walk(&b, &v, &totals, &e) == 0);
    FUZZ_CHECK(totals.items == items);
    walk_in_parts(&b, crc32c(0, image->p, image->n) % b.meta.pages, items);
    struct db_meta meta;
    struct bolt_bucket bucket;
    struct bolt_element last;
    struct str value;
    if (db_meta_read(&b, &meta, &e) < 0)
        FUZZ_CHECK(e.code == ERR_CORRUPT);
    if (bolt_find_bucket(&b, STR("key"), &bucket, &e) == 0) {
        (void)!bolt_find_last(&bucket, &last, &e);
        (void)!bolt_find(&bucket, STR("\0\0\0\0\0\0\0\x20_"), &value, &e);
    }
    if (totals.problems == 0)
        find(&b);
    edit(&b, image, totals.problems == 0 && b.meta.txid < UINT64_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct buf original;
    if (!original.p)
        original = sound();
    auto_buf struct buf image = BUF_INIT(IMAGE_BYTES_MAX);
    if (size >= PAGE && size <= IMAGE_BYTES_MAX) {
        FUZZ_CHECK(buf_add(&image, data, size));
        read_all(&image);
        return 0;
    }
    FUZZ_CHECK(buf_add(&image, original.p, original.n));
    fuzz_damage(&image, PAGE, data, size);
    read_all(&image);
    return 0;
}
