/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/walk.h"

#include <stdio.h>

#include "base/vec.h"
#include "bolt/layout.h"
#include "image.h"
#include "unit.h"

struct seen {
    size_t items;
    uint64_t problem_page;
    char problem[500];
    size_t problems;
};

static int on_item(void *arg, const struct bolt_item *item, struct err *e)
{
    (void)item;
    (void)e;
    ((struct seen *)arg)->items++;
    return 0;
}

static int on_problem(void *arg, uint64_t page, const char *what, struct err *e)
{
    struct seen *s = arg;
    (void)e;
    if (s->problems++ == 0) {
        s->problem_page = page;
        (void)snprintf(s->problem, sizeof(s->problem), "%s", what);
    }
    return 0;
}

/* Three levels: 3000 keys of 40 bytes on pages of 1 KiB, and a value of several pages. */
static struct buf big_image(void)
{
    static char keys[3000][16];
    static struct image_item items[3001];
    static char large[5000];
    memset(large, 'L', sizeof(large));
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "key-%08d", i);
        items[i] = (struct image_item){"big", str_c(keys[i]), BYTES("012345678901234567890123")};
    }
    items[1500].value = (struct str){large, sizeof(large)};
    items[3000] = (struct image_item){"small", BYTES("k"), BYTES("v")};
    return image_of(items, 3001, 1024);
}

static struct seen walk(const struct buf *image)
{
    struct seen s = {0};
    struct bolt b;
    struct err e = {0};
    struct bolt_totals totals = {0};
    const struct bolt_visitor v = {.arg = &s, .item = on_item, .problem = on_problem};
    assert_ok(bolt_open(&b, image->p, image->n, &e));
    assert_ok(bolt_walk(&b, &v, &totals, &e));
    assert_int_equal(totals.problems, s.problems);
    return s;
}

static void a_sound_file_is_seen_whole(void **state)
{
    (void)state;
    auto_buf struct buf image = big_image();
    struct bolt b;
    struct err e = {0};
    struct bolt_totals totals;
    const struct bolt_visitor quiet = {0};
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_ok(bolt_walk(&b, &quiet, &totals, &e));
    assert_int_equal(totals.items, 3001);
    assert_int_equal(totals.buckets, 2);
    assert_int_equal(totals.pages_used, b.meta.pages); /* a compact file has no free page */
    const struct seen s = walk(&image);
    assert_int_equal(s.problems, 0);
    assert_int_equal(s.items, 3001);
}

static uint64_t find_page(const struct buf *image, uint16_t flags, uint64_t from)
{
    for (uint64_t page = from; page < image->n / 1024; page++) {
        const uint8_t *p = (const uint8_t *)image->p + page * 1024;
        if (bolt_get64(p) == page && bolt_get16(p + 8) == flags && bolt_get16(p + 10) > 5)
            return page;
    }
    fail_msg("no page with flags %d", flags);
    return 0;
}

