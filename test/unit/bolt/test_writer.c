/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/writer.h"

#include <stdio.h>

#include "bolt/find.h"
#include "image.h"
#include "unit.h"

static void an_empty_and_a_small_bucket_are_inline(void **state)
{
    (void)state;
    const struct image_item items[] = {
        {"empty", {0}, {0}},
        {"meta", BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\0\3")},
    };
    auto_buf struct buf image = image_of(items, 2, 4096);
    struct bolt b;
    struct bolt_node root;
    struct bolt_element el;
    struct err e = {0};
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_int_equal(b.meta.pages, 3);
    assert_ok(bolt_node_at(&b, b.meta.root, &root, &e));
    assert_ok(bolt_element_at(&root, 0, &el, &e));
    const struct str empty = BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                   "\0\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0");
    assert_true(str_eq(el.value, empty));
    assert_ok(bolt_element_at(&root, 1, &el, &e));
    const struct str meta = BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                                  "\0\0\0\0\0\0\0\0\2\0\1\0\0\0\0\0"
                                  "\0\0\0\0\x10\0\0\0\x10\0\0\0\x08\0\0\0"
                                  "consistent_index\0\0\0\0\0\0\0\3");
    assert_true(str_eq(el.value, meta));
}

static void what_is_out_of_order_is_refused(void **state)
{
    (void)state;
    struct err e = {0};
    auto_buf struct buf image = BUF_INIT(IMAGE_MAX);
    const struct bolt_sink sink = {&image, image_write};
    AUTO(bolt_writer_free_auto) struct bolt_writer *w = bolt_writer_new(&sink, 4096);
    assert_err(bolt_writer_put(w, STR("k"), STR("v"), &e), ERR_INVALID, "");
    assert_ok(bolt_writer_bucket(w, STR("b"), &e));
    assert_ok(bolt_writer_put(w, STR("k2"), STR("v"), &e));
    assert_err(bolt_writer_put(w, STR("k2"), STR("v"), &e), ERR_INVALID, "out of order");
    assert_err(bolt_writer_put(w, STR("k1"), STR("v"), &e), ERR_INVALID, "out of order");
    assert_err(bolt_writer_put(w, STR(""), STR("v"), &e), ERR_INVALID, "0");
    assert_err(bolt_writer_bucket(w, STR("a"), &e), ERR_INVALID, "out of order");
}

static int refuse(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    (void)arg;
    (void)offset;
    (void)bytes;
    (void)n;
    return err_set(e, ERR_IO, 0, "disk full");
}

static void the_error_of_the_sink_comes_back(void **state)
{
    (void)state;
    struct err e = {0};
    const struct bolt_sink sink = {NULL, refuse};
    AUTO(bolt_writer_free_auto) struct bolt_writer *w = bolt_writer_new(&sink, 4096);
    uint64_t pages = 0;
    assert_ok(bolt_writer_bucket(w, STR("b"), &e));
    assert_err(bolt_writer_finish(w, &pages, &e), ERR_IO, "disk full");
}

/* --- How full pages are ----------------------------------------------------------------------- */

enum { PAGE = 4096, SIZES_MAX = 70000 };

/* Counts entries, and those that share a node with one of more than a hundred kilobytes. */
struct sharing {
    size_t items, shared;
    uint64_t page;
    bool large;
};

static int look_at_sharing(void *arg, const struct bolt_item *item, struct err *e)
{
    (void)e;
    struct sharing *s = arg;
    const bool large = item->value.n > 100000;
    s->shared += item->page == s->page && (large || s->large);
    s->page = item->page;
    s->large = large;
    s->items++;
    return 0;
}

