/* SPDX-License-Identifier: Apache-2.0
 * Edits of trees that nobody has checked: a damaged one is refused, and at once. What edits of
 * sound trees give is in test_writer.c. */
#include "bolt/edit.h"

#include <stdio.h>

#include "bolt/find.h"
#include "bolt/layout.h"
#include "image.h"
#include "unit.h"

enum { PAGE = 1024, KEYS = 400 };

/* Three levels, as high as makes a difference. */
static struct buf sound(void)
{
    static char keys[KEYS][16];
    static struct image_item items[KEYS];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "key-%08d", i);
        items[i] = (struct image_item){"b", str_c(keys[i]),
                                       BYTES("0123456789012345678901234567890123456789"
                                             "0123456789012345678901234567890123456789")};
    }
    return image_of(items, KEYS, PAGE);
}

static int discard(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    (void)arg;
    (void)offset;
    (void)bytes;
    (void)n;
    (void)e;
    return 0;
}

static int edit(const struct buf *image, const char *key, struct err *e)
{
    struct bolt b;
    struct bolt_meta next;
    const struct bolt_sink sink = {NULL, discard};
    const struct bolt_change change = {.key = str_c(key), .value = STR("new")};
    const struct bolt_bucket_edit edits[] = {{.name = STR("b"), .v = &change, .n = 1}};
    if (bolt_open(&b, image->p, image->n, e) < 0)
        return -1;
    return bolt_edit(&b, edits, 1, &sink, &next, e);
}

/* The page of the bucket's top and, below it, of the child that holds the key. */
static uint8_t *node_of(const struct buf *image, const char *key, int depth)
{
    struct bolt b;
    struct bolt_bucket bucket;
    struct err e = {0};
    assert_ok(bolt_open(&b, image->p, image->n, &e));
    assert_ok(bolt_find_bucket(&b, STR("b"), &bucket, &e));
    struct bolt_node node = bucket.top;
    for (int level = 0; level < depth; level++) {
        struct bolt_element el = {0}, next;
        assert_false(node.leaf);
        for (uint32_t i = 0; i < node.count; i++) {
            assert_ok(bolt_element_at(&node, i, &next, &e));
            if (i > 0 && bolt_key_cmp(next.key, str_c(key)) > 0)
                break;
            el = next;
        }
        assert_ok(bolt_node_at(&b, el.child, &node, &e));
    }
    return (uint8_t *)image->p + node.page * PAGE;
}

static void swap_elements(uint8_t *page)
{
    uint8_t first[BOLT_ELEMENT_BYTES];
    memcpy(first, page + 16, sizeof(first));
    memcpy(page + 16, page + 32, sizeof(first));
    memcpy(page + 32, first, sizeof(first));
}

static void lower_first_key(uint8_t *page)
{
    page[16 + bolt_get32(page + (bolt_get16(page + 8) == BOLT_LEAF ? 20 : 16))] = 'a';
}

static void raise_first_key(uint8_t *page)
{
    page[16 + bolt_get32(page + (bolt_get16(page + 8) == BOLT_LEAF ? 20 : 16))] = 'z';
}

static void make_empty(uint8_t *page)
{
    bolt_put16(page + 10, 0);
}

/* Every element with the bytes of the first: a small page that would be written as a large one. */
static void overlap(uint8_t *page)
{
    for (uint32_t i = 1; i < bolt_get16(page + 10); i++)
        bolt_put32(page + 16 + (size_t)i * 16 + 4, bolt_get32(page + 20) - i * 16);
}