/* Each kind of damage, named with its page. Pages are 1 KiB. */
static void damage_is_found_and_named(void **state)
{
    (void)state;
    enum kind { ANY_LEAF, ANY_BRANCH };
    static const struct {
        const char *name;
        enum kind kind;
        size_t at; /* in the page */
        uint8_t flip;
        const char *says;
    } rows[] = {
        {"id of a leaf", ANY_LEAF, 1, 0xff, "says it is page"},
        {"id of a branch", ANY_BRANCH, 0, 0x01, "says it is page"},
        {"kind of a leaf", ANY_LEAF, 8, 0x03, ""}, /* becomes a branch with mad children */
        {"kind of a branch", ANY_BRANCH, 8, 0x10, "neither branch nor leaf"},
        {"fewer elements", ANY_LEAF, 10, 0x01, "does not lie behind"},
        {"many elements", ANY_LEAF, 11, 0x40, "do not fit"},
        {"overflow of a leaf", ANY_LEAF, 13, 0x01, ""},
        {"flags of an element", ANY_LEAF, 16, 0x01, "bucket inside a bucket"},
        {"position in a leaf", ANY_LEAF, 20, 0x04, "does not lie behind"},
        {"size of a key in a leaf", ANY_LEAF, 24, 0x02, "does not lie behind"},
        {"size of a value", ANY_LEAF, 28, 0x02, "does not lie behind"},
        {"position in a branch", ANY_BRANCH, 16, 0x08, "does not lie behind"},
        {"size of a key in a branch", ANY_BRANCH, 20, 0x01, "does not lie behind"},
        {"child twice", ANY_BRANCH, 24, 0x01, ""},
        {"child far away", ANY_BRANCH, 29, 0xff, "outside the file"},
    };
    auto_buf struct buf image = big_image();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const uint64_t page =
            find_page(&image, rows[i].kind == ANY_LEAF ? BOLT_LEAF : BOLT_BRANCH, 30);
        char *byte = image.p + page * 1024 + rows[i].at;
        *byte = (char)(*byte ^ rows[i].flip);
        const struct seen s = walk(&image);
        if (s.problems == 0 || !strstr(s.problem, rows[i].says) || !strstr(s.problem, "page"))
            fail_msg("%s: %zu problems, \"%s\"", rows[i].name, s.problems, s.problem);
        *byte = (char)(*byte ^ rows[i].flip);
    }
}

static void keys_out_of_order_or_range_are_found(void **state)
{
    (void)state;
    auto_buf struct buf image = big_image();
    const uint64_t leaf = find_page(&image, BOLT_LEAF, 30);
    uint8_t *p = (uint8_t *)image.p + leaf * 1024;
    uint8_t *first = p + 16 + bolt_get32(p + 20);
    const uint8_t digit = first[11];
    first[11] = '~'; /* past its neighbour */
    assert_non_null(strstr(walk(&image).problem, "out of order"));
    first[11] = digit;
    first[0] = 'j'; /* before what the branch says */
    assert_non_null(strstr(walk(&image).problem, "below the branch"));
    first[0] = 'k';
    const size_t last = bolt_get16(p + 10) - 1U;
    uint8_t *el = p + 16 + last * 16;
    el[bolt_get32(el + 4)] = 'z';
    assert_non_null(strstr(walk(&image).problem, "past the branch"));
}

static void without_a_listener_the_first_problem_ends_it(void **state)
{
    (void)state;
    auto_buf struct buf image = big_image();
    image.p[find_page(&image, BOLT_LEAF, 30) * 1024 + 8] ^= 0x10;
    struct bolt b;
    struct err e = {0};
    struct bolt_totals totals;
    const struct bolt_visitor quiet = {0};
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_err(bolt_walk(&b, &quiet, &totals, &e), ERR_CORRUPT, "neither branch nor leaf");
}

/* A stored freelist, as bbolt writes it outside etcd: behind the last page. */
static struct buf with_freelist(const uint64_t *ids, size_t n)
{
    struct buf image = big_image();
    struct bolt b;
    struct err e = {0};
    uint8_t pages[3 * 1024] = {0};
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    struct bolt_meta m = b.meta;
    m.freelist = m.pages;
    m.pages += 3; /* the freelist and two free pages */
    m.txid++;
    bolt_put64(pages, m.freelist);
    bolt_put16(pages + 8, BOLT_FREELIST);
    bolt_put16(pages + 10, (uint16_t)n);
    for (size_t i = 0; i < n; i++)
        bolt_put64(pages + 16 + i * 8, m.freelist + ids[i]);
    assert_int_equal(image_write(&image, m.freelist * 1024, pages, sizeof(pages), &e), 0);
    bolt_meta_encode(&m, m.txid % 2, (uint8_t *)image.p + m.txid % 2 * 1024);
    return image;
}