/* Entries of these sizes, over and over, as a file. Returns what part of it they are. */
static double fullness(const size_t *sizes, size_t n_sizes, size_t n, struct sharing *out)
{
    static const char value[1 << 20];
    struct err e = {0};
    struct bolt b;
    struct bolt_totals totals;
    uint64_t pages = 0;
    double bytes = 0;
    auto_buf struct buf image = BUF_INIT(IMAGE_MAX);
    const struct bolt_sink sink = {&image, image_write};
    AUTO(bolt_writer_free_auto) struct bolt_writer *w = bolt_writer_new(&sink, PAGE);
    auto_free char(*keys)[8] = xmalloc(n * sizeof(*keys));
    assert_ok(bolt_writer_bucket(w, STR("b"), &e));
    for (size_t i = 0; i < n; i++) {
        for (unsigned byte = 0; byte < 8; byte++)
            keys[i][byte] = (char)(i >> (56 - 8 * byte) & 0xFF);
        const size_t size = sizes[i % n_sizes];
        const struct str key = {keys[i], 8};
        assert_ok(bolt_writer_put(w, key, (struct str){value, size - 8 - BOLT_ELEMENT_BYTES}, &e));
        bytes += (double)size;
    }
    assert_ok(bolt_writer_finish(w, &pages, &e));
    *out = (struct sharing){0};
    const struct bolt_visitor v = {.arg = out, .item = look_at_sharing};
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_ok(bolt_walk(&b, &v, &totals, &e));
    assert_int_equal(out->items, n);
    return bytes / (double)(pages * PAGE);
}

/* At most a fifteenth is empty for entries up to 12 KiB, a ninth for any; and a little goes to
 * branches, metas and the last leaf. */
static void pages_are_full_whatever_the_size_of_values(void **state)
{
    (void)state;
    struct sharing sharing;
    for (size_t size = 60; size < SIZES_MAX; size += size / 7) {
        const double full = fullness(&size, 1, 2000000 / size, &sharing);
        const double want = size < 12288 ? 14.0 / 15 : 8.0 / 9;
        if (full < want - 0.02)
            fail_msg("entries of %zu bytes: %.3f of the file, not %.3f", size, full, want);
    }
    const size_t mixed[] = {100, 2100, 400, 4200, 90, 11000, 700, 5000, 60, 60, 3000};
    assert_true(fullness(mixed, COUNT_OF(mixed), 2000, &sharing) > 0.91);
}

/* Or whoever deletes the small one writes the large one again. */
static void a_large_value_shares_its_pages_with_nobody(void **state)
{
    (void)state;
    struct sharing sharing;
    const size_t sizes[] = {100, 1000000, 100, 300, 150000, 5000};
    (void)fullness(sizes, COUNT_OF(sizes), 60, &sharing);
    assert_int_equal(sharing.shared, 0);
}

/* --- Random trees: what was put in comes out, on a sound file, and can be edited -------------- */

enum { KEY_SPACE = 5000 };

struct model {
    struct str value[KEY_SPACE]; /* p == NULL: not there */
};

static char key_texts[KEY_SPACE][24];
static char filler[9000];

static struct str random_value(uint64_t *seed)
{
    const uint64_t kind = test_below(seed, 50);
    const size_t n = kind == 0 ? test_below(seed, sizeof(filler)) : test_below(seed, 60);
    return (struct str){filler + test_below(seed, sizeof(filler) - n + 1), n};
}

struct comparing {
    const struct model *m;
    size_t next;
};

static int compare_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct comparing *c = arg;
    while (c->next < KEY_SPACE && !c->m->value[c->next].p)
        c->next++;
    if (c->next == KEY_SPACE || !str_eq(item->key, str_c(key_texts[c->next])) ||
        !str_eq(item->value, c->m->value[c->next]))
        return err_set(e, ERR_BUG, 0, "key %zu differs", c->next);
    c->next++;
    return 0;
}

