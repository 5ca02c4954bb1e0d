/* SPDX-License-Identifier: Apache-2.0
 * Every byte of a small database is changed in several ways, pages are zeroed, swapped and cut.
 * Nothing crashes; what is found, and the few places where nothing can be found, are a table. */
#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "bolt/find.h"
#include "bolt/layout.h"
#include "datadir/mvcc.h"
#include "datadir/scan.h"
#include "datadir/wire.h"
#include "image.h"
#include "scratch.h"
#include "unit.h"

enum { PAGE = 1024, ENTRIES = 60 };

static struct ctx ctx;

static int set_up(void **state)
{
    json_setup();
    ctx = ctx_root(&clock_real, NULL);
    return scratch_set_up(state);
}

/* Two keys with many revisions, one of them leased and deleted now and then; all buckets. */
static struct buf store(void)
{
    static uint8_t revisions[ENTRIES][18];
    static struct buf values[ENTRIES];
    static struct image_item items[ENTRIES + 20];
    size_t n = 0;
    items[n++] = (struct image_item){"alarm", BYTES("\x08\1\x10\1"), {0}};
    items[n++] = (struct image_item){"auth", BYTES("authEnabled"), BYTES("\0")};
    items[n++] = (struct image_item){"auth", BYTES("authRevision"), BYTES("\0\0\0\0\0\0\0\1")};
    items[n++] = (struct image_item){"authRoles", BYTES("r1"), BYTES("\x0a\2r1\x12\3\x12\1a")};
    items[n++] = (struct image_item){"authUsers", BYTES("u1"), BYTES("\x0a\2u1\x22\2\x08\1")};
    items[n++] = (struct image_item){"cluster", BYTES("clusterVersion"), BYTES("3.6.0")};
    for (int i = 0; i < ENTRIES; i++) {
        const bool dead = i == 30;
        const bool leased = i % 2 == 0 && i != 0;
        char key[8];
        const int key_n = snprintf(key, sizeof(key), "key%d", i);
        values[i] = BUF_INIT(4096);
        mvcc_revision_encode(i + 2, revisions[i]);
        revisions[i][17] = 't';
        wire_put_bytes(&values[i], 1, (struct str){key, (size_t)key_n});
        if (!dead) {
            wire_put_number(&values[i], 2, (uint64_t)i + 2);
            wire_put_number(&values[i], 3, (uint64_t)i + 2);
            wire_put_number(&values[i], 4, 1);
            wire_put_bytes(&values[i], 5, BYTES("some value of some length, to fill the pages"));
            if (leased)
                wire_put_number(&values[i], 6, 777);
        }
        items[n++] = (struct image_item){
            "key", {(const char *)revisions[i], dead ? 18 : 17}, buf_str(&values[i])};
    }
    items[n++] =
        (struct image_item){"lease", BYTES("\0\0\0\0\0\0\3\x09"), BYTES("\x08\x89\6\x10\xa0\x38")};
    items[n++] =
        (struct image_item){"members", BYTES("346f0b0468448c0"),
                            BYTES("{\"id\":236140670371514560,\"peerURLs\":[\"http://h:1\"]}")};
    items[n++] = (struct image_item){"members_removed", BYTES("abc"), BYTES("removed")};
    items[n++] =
        (struct image_item){"meta", BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\0\x46")};
    items[n++] = (struct image_item){"meta", BYTES("storageVersion"), BYTES("3.6.0")};
    items[n++] = (struct image_item){"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\2")};
    struct buf image = image_of(items, n, PAGE);
    for (int i = 0; i < ENTRIES; i++)
        buf_done(&values[i]);
    return image;
}

struct found {
    size_t n;
    char first[400], last[400];
    uint64_t page;     /* of the first */
    int keys[ENTRIES]; /* numbers of the keys whose lease is said to be lost */
    size_t named;
};

static int on_finding(void *arg, const struct scan_finding *finding, struct err *e)
{
    struct found *f = arg;
    (void)e;
    if (f->n++ == 0) {
        f->page = finding->page;
        (void)snprintf(f->first, sizeof(f->first), "%s", finding->what);
    }
    (void)snprintf(f->last, sizeof(f->last), "%s", finding->what);
    const char *key = strstr(finding->what, "key \"key");
    int64_t number = 0;
    if (key && str_i64(str_first(str_c(key + 8), strcspn(key + 8, "\"")), &number) &&
        f->named < ENTRIES)
        f->keys[f->named++] = (int)number;
    return 0;
}

