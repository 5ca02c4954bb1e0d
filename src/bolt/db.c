/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/db.h"

#include <inttypes.h>

#include "bolt/layout.h"

static uint64_t fnv1a(const uint8_t *p, size_t n)
{
    uint64_t h = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * UINT64_C(0x100000001B3);
    return h;
}

enum { CHECKSUM_AT = BOLT_HEADER_BYTES + BOLT_META_BYTES - 8 };

bool bolt_meta_decode(const uint8_t *p, size_t n, struct bolt_meta *out)
{
    if (n < BOLT_HEADER_BYTES + BOLT_META_BYTES)
        return false;
    if (bolt_get32(p + 16) != BOLT_MAGIC || bolt_get32(p + 20) != BOLT_VERSION)
        return false;
    const size_t covered = CHECKSUM_AT - BOLT_HEADER_BYTES;
    if (bolt_get64(p + CHECKSUM_AT) != fnv1a(p + BOLT_HEADER_BYTES, covered))
        return false;
    const struct bolt_meta m = {
        .page_size = bolt_get32(p + 24),
        .root = bolt_get64(p + 32),
        .freelist = bolt_get64(p + 48),
        .pages = bolt_get64(p + 56),
        .txid = bolt_get64(p + 64),
    };
    if (m.page_size < BOLT_PAGE_MIN || m.page_size > BOLT_PAGE_MAX ||
        (m.page_size & (m.page_size - 1)) != 0)
        return false;
    *out = m;
    return true;
}

void bolt_meta_encode(const struct bolt_meta *m, uint64_t page, uint8_t *out)
{
    memset(out, 0, BOLT_HEADER_BYTES + BOLT_META_BYTES);
    bolt_put64(out, page);
    bolt_put16(out + 8, BOLT_META);
    bolt_put32(out + 16, BOLT_MAGIC);
    bolt_put32(out + 20, BOLT_VERSION);
    bolt_put32(out + 24, m->page_size);
    bolt_put64(out + 32, m->root);
    bolt_put64(out + 48, m->freelist);
    bolt_put64(out + 56, m->pages);
    bolt_put64(out + 64, m->txid);
    bolt_put64(out + CHECKSUM_AT, fnv1a(out + BOLT_HEADER_BYTES, CHECKSUM_AT - BOLT_HEADER_BYTES));
}

/* Page 1 is found through page 0's page size; if page 0 is damaged, at each place it can be. */
static bool find_second(const uint8_t *p, size_t n, uint32_t page_size, struct bolt_meta *out)
{
    for (size_t at = BOLT_PAGE_MIN; at <= BOLT_PAGE_MAX && at < n; at *= 2) {
        if (page_size != 0 && at != page_size)
            continue;
        if (bolt_meta_decode(p + at, n - at, out) && out->page_size == at)
            return true;
    }
    return false;
}

int bolt_open(struct bolt *b, const void *bytes, size_t n, struct err *e)
{
    *b = (struct bolt){.p = bytes, .n = n};
    struct bolt_meta first = {0}, second = {0};
    b->valid[0] = bolt_meta_decode(b->p, n, &first);
    b->valid[1] = find_second(b->p, n, b->valid[0] ? first.page_size : 0, &second);
    if (!b->valid[0] && !b->valid[1])
        return err_set(e, ERR_CORRUPT, 0,
                       "neither meta page (0, 1) is valid: not a bbolt database, or damaged");
    b->meta = b->valid[1] && (!b->valid[0] || second.txid > first.txid) ? second : first;
    const struct bolt_meta *m = &b->meta;
    if (m->pages < 3 || m->pages > n / m->page_size)
        return err_set(e, ERR_CORRUPT, 0,
                       "meta page says %" PRIu64 " pages of %" PRIu32 " bytes, the file has %zu",
                       m->pages, m->page_size, n / m->page_size);
    return 0;
}

/* The element array must fit; what it points to is checked when it is used. */
static int node_init(struct bolt_node *node, const uint8_t *p, size_t n, struct err *e)
{
    const uint16_t flags = bolt_get16(p + 8);
    if (flags != BOLT_BRANCH && flags != BOLT_LEAF)
        return err_set(e, ERR_CORRUPT, 0,
                       "page %" PRIu64 ": flags 0x%x are neither branch nor leaf", node->page,
                       flags);
    node->p = p;
    node->n = n;
    node->leaf = flags == BOLT_LEAF;
    node->count = bolt_get16(p + 10);
    if (node->count > (n - BOLT_HEADER_BYTES) / BOLT_ELEMENT_BYTES)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": %" PRIu32 " elements do not fit",
                       node->page, node->count);
    return 0;
}