static void a_stored_freelist_must_fit_the_tree(void **state)
{
    (void)state;
    static const struct {
        uint64_t ids[3];
        size_t n;
        const char *says;
    } rows[] = {
        {{1, 2}, 2, NULL},
        {{1}, 1, "1 pages are free"},
        {{2, 1}, 2, "out of order"},
        {{1, 1}, 2, "out of order"},
        {{1, 2, 3}, 3, "outside the file"},
        {{0, 1, 2}, 3, "in use"},
        {{(uint64_t)-3, 1, 2}, 3, "in use"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_buf struct buf image = with_freelist(rows[i].ids, rows[i].n);
        const struct seen s = walk(&image);
        if (rows[i].says ? !strstr(s.problem, rows[i].says) : s.problems != 0)
            fail_msg("row %zu: \"%s\"", i, s.problem);
    }
}

/* What happened in a walk: a piece was reached, or an item given. */
struct event {
    uint64_t offset, bytes; /* bytes 0: an item, whose value begins at offset */
};
struct trace {
    const uint8_t *file;
    VEC(struct event) events;
};

static int trace_reach(void *arg, uint64_t offset, uint64_t bytes, struct err *e)
{
    (void)e;
    vec_push(&((struct trace *)arg)->events, (struct event){offset, bytes});
    return 0;
}

static int trace_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct trace *t = arg;
    return trace_reach(t, (uint64_t)((const uint8_t *)item->value.p - t->file), 0, e);
}

/* Values of 3 MiB and one of 5000 bytes on pages of 1 KiB, between small ones. */
static void large_values_are_reached_piece_by_piece_around_the_visitor(void **state)
{
    (void)state;
    enum { LARGE = 3 << 20, PIECE_MAX = 1 << 20 };
    auto_free char *large = xcalloc(1, LARGE);
    const struct image_item items[] = {{"b", BYTES("a"), BYTES("small")},
                                       {"b", BYTES("b"), {large, LARGE}},
                                       {"b", BYTES("c"), {large, LARGE}},
                                       {"b", BYTES("d"), {large, 5000}},
                                       {"b", BYTES("e"), BYTES("small again")}};
    auto_buf struct buf image = image_of(items, COUNT_OF(items), 1024);
    struct err e = {0};
    struct bolt b;
    struct bolt_totals totals;
    struct trace t = {.file = (const uint8_t *)image.p};
    const struct bolt_visitor v = {.arg = &t, .item = trace_item, .reach = trace_reach};
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_ok(bolt_walk(&b, &v, &totals, &e));
    auto_free uint8_t *told = xcalloc(b.meta.pages, 1);
    size_t items_seen = 0, told_pages = 0;
    for (size_t i = 0; i < t.events.n; i++) {
        const struct event ev = t.events.v[i];
        if (ev.bytes == 0) { /* told up to where it begins, and not what follows */
            assert_int_equal(told[ev.offset / 1024], 1);
            if (items[items_seen++].value.n > 1024)
                assert_int_equal(told[ev.offset / 1024 + 1], 0);
            continue;
        }
        assert_true(ev.bytes <= PIECE_MAX && ev.bytes % 1024 == 0 && ev.offset % 1024 == 0);
        for (uint64_t page = ev.offset / 1024; page < (ev.offset + ev.bytes) / 1024; page++) {
            assert_int_equal(told[page]++, 0);
            told_pages++;
        }
    }
    assert_int_equal(items_seen, COUNT_OF(items));
    assert_int_equal(told_pages + 2, totals.pages_used); /* the meta pages are not walked */
    vec_done(&t.events);
}

TEST_MAIN(TEST(a_sound_file_is_seen_whole), TEST(damage_is_found_and_named),
          TEST(keys_out_of_order_or_range_are_found),
          TEST(without_a_listener_the_first_problem_ends_it),
          TEST(a_stored_freelist_must_fit_the_tree),
          TEST(large_values_are_reached_piece_by_piece_around_the_visitor))