/* In memory: a file would be written a hundred thousand times. The mapping borrows the bytes. */
static struct found look(const uint8_t *p, size_t n)
{
    struct found found = {0};
    struct err e = {0};
    struct dbfile f = {.path = scratch_dir, .map = {.fd = -1, .p = p, .n = n}, .n = n};
    struct scan_result r;
    const struct scan_options o = {
        .keys = true, .strict = true, .history = true, .found = on_finding, .arg = &found};
    if (bolt_open(&f.bolt, p, n, &e) < 0 || scan_db(&ctx, &f, &o, &r, &e) < 0) {
        assert_int_equal(e.code, ERR_CORRUPT);
        (void)on_finding(&found, &(struct scan_finding){.what = e.text}, &e);
    }
    return found;
}

/* Where a change cannot be told from a different but equally valid database: inside users' keys
 * and values, in free texts and numbers of the small buckets, in separators of branches as long
 * as they separate, and in bytes nobody reads. docs/snapshots.md lists the same. */
struct silent {
    const struct buf *image;
    uint8_t *map; /* 1: silent */
};

static void mark(struct silent *s, struct str part)
{
    if (part.n > 0)
        memset(s->map + (part.p - s->image->p), 1, part.n);
}

static enum bucket current;

static int note_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    (void)arg;
    (void)page;
    (void)e;
    current = bucket_of(name);
    return 0;
}

static int note_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct silent *s = arg;
    struct mvcc_kv kv;
    switch (current) {
    case BUCKET_KEY:
        if (mvcc_kv_decode(item->value, &kv, e) < 0)
            return -1;
        mark(s, kv.key);
        mark(s, kv.value);
        break;
    case BUCKET_LEASE: /* the TTL */
        mark(s, str_from(item->value, item->value.n - 2));
        break;
    case BUCKET_ALARM: /* which member, which alarm */
    case BUCKET_MEMBERS_REMOVED:
        mark(s, item->key);
        mark(s, item->value);
        break;
    case BUCKET_MEMBERS: /* URLs and names */
    case BUCKET_CLUSTER:
    case BUCKET_META: /* indexes and terms are just numbers */
    case BUCKET_AUTH:
    case BUCKET_AUTH_ROLES:
    case BUCKET_AUTH_USERS:
        mark(s, item->value);
        break;
    case BUCKET_UNKNOWN:
        break;
    }
    return 0;
}

/* Bytes of no meaning: behind the last element of a node, sequences of buckets, flags of metas
 * that no version uses, and what a checksum covers is never silent. */
static void mark_unused(struct silent *s, const struct bolt *b)
{
    struct bolt_node node = {0};
    for (uint64_t page = 0; page < b->meta.pages; page += node.span) {
        const uint8_t *p = b->p + page * PAGE;
        size_t end = BOLT_HEADER_BYTES + BOLT_META_BYTES;
        node.span = 1;
        struct err e = {0};
        if (page >= 2) {
            assert_ok(bolt_node_at(b, page, &node, &e));
            struct bolt_element el;
            assert_ok(bolt_element_at(&node, node.count - 1, &el, &e));
            end = (size_t)(el.value.p + (node.leaf ? el.value.n : 0) - (const char *)p);
            if (!node.leaf) { /* a separator is a lower bound: a smaller one is as good */
                const size_t keys = BOLT_HEADER_BYTES + (size_t)node.count * BOLT_ELEMENT_BYTES;
                memset(s->map + page * PAGE + keys, 1, end - keys);
                memset(s->map + page * PAGE + keys - 12, 1, 4); /* length of the last one */
            }
            for (uint32_t i = 0; page == b->meta.root && i < node.count; i++) {
                assert_ok(bolt_element_at(&node, i, &el, &e));
                memset(s->map + (el.value.p - (const char *)b->p) + 8, 1, 8); /* sequence */
            }
        }
        memset(s->map + page * PAGE + end, 1, (size_t)node.span * PAGE - end);
    }
}