int bolt_await(const struct bolt *b, uint64_t page, uint64_t span, struct err *e)
{
    const uint64_t size = b->meta.page_size;
    return b->arrival ? b->arrival->await(b->arrival->arg, page * size, span * size, e) : 0;
}

int bolt_node_at(const struct bolt *b, uint64_t page, struct bolt_node *out, struct err *e)
{
    const uint64_t pages = b->meta.pages;
    if (page < 2 || page >= pages)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": outside the file's 2 to %" PRIu64,
                       page, pages - 1);
    if (bolt_await(b, page, 1, e) < 0)
        return -1;
    const uint8_t *p = b->p + page * b->meta.page_size;
    const uint64_t id = bolt_get64(p);
    if (id != page)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": says it is page %" PRIu64, page, id);
    const uint64_t overflow = bolt_get32(p + 12);
    if (overflow >= pages - page)
        return err_set(e, ERR_CORRUPT, 0,
                       "page %" PRIu64 ": %" PRIu64 " overflow pages pass the end", page, overflow);
    struct bolt_node node = {.page = page, .span = overflow + 1};
    if (bolt_await(b, page, node.span, e) < 0 ||
        node_init(&node, p, (size_t)node.span * b->meta.page_size, e) < 0)
        return -1;
    *out = node;
    return 0;
}

int bolt_element_at(const struct bolt_node *node, uint32_t index, struct bolt_element *out,
                    struct err *e)
{
    const size_t at = BOLT_HEADER_BYTES + (size_t)index * BOLT_ELEMENT_BYTES;
    const uint8_t *p = node->p + at;
    const uint64_t left = node->n - at;
    uint64_t pos = 0, key_n = 0, value_n = 0;
    struct bolt_element el = {0};
    if (node->leaf) {
        const uint32_t flags = bolt_get32(p);
        if (flags > BOLT_ELEMENT_IS_BUCKET)
            return err_set(e, ERR_CORRUPT, 0,
                           "page %" PRIu64 ": element %" PRIu32 " has flags 0x%" PRIx32, node->page,
                           index, flags);
        el.is_bucket = flags == BOLT_ELEMENT_IS_BUCKET;
        pos = bolt_get32(p + 4);
        key_n = bolt_get32(p + 8);
        value_n = bolt_get32(p + 12);
    } else {
        pos = bolt_get32(p);
        key_n = bolt_get32(p + 4);
        el.child = bolt_get64(p + 8);
    }
    if (key_n == 0 || key_n > BOLT_KEY_MAX)
        return err_set(e, ERR_CORRUPT, 0,
                       "page %" PRIu64 ": element %" PRIu32 " has a key of %" PRIu64 " bytes",
                       node->page, index, key_n);
    /* Sums of three 32-bit numbers: no overflow. */
    if (pos + key_n + value_n > left)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": element %" PRIu32 " passes its end",
                       node->page, index);
    el.key = (struct str){(const char *)p + pos, (size_t)key_n};
    el.value = (struct str){el.key.p + key_n, (size_t)value_n};
    *out = el;
    return 0;
}

int bolt_bucket_node(const struct bolt *b, struct str value, uint64_t page, struct bolt_node *out,
                     struct err *e)
{
    if (value.n < BOLT_BUCKET_BYTES)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": bucket header of %zu bytes", page,
                       value.n);
    const uint8_t *p = (const uint8_t *)value.p;
    const uint64_t root = bolt_get64(p);
    if (root != 0)
        return bolt_node_at(b, root, out, e);
    const size_t n = value.n - BOLT_BUCKET_BYTES;
    if (n < BOLT_HEADER_BYTES)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": inline bucket of %zu bytes", page, n);
    struct bolt_node node = {.page = page};
    if (node_init(&node, p + BOLT_BUCKET_BYTES, n, e) < 0)
        return -1;
    if (!node.leaf || bolt_get64(node.p) != 0 || bolt_get32(node.p + 12) != 0)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": inline bucket is not one leaf", page);
    *out = node;
    return 0;
}

int bolt_key_cmp(struct str a, struct str b)
{
    const int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return order != 0 ? order : (a.n > b.n) - (a.n < b.n);
}