static void assert_holds(const struct buf *image, const struct model *m, uint64_t seed)
{
    struct bolt b;
    struct err e = {0};
    struct bolt_totals totals;
    struct comparing c = {.m = m};
    const struct bolt_visitor v = {.arg = &c, .item = compare_item};
    size_t want = 0;
    for (size_t i = 0; i < KEY_SPACE; i++)
        want += m->value[i].p != NULL;
    if (bolt_open(&b, image->p, image->n, &e) < 0 || bolt_walk(&b, &v, &totals, &e) < 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
    assert_int_equal(totals.items, want);

    struct bolt_bucket bucket;
    struct str got;
    assert_ok(bolt_find_bucket(&b, STR("b"), &bucket, &e));
    for (size_t i = 0; i < KEY_SPACE; i += 7) {
        const int rc = bolt_find(&bucket, str_c(key_texts[i]), &got, &e);
        assert_int_equal(rc == 0, m->value[i].p != NULL);
        assert_true(rc < 0 || str_eq(got, m->value[i]));
    }
}

static void random_edits(struct buf *image, struct model *m, uint64_t *seed)
{
    static struct bolt_change changes[KEY_SPACE];
    size_t n = 0;
    struct err e = {0};
    struct bolt b;
    struct bolt_meta next;
    const uint64_t one_in = 1 + test_below(seed, 400), mood = test_below(seed, 3);
    const bool clear = test_below(seed, 10) == 0;
    if (clear)
        memset(m, 0, sizeof(*m));
    for (size_t i = 0; i < KEY_SPACE; i++) {
        if (test_below(seed, one_in) != 0)
            continue;
        const bool drop = mood == 0 || (mood == 1 && test_below(seed, 2) == 0);
        m->value[i] = drop ? (struct str){0} : random_value(seed);
        changes[n++] =
            (struct bolt_change){.key = str_c(key_texts[i]), .value = m->value[i], .remove = drop};
    }
    const struct bolt_bucket_edit edits[] = {
        {.name = STR("b"), .clear = clear, .v = changes, .n = n}};
    auto_buf struct buf copy = BUF_INIT(IMAGE_MAX);
    buf_add(&copy, image->p, image->n); /* the old pages are read from a copy: none may change */
    assert_ok(bolt_open(&b, copy.p, copy.n, &e));
    const struct bolt_sink sink = {image, image_write};
    assert_ok(bolt_edit(&b, edits, 1, &sink, &next, &e));
    assert_memory_equal(image->p, copy.p, copy.n);
    bolt_meta_encode(&next, next.txid % 2, (uint8_t *)image->p + next.txid % 2 * next.page_size);
    assert_int_equal(next.pages * next.page_size, image->n);
}

static void random_trees_hold_what_was_put_in_and_take_edits(void **state)
{
    (void)state;
    static struct model m;
    for (size_t i = 0; i < KEY_SPACE; i++)
        (void)snprintf(key_texts[i], sizeof(key_texts[i]), "%05zu%.*s", i, (int)(i % 15),
                       "padpadpadpadpad");
    for (size_t i = 0; i < sizeof(filler); i++)
        filler[i] = (char)('a' + i % 23);
    for (uint64_t round = 0; round < 40; round++) {
        uint64_t seed = round;
        struct err e = {0};
        uint64_t pages = 0;
        memset(&m, 0, sizeof(m));
        auto_buf struct buf image = BUF_INIT(IMAGE_MAX);
        const struct bolt_sink sink = {&image, image_write};
        const uint32_t page_size = 1024U << test_below(&seed, 5);
        AUTO(bolt_writer_free_auto) struct bolt_writer *w = bolt_writer_new(&sink, page_size);
        const uint64_t one_in = 1 + test_below(&seed, 200);
        assert_ok(bolt_writer_bucket(w, STR("b"), &e));
        for (size_t i = 0; i < KEY_SPACE; i++) {
            if (test_below(&seed, one_in) != 0)
                continue;
            m.value[i] = random_value(&seed);
            assert_ok(bolt_writer_put(w, str_c(key_texts[i]), m.value[i], &e));
        }
        assert_ok(bolt_writer_finish(w, &pages, &e));
        assert_int_equal(pages * page_size, image.n);
        assert_holds(&image, &m, round);
        for (int i = 0; i < 6; i++) {
            random_edits(&image, &m, &seed);
            assert_holds(&image, &m, round);
        }
    }
}

TEST_MAIN(TEST(an_empty_and_a_small_bucket_are_inline), TEST(what_is_out_of_order_is_refused),
          TEST(the_error_of_the_sink_comes_back), TEST(pages_are_full_whatever_the_size_of_values),
          TEST(a_large_value_shares_its_pages_with_nobody),
          TEST(random_trees_hold_what_was_put_in_and_take_edits))
