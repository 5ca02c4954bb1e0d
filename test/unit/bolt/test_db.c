/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/db.h"

#include "bolt/layout.h"
#include "image.h"
#include "unit.h"

enum { META = BOLT_HEADER_BYTES + BOLT_META_BYTES };

static void the_meta_page_has_its_known_checksum(void **state)
{
    (void)state;
    const struct bolt_meta m = {
        .page_size = 4096, .root = 0x584, .freelist = BOLT_NO_FREELIST, .pages = 0x585, .txid = 2};
    uint8_t page[META];
    bolt_meta_encode(&m, 0, page);
    const uint8_t want[] = {0x1c, 0x37, 0x3c, 0xcc, 0x81, 0x1c, 0x6f, 0xef};
    assert_memory_equal(page + 72, want, sizeof(want));
    struct bolt_meta again;
    assert_true(bolt_meta_decode(page, sizeof(page), &again));
    assert_int_equal(again.page_size, m.page_size);
    assert_int_equal(again.root, m.root);
    assert_int_equal(again.freelist, m.freelist);
    assert_int_equal(again.pages, m.pages);
    assert_int_equal(again.txid, m.txid);
    for (size_t i = 16; i < META; i++) { /* every byte counts, whichever it is */
        page[i] ^= 0x40;
        assert_false(bolt_meta_decode(page, sizeof(page), &again));
        page[i] ^= 0x40;
    }
    assert_false(bolt_meta_decode(page, META - 1, &again));
}

static void the_newer_valid_meta_counts(void **state)
{
    (void)state;
    const struct image_item items[] = {{"b", BYTES("k"), BYTES("v")}};
    struct err e = {0};
    struct bolt b;
    for (uint32_t size = 1024; size <= 65536; size *= 2) {
        auto_buf struct buf image = image_of(items, 1, size);
        assert_ok(bolt_open(&b, image.p, image.n, &e));
        assert_int_equal(b.meta.txid, 2);
        assert_int_equal(b.meta.page_size, size);
        image.p[40] ^= 1; /* page 0 is torn: page 1 is found by looking for it */
        assert_ok(bolt_open(&b, image.p, image.n, &e));
        assert_true(!b.valid[0] && b.valid[1]);
        assert_int_equal(b.meta.txid, 1);
        image.p[size + 40] ^= 1;
        assert_err(bolt_open(&b, image.p, image.n, &e), ERR_CORRUPT, "neither meta page");
    }
}

static void a_file_shorter_than_its_meta_says_is_refused(void **state)
{
    (void)state;
    const struct image_item items[] = {{"b", BYTES("k"), BYTES("v")}};
    struct err e = {0};
    struct bolt b;
    auto_buf struct buf image = image_of(items, 1, 4096);
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    assert_err(bolt_open(&b, image.p, image.n - 1, &e), ERR_CORRUPT, "the file has");
    assert_err(bolt_open(&b, image.p, 79, &e), ERR_CORRUPT, "neither");
    assert_err(bolt_open(&b, NULL, 0, &e), ERR_CORRUPT, "neither");
}

static void nodes_are_checked_before_use(void **state)
{
    (void)state;
    const struct image_item items[] = {{"b", BYTES("k"), BYTES("v")}};
    struct err e = {0};
    struct bolt b;
    struct bolt_node node;
    struct bolt_element el;
    auto_buf struct buf image = image_of(items, 1, 4096);
    assert_ok(bolt_open(&b, image.p, image.n, &e));
    uint8_t *page = (uint8_t *)image.p + b.meta.root * 4096;
    assert_ok(bolt_node_at(&b, b.meta.root, &node, &e));
    assert_ok(bolt_element_at(&node, 0, &el, &e));
    assert_err(bolt_node_at(&b, 1, &node, &e), ERR_CORRUPT, "outside");
    assert_err(bolt_node_at(&b, b.meta.pages, &node, &e), ERR_CORRUPT, "outside");
    assert_err(bolt_node_at(&b, UINT64_MAX, &node, &e), ERR_CORRUPT, "outside");

    static const struct {
        size_t at;
        uint8_t value;
        const char *says;
    } damage[] = {{0, 9, "says it is page 9"},
                  {8, 3, "neither branch nor leaf"},
                  {12, 200, "pass the end"},
                  {11, 1, "elements do not fit"}};
    for (size_t i = 0; i < COUNT_OF(damage); i++) {
        const uint8_t before = page[damage[i].at];
        page[damage[i].at] = damage[i].value;
        assert_err(bolt_node_at(&b, b.meta.root, &node, &e), ERR_CORRUPT, damage[i].says);
        page[damage[i].at] = before;
    }
    static const struct {
        size_t at;
        const char *says;
    } elements[] = {{16 + 1, "flags"},
                    {20 + 2, "passes its end"},
                    {24 + 1, "passes its end"},
                    {24 + 2, "a key of"},
                    {28 + 1, "passes its end"}};
    assert_ok(bolt_node_at(&b, b.meta.root, &node, &e));
    for (size_t i = 0; i < COUNT_OF(elements); i++) {
        page[elements[i].at] ^= 0x70;
        assert_err(bolt_element_at(&node, 0, &el, &e), ERR_CORRUPT, elements[i].says);
        page[elements[i].at] ^= 0x70;
    }
}

TEST_MAIN(TEST(the_meta_page_has_its_known_checksum), TEST(the_newer_valid_meta_counts),
          TEST(a_file_shorter_than_its_meta_says_is_refused), TEST(nodes_are_checked_before_use))