static void every_byte_that_can_be_checked_is_checked(void **state)
{
    (void)state;
    struct err e = {0};
    auto_buf struct buf image = store();
    auto_free uint8_t *silent_map = xcalloc(image.n, 1);
    struct silent s = {&image, silent_map};
    struct bolt b;
    struct bolt_totals totals;
    const struct bolt_visitor v = {.arg = &s, .bucket = note_bucket, .item = note_item};
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_ok(bolt_walk(&b, &v, &totals, &e));
    mark_unused(&s, &b);
    const struct found healthy = look((const uint8_t *)image.p, image.n);
    if (healthy.n > 0)
        fail_msg("healthy: %s", healthy.first);

    static const uint8_t flips[] = {0x01, 0x80};
    size_t seen = 0, missed = 0;
    for (size_t at = 0; at < image.n; at++) {
        for (size_t i = 0; i < COUNT_OF(flips); i++) {
            image.p[at] = (char)(image.p[at] ^ flips[i]);
            const struct found f = look((const uint8_t *)image.p, image.n);
            image.p[at] = (char)(image.p[at] ^ flips[i]);
            seen += f.n > 0;
            if (f.n == 0 && !silent_map[at] && missed++ < 10)
                print_message("byte %zu of page %zu (%02x), flip %02x: not found\n", at % PAGE,
                              at / PAGE, (unsigned char)image.p[at], flips[i]);
        }
    }
    assert_int_equal(missed, 0);
    assert_true(seen > 5000);
}

static void pages_zeroed_swapped_or_cut_are_found(void **state)
{
    (void)state;
    auto_buf struct buf image = store(), copy = BUF_INIT(IMAGE_MAX);
    const size_t pages = image.n / PAGE;
    for (size_t a = 0; a < pages; a++) {
        buf_reset(&copy);
        buf_add(&copy, image.p, image.n);
        memset(copy.p + a * PAGE, 0, PAGE);
        if (look((const uint8_t *)copy.p, copy.n).n == 0)
            fail_msg("page %zu zeroed: not found", a);
        for (size_t c = 0; c < a; c++) {
            memcpy(copy.p, image.p, image.n);
            memcpy(copy.p + a * PAGE, image.p + c * PAGE, PAGE);
            memcpy(copy.p + c * PAGE, image.p + a * PAGE, PAGE);
            if (look((const uint8_t *)copy.p, copy.n).n == 0)
                fail_msg("pages %zu and %zu swapped: not found", a, c);
        }
    }
    for (size_t n = 0; n < image.n; n += 7) {
        auto_free uint8_t *cut = xmalloc(n + 1); /* exactly so long: a read past it is seen */
        memcpy(cut, image.p, n);
        if (look(cut, n).n == 0)
            fail_msg("cut at %zu: not found", n);
    }
}

static void lose_the_lease(struct buf *image)
{
    char *lease = memmem(image->p, image->n, "\0\0\0\0\0\0\3\x09\x08\x89\6", 11);
    assert_non_null(lease);
    lease[7] = 0x0a; /* another lease, well-formed */
    lease[9] = (char)0x8a;
}

/* That of the node, which may go on over further ones. */
static uint64_t page_of(const struct buf *image, struct str pattern)
{
    struct err e = {0};
    struct bolt b;
    struct bolt_node node;
    const char *at = memmem(image->p, image->n, pattern.p, pattern.n);
    assert_non_null(at);
    assert_ok(bolt_open(&b, image->p, image->n, &e));
    for (uint64_t page = 2;; page += node.span) {
        assert_ok(bolt_node_at(&b, page, &node, &e));
        if (at < image->p + (page + node.span) * PAGE)
            return page;
    }
}

/* In the finding and in its text. */
static void assert_named(const struct found *f, uint64_t page)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "page %" PRIu64, page);
    if (f->n == 0 || f->page != page || !strstr(f->first, text))
        fail_msg("not named as %s: page %" PRIu64 ", \"%s\"", text, f->page, f->first);
}

/* Pages of the store: leaves of bucket key from 2 on, their branch, the root last. */
enum place { META_0, META_1, FIRST_LEAF, BRANCH, ROOT };

static uint64_t page_at(const struct bolt *b, enum place place)
{
    struct err e = {0};
    struct bolt_bucket key;
    assert_ok(bolt_find_bucket(b, STR("key"), &key, &e));
    assert_false(key.top.leaf);
    const uint64_t pages[] = {0, 1, 2, key.top.page, b->meta.root};
    return pages[place];
}

