/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/walk.h"

#include <stdio.h>

#include "base/mem.h"
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

enum { BIG_ITEMS = 3001 };

/* Three levels: 3000 keys of 40 bytes on pages of 1 KiB, and a value of several pages. */
static const struct image_item *big_items(void)
{
    static char keys[BIG_ITEMS][16];
    static struct image_item items[BIG_ITEMS];
    static char large[5000];
    memset(large, 'L', sizeof(large));
    for (int i = 0; i < BIG_ITEMS - 1; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "key-%08d", i);
        items[i] = (struct image_item){"big", str_c(keys[i]), BYTES("012345678901234567890123")};
    }
    items[1500].value = (struct str){large, sizeof(large)};
    items[BIG_ITEMS - 1] = (struct image_item){"small", BYTES("k"), BYTES("v")};
    return items;
}

static struct buf big_image(void)
{
    return image_of(big_items(), BIG_ITEMS, 1024);
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
/* A file whose pages come one after the other, each no sooner than it is asked for. */
struct coming {
    const struct buf *whole;
    char *there;  /* as long, at first only the meta pages */
    uint64_t end; /* what lies behind will not come */
};

static int on_await(void *arg, uint64_t offset, uint64_t bytes, struct err *e)
{
    struct coming *c = arg;
    if (offset + bytes > c->end)
        return err_set(e, ERR_IO, 0, "no byte past %llu", (unsigned long long)c->end);
    memcpy(c->there + offset, c->whole->p + offset, bytes);
    return 0;
}

static void pages_that_are_not_there_yet_are_waited_for(void **state)
{
    (void)state;
    static const uint64_t free_ids[] = {1, 2};
    auto_buf struct buf image = with_freelist(free_ids, COUNT_OF(free_ids));
    auto_free char *there = xcalloc(1, image.n);
    struct coming coming = {&image, there, image.n};
    const struct bolt_arrival arrival = {&coming, on_await};
    struct seen s = {0};
    struct bolt b;
    struct err e = {0};
    struct bolt_totals totals = {0};
    const struct bolt_visitor v = {.arg = &s, .item = on_item, .problem = on_problem};
    memcpy(there, image.p, 2048);
    assert_ok(bolt_open(&b, there, image.n, &e));
    b.arrival = &arrival;
    assert_ok(bolt_walk(&b, &v, &totals, &e));
    assert_int_equal(s.items, BIG_ITEMS);
    assert_memory_equal(there, image.p, (b.meta.pages - 2) * 1024); /* all but the free ones */

    memset(there + 2048, 0, image.n - 2048);
    const uint64_t last = b.meta.freelist * 1024; /* the freelist comes after the tree */
    for (coming.end = 2048; coming.end <= last; coming.end += 1024)
        assert_err(bolt_walk(&b, &v, &totals, &e), ERR_IO, "no byte past");
    assert_int_equal(s.problems, 0); /* what does not come is no damage */
}

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

/* --- In parts ------------------------------------------------------------------------------- */

struct subtrees {
    struct buf image;
    VEC(uint64_t) pages;
};

static int subtrees_write(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    return image_write(&((struct subtrees *)arg)->image, offset, bytes, n, e);
}

static void subtrees_note(void *arg, uint64_t page, uint64_t end)
{
    struct subtrees *s = arg;
    assert_true(page < end && (s->pages.n == 0 || page > s->pages.v[s->pages.n - 1]));
    vec_push(&s->pages, page);
}

static struct subtrees big_subtrees(void)
{
    struct subtrees s = {.image = BUF_INIT(IMAGE_MAX)};
    const struct bolt_sink sink = {&s, subtrees_write, NULL, subtrees_note};
    (void)image_put(&sink, big_items(), BIG_ITEMS, 1024);
    assert_true(s.pages.n > 3);
    return s;
}

static void subtrees_done(struct subtrees *s)
{
    buf_done(&s->image);
    vec_done(&s->pages);
}

struct counted {
    size_t items, parts;
};

static int count_item(void *arg, const struct bolt_item *item, struct err *e)
{
    (void)item;
    (void)e;
    ((struct counted *)arg)->items++;
    return 0;
}

static int count_part(void *arg, size_t index, struct err *e)
{
    (void)e;
    assert_int_equal(index, ((struct counted *)arg)->parts++);
    return 0;
}

/* `before`: what is done to the file between the parts and the rest. */
static int walk_in_parts(const struct subtrees *s, void (*before)(const struct subtrees *),
                         struct counted *c, struct bolt_totals *totals, struct err *e)
{
    const struct bolt_visitor v = {.arg = c, .item = count_item, .part = count_part};
    AUTO(bolt_parts_free_auto) struct bolt_parts *p = bolt_parts_new(&v);
    struct bolt b = {.p = (const uint8_t *)s->image.p, .n = s->image.n, .meta.page_size = 1024};
    for (size_t i = 0; i < s->pages.n; i++) {
        b.meta.pages = s->pages.v[i] + 1; /* that is all there is of the file so far */
        if (bolt_walk_part(p, &b, s->pages.v[i], e) < 0)
            return -1;
    }
    if (before)
        before(s);
    if (bolt_open(&b, s->image.p, s->image.n, e) < 0)
        return -1;
    return bolt_walk_rest(p, &b, totals, e);
}

static void parts_and_the_rest_are_the_whole(void **state)
{
    (void)state;
    AUTO(subtrees_done) struct subtrees s = big_subtrees();
    struct err e = {0};
    struct counted c = {0};
    struct bolt_totals totals;
    assert_ok(walk_in_parts(&s, NULL, &c, &totals, &e));
    assert_int_equal(c.parts, s.pages.n);
    assert_int_equal(c.items, BIG_ITEMS);
    assert_int_equal(totals.items, BIG_ITEMS);
    assert_int_equal(totals.buckets, 2);
    assert_int_equal(totals.pages_used, s.image.n / 1024);
}

/* Flips in the header and the first element of every page, and in its first key. */
static void in_parts_the_same_damage_is_found(void **state)
{
    (void)state;
    static const size_t at[] = {0, 8, 10, 12, 16, 20, 24, 28};
    AUTO(subtrees_done) struct subtrees s = big_subtrees();
    size_t found = 0;
    for (size_t byte = 2 * 1024; byte < s.image.n; byte++) {
        bool one_of_them = false;
        for (size_t i = 0; i < COUNT_OF(at); i++)
            one_of_them = one_of_them || byte % 1024 == at[i];
        if (!one_of_them)
            continue;
        struct err e = {0};
        struct counted c = {0};
        struct bolt_totals totals;
        s.image.p[byte] ^= 0x01;
        const size_t whole = walk(&s.image).problems;
        const int rc = walk_in_parts(&s, NULL, &c, &totals, &e);
        if ((whole > 0) != (rc < 0) || (rc < 0 && e.code != ERR_CORRUPT))
            fail_msg("byte %zu: %zu problems, in parts \"%s\"", byte, whole, e.text);
        found += whole > 0;
        s.image.p[byte] ^= 0x01;
    }
    assert_true(found > 500);
}

/* The value of the first bucket, and the branch at its top. */
static uint8_t *first_bucket(const struct subtrees *s)
{
    struct bolt b;
    struct err e = {0};
    struct bolt_node root;
    struct bolt_element el;
    assert_ok(bolt_open(&b, s->image.p, s->image.n, &e));
    assert_ok(bolt_node_at(&b, b.meta.root, &root, &e));
    assert_ok(bolt_element_at(&root, 0, &el, &e));
    return (uint8_t *)s->image.p + (el.value.p - s->image.p);
}

static uint8_t *upper_branch(const struct subtrees *s)
{
    return (uint8_t *)s->image.p + bolt_get64(first_bucket(s)) * 1024;
}

static void raise_a_separator(const struct subtrees *s)
{
    uint8_t *el = upper_branch(s) + 16 + 16; /* the second element */
    el[bolt_get32(el) + 11]++;               /* its key is now above that of its child */
}

static void lower_a_separator(const struct subtrees *s)
{
    uint8_t *el = upper_branch(s) + 16 + 16;
    el[bolt_get32(el) + 11]--; /* the child before now reaches over it */
}

static void name_a_part_twice(const struct subtrees *s)
{
    uint8_t *first = upper_branch(s) + 16;
    memcpy(first + 16 + 8, first + 8, 8);
}

static void name_parts_in_another_order(const struct subtrees *s)
{
    uint8_t *first = upper_branch(s) + 16, page[8];
    memcpy(page, first + 8, 8);
    memcpy(first + 8, first + 16 + 8, 8);
    memcpy(first + 16 + 8, page, 8);
}

static void name_only_the_first_part(const struct subtrees *s)
{
    bolt_put64(first_bucket(s), s->pages.v[0]);
}

static void what_does_not_fit_around_the_parts_is_found(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        void (*change)(const struct subtrees *);
        const char *says;
    } rows[] = {
        {"separator above", raise_a_separator, "below the branch above it"},
        {"separator below", lower_a_separator, "past the branch above it"},
        {"twice", name_a_part_twice, "reached twice"},
        {"another order", name_parts_in_another_order, "reached twice"},
        {"left out", name_only_the_first_part, "no branch names it"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(subtrees_done) struct subtrees s = big_subtrees();
        struct err e = {0};
        struct counted c = {0};
        struct bolt_totals totals;
        const int rc = walk_in_parts(&s, rows[i].change, &c, &totals, &e);
        if (rc == 0 || e.code != ERR_CORRUPT || !strstr(e.text, rows[i].says))
            fail_msg("%s: \"%s\"", rows[i].name, e.text);
    }
}

TEST_MAIN(TEST(a_sound_file_is_seen_whole), TEST(damage_is_found_and_named),
          TEST(keys_out_of_order_or_range_are_found),
          TEST(without_a_listener_the_first_problem_ends_it),
          TEST(a_stored_freelist_must_fit_the_tree),
          TEST(pages_that_are_not_there_yet_are_waited_for),
          TEST(large_values_are_reached_piece_by_piece_around_the_visitor),
          TEST(parts_and_the_rest_are_the_whole), TEST(in_parts_the_same_damage_is_found),
          TEST(what_does_not_fit_around_the_parts_is_found))