static void a_damaged_node_on_the_way_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int depth; /* 0 and 1 are branches, 2 is a leaf */
        void (*damage)(uint8_t *page);
        const char *says;
    } rows[] = {
        {"a top without children", 0, make_empty, "empty, and not the top"},
        {"a branch without children", 1, make_empty, "empty, and not the top"},
        {"a leaf without keys", 2, make_empty, "empty, and not the top"},
        {"a top out of order", 0, swap_elements, "does not lie behind"},
        {"a leaf out of order", 2, swap_elements, "does not lie behind"},
        {"elements that overlap", 2, overlap, "does not lie behind"},
        {"a branch that rises too early", 1, raise_first_key, "past the branch"},
        {"a leaf that rises too early", 2, raise_first_key, "past the branch"},
        {"a branch below its range", 1, lower_first_key, "below the branch"},
        {"a leaf below its range", 2, lower_first_key, "below the branch"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        auto_buf struct buf image = sound();
        const char *key = "key-00000300x";
        assert_ok(edit(&image, key, &e));
        uint8_t *page = node_of(&image, key, rows[i].depth);
        assert_int_equal(bolt_get16(page + 8), rows[i].depth == 2 ? BOLT_LEAF : BOLT_BRANCH);
        rows[i].damage(page);
        if (edit(&image, key, &e) == 0 || e.code != ERR_CORRUPT || !strstr(e.text, rows[i].says))
            fail_msg("%s: \"%s\"", rows[i].name, e.text);
    }
}

static void add_child(uint8_t *page, char key, uint64_t child)
{
    const uint16_t n = bolt_get16(page + 10);
    uint8_t *el = page + 16 + (size_t)n * 16;
    uint8_t *data = page + 16 + 3 * 16 + n; /* room for three elements, then a byte of key each */
    bolt_put32(el, (uint32_t)(data - el));
    bolt_put32(el + 4, 1);
    bolt_put64(el + 8, child);
    *data = (uint8_t)key;
    bolt_put16(page + 10, (uint16_t)(n + 1));
}

/* A chain that gives the tree its height, and beside it levels whose two elements point to the
 * same page of the next, down to a branch without children: 2^50 paths, none of which takes the
 * change away. */
static void levels_that_share_a_page_cost_no_more_than_a_path(void **state)
{
    (void)state;
    enum { LEVELS = 50, TOP = 3, CHAIN = TOP + 1, SHARED = CHAIN + LEVELS };
    struct err e = {0};
    const struct image_item only = {"b", BYTES("k"), BYTES("v")};
    auto_buf struct buf image = image_of(&only, 1, PAGE);
    static uint8_t pages[(SHARED + LEVELS) * PAGE];
    for (uint64_t page = TOP; page < SHARED + LEVELS; page++) {
        bolt_put64(pages + page * PAGE, page);
        bolt_put16(pages + page * PAGE + 8, page == SHARED - 1 ? BOLT_LEAF : BOLT_BRANCH);
    }
    add_child(pages + TOP * PAGE, 'a', CHAIN);
    add_child(pages + TOP * PAGE, 'b', SHARED);
    add_child(pages + TOP * PAGE, 'z', SHARED);
    for (uint64_t i = 0; i + 1 < LEVELS; i++) {
        add_child(pages + (CHAIN + i) * PAGE, 'a', CHAIN + i + 1);
        if (i + 2 < LEVELS) { /* the one before the leaf's level stays empty */
            add_child(pages + (SHARED + i) * PAGE, 'b', SHARED + i + 1);
            add_child(pages + (SHARED + i) * PAGE, 'z', SHARED + i + 1);
        }
    }
    assert_int_equal(
        image_write(&image, TOP * PAGE, pages + TOP * PAGE, sizeof(pages) - TOP * PAGE, &e), 0);
    struct bolt b;
    struct bolt_node root;
    struct bolt_element bucket;
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_ok(bolt_node_at(&b, b.meta.root, &root, &e));
    assert_ok(bolt_element_at(&root, 0, &bucket, &e));
    bolt_put64((uint8_t *)bucket.value.p, TOP);
    struct bolt_meta m = b.meta;
    m.pages = SHARED + LEVELS;
    m.txid++;
    bolt_meta_encode(&m, m.txid % 2, (uint8_t *)image.p + m.txid % 2 * PAGE);
    assert_err(edit(&image, "m", &e), ERR_CORRUPT, "page");
}

TEST_MAIN(TEST(a_damaged_node_on_the_way_is_refused),
          TEST(levels_that_share_a_page_cost_no_more_than_a_path))