/* One changed byte of each class: in a page of its kind, or behind a pattern. */
static void each_class_of_damage_is_named_with_its_page(void **state)
{
    (void)state;
    enum { ELEMENT = 16, POSITION = 4 };
    static const struct {
        const char *name;
        enum place place;
        struct str pattern; /* p != NULL: it says the place */
        int at;
        uint8_t flip;
        const char *says;
    } rows[] = {
        {"meta page, checksum", META_1, {0}, 30, 0x01, "meta page is damaged"},
        {"meta page, header", META_0, {0}, 8, 0x01, "header of the meta page is damaged"},
        {"leaf, number", FIRST_LEAF, {0}, 0, 0x01, "says it is page"},
        {"leaf, kind", FIRST_LEAF, {0}, 8, 0x10, "neither branch nor leaf"},
        {"leaf, count", FIRST_LEAF, {0}, 11, 0x40, "do not fit"},
        {"leaf, overflow", FIRST_LEAF, {0}, 15, 0x40, "pass the end"},
        {"leaf, position", FIRST_LEAF, {0}, ELEMENT + POSITION, 0x04, "does not lie behind"},
        {"leaf, order", FIRST_LEAF, BYTES("\3_\0\0\0\0\0\0\0\0"), 0, 0x03, "out of order"},
        {"leaf, below its branch", FIRST_LEAF, BYTES("\2_\0\0\0\0\0\0\0\0"), 0, 0x03,
         "below the branch"},
        {"branch, kind", BRANCH, {0}, 8, 0x10, "neither branch nor leaf"},
        {"branch, position", BRANCH, {0}, ELEMENT, 0x04, "does not lie behind"},
        {"root, position", ROOT, {0}, ELEMENT + POSITION, 0x04, "does not lie behind"},
        {"inline bucket, kind", ROOT, BYTES("auth"), 4 + 16 + 8, 0x01, "neither branch nor leaf"},
        {"inline bucket, count", ROOT, BYTES("auth"), 4 + 16 + 10, 0x03, "does not lie behind"},
        {"revision, separator", ROOT, BYTES("\5_\0\0\0\0\0\0\0\0"), 1, 0x01, "separator 0x5e"},
        {"revision, tombstone", ROOT, BYTES(" _\0\0\0\0\0\0\0\0t"), 10, 0x01,
         "tombstone mark 0x75"},
        {"revision, sign", ROOT, BYTES("\x3d_\0\0\0\0\0\0\0\0"), -7, 0x80, "impossible revision"},
        {"key-value, length", ROOT, BYTES("\x0a\4key5\x10"), 1, 0x40, "not a key-value message"},
        {"key-value, number", ROOT, BYTES("\x0a\4key5\x10"), 7, 0x10, "create_revision"},
        {"lease, record", ROOT, BYTES("\x08\x89\6\x10"), 0, 0x02, "does not decode"},
        {"user, record", ROOT, BYTES("\x0a\2u1"), 1, 0x40, "does not decode"},
        {"member, id", ROOT, BYTES("{\"id\":236"), 6, 0x01, "not a member of that id"},
        {"version", ROOT, BYTES("storageVersion3.6.0"), 14, 0x40, "not a version"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        auto_buf struct buf image = store();
        struct bolt b;
        assert_ok(bolt_open(&b, image.p, image.n, &e));
        const bool sought = rows[i].pattern.p != NULL;
        const uint64_t page =
            sought ? page_of(&image, rows[i].pattern) : page_at(&b, rows[i].place);
        char *base = sought ? memmem(image.p, image.n, rows[i].pattern.p, rows[i].pattern.n)
                            : image.p + page * PAGE;
        base[rows[i].at] = (char)(base[rows[i].at] ^ rows[i].flip);
        const struct found f = look((const uint8_t *)image.p, image.n);
        if (!strstr(f.first, rows[i].says))
            fail_msg("%s: \"%s\"", rows[i].name, f.first);
        assert_named(&f, page);
    }
}

/* What points to a page that cannot be: named is the page pointed to. */
static void wrong_pointers_are_named_with_the_page_they_point_to(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        enum { CHILD, BUCKET_ROOT, FREELIST } pointer;
        uint64_t to;
        const char *says;
    } rows[] = {
        {"a child twice", CHILD, 2, "reached twice"},
        {"a child that is a meta page", CHILD, 1, "outside the file"},
        {"a child behind the end", CHILD, 1000, "outside the file"},
        {"a bucket's root behind the end", BUCKET_ROOT, 1000, "outside the file"},
        {"a bucket's root that is a meta page", BUCKET_ROOT, 1, "outside the file"},
        {"a freelist behind the end", FREELIST, 1000, "freelist: page 1000 is outside the file"},
        {"a freelist that is a leaf", FREELIST, 3, "freelist: page 3 is not a freelist"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        auto_buf struct buf image = store();
        struct bolt b;
        assert_ok(bolt_open(&b, image.p, image.n, &e));
        uint8_t *file = (uint8_t *)image.p;
        char *bucket = memmem(image.p, image.n, "3.6.0key", 8); /* behind bucket cluster */
        assert_non_null(bucket);
        struct bolt_meta m = b.meta;
        switch (rows[i].pointer) {
        case CHILD: /* of the second element */
            bolt_put64(file + page_at(&b, BRANCH) * PAGE + 16 + 16 + 8, rows[i].to);
            break;
        case BUCKET_ROOT:
            bolt_put64((uint8_t *)bucket + 8, rows[i].to);
            break;
        case FREELIST:
            m.freelist = rows[i].to;
            bolt_meta_encode(&m, m.txid % 2 == 0 ? 0 : 1, file + (m.txid % 2 == 0 ? 0 : PAGE));
            break;
        }
        const struct found f = look((const uint8_t *)image.p, image.n);
        if (!strstr(f.first, rows[i].says))
            fail_msg("%s: \"%s\"", rows[i].name, f.first);
        assert_named(&f, rows[i].to);
    }
}

/* Made by hand: no flip can make it. */
static void a_lost_lease_is_named(void **state)
{
    (void)state;
    auto_buf struct buf image = store();
    lose_the_lease(&image);
    const struct found f = look((const uint8_t *)image.p, image.n);
    assert_true(f.n > 0);
    assert_non_null(strstr(f.first, "has lease 0000000000000309, which does not exist"));
    assert_true(f.named > 0);
    char key[16];
    const int n = snprintf(key, sizeof(key), "key%d\x10", f.keys[0]);
    assert_named(&f, page_of(&image, (struct str){key, (size_t)n}));
}

/* Every second of the sixty has the lease but the first and the deleted: 28; 16 are named. */
static void of_many_keys_without_their_lease_the_rest_is_counted(void **state)
{
    (void)state;
    auto_buf struct buf image = store();
    lose_the_lease(&image);
    const struct found f = look((const uint8_t *)image.p, image.n);
    assert_int_equal(f.n, 16 + 1);
    assert_string_equal(f.last, "and 12 more keys have a lease that does not exist");
}

/* An entry before it that does not decode is none of those that are counted. */
static void the_right_key_is_named_after_damage(void **state)
{
    (void)state;
    auto_buf struct buf image = store();
    lose_the_lease(&image);
    char *value = memmem(image.p, image.n, "\x0a\4key1\x10", 7);
    assert_non_null(value);
    value[1] = 0x7f; /* a key longer than its message */
    const struct found f = look((const uint8_t *)image.p, image.n);
    assert_non_null(strstr(f.first, "not a key-value message"));
    assert_true(f.named > 0);
    for (size_t i = 0; i < f.named; i++)
        if (f.keys[i] % 2 != 0 || f.keys[i] == 0)
            fail_msg("key%d has no lease", f.keys[i]);
}

static void random_damage_never_crashes(void **state)
{
    (void)state;
    auto_buf struct buf image = store(), copy = BUF_INIT(IMAGE_MAX);
    uint64_t seed = 5;
    for (int round = 0; round < 3000; round++) {
        buf_reset(&copy);
        buf_add(&copy, image.p, image.n);
        for (uint64_t k = test_below(&seed, 20) + 1; k > 0; k--) {
            const size_t at = test_below(&seed, copy.n), n = test_below(&seed, 64) + 1;
            for (size_t i = at; i < at + n && i < copy.n; i++)
                copy.p[i] = (char)test_next(&seed);
        }
        (void)look((const uint8_t *)copy.p, copy.n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_that_can_be_checked_is_checked),
        TEST(pages_zeroed_swapped_or_cut_are_found),
        TEST(each_class_of_damage_is_named_with_its_page),
        TEST(wrong_pointers_are_named_with_the_page_they_point_to),
        TEST(a_lost_lease_is_named),
        TEST(of_many_keys_without_their_lease_the_rest_is_counted),
        TEST(the_right_key_is_named_after_damage),
        TEST(random_damage_never_crashes),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
