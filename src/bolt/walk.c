/* SPDX-License-Identifier: Apache-2.0
 * Depth first, left to right. A damaged node is reported and skipped with all below it; what is
 * unreachable for that reason is then not reported a second time by the freelist check. */
#include "bolt/walk.h"

#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"
#include "base/vec.h"
#include "bolt/layout.h"
#include "bolt/order.h"

/* A subtree that was walked before: what must be known to take it in. */
struct part {
    uint64_t page;
    uint64_t last_at; /* offset of its last key */
    uint32_t last_n;
    int height;
};

struct walk {
    const struct bolt *b;
    const struct bolt_visitor *v;
    struct bolt_totals totals;
    uint8_t *seen; /* one bit per page */
    uint64_t room; /* pages it has bits for */
    VEC(struct part) parts;
    size_t taken; /* parts that the walk from the root has come to; at first it takes none */

    struct str last; /* key of the last leaf */
    int deepest;
};

/* A file that is being written grows from part to part. */
static void look_at(struct walk *w, const struct bolt *b)
{
    w->b = b;
    if (b->meta.pages <= w->room)
        return;
    const uint64_t before = w->room / 8;
    const uint64_t more = w->room + w->room / 2;
    w->room = ((more > b->meta.pages ? more : b->meta.pages) + 7) / 8 * 8;
    w->seen = xrealloc_array(w->seen, (size_t)(w->room / 8), 1);
    memset(w->seen + before, 0, (size_t)(w->room / 8 - before));
}

static void release(struct walk *w)
{
    free(TAKE(w->seen));
    vec_done(&w->parts);
}

/* The problem in *e goes to the visitor. Returns 0 to go on behind it. */
static int report(struct walk *w, uint64_t page, struct err *e)
{
    if (e->code != ERR_CORRUPT || !w->v->problem)
        return -1;
    const struct err found = *e;
    *e = (struct err){0};
    w->totals.problems++;
    return w->v->problem(w->v->arg, page, found.text, e);
}

static bool was_seen(const struct walk *w, uint64_t page)
{
    return (w->seen[page / 8] >> (page % 8) & 1) != 0;
}

static int mark_seen(struct walk *w, const struct bolt_node *node, struct err *e)
{
    for (uint64_t page = node->page; page < node->page + node->span; page++) {
        if (was_seen(w, page))
            return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": reached twice", page);
        w->seen[page / 8] = (uint8_t)(w->seen[page / 8] | 1U << (page % 8));
    }
    w->totals.pages_used += node->span;
    return 0;
}

/* A node is written to as many pages as it needs. One more was allocated by very old versions. */
static int check_span(const struct walk *w, const struct bolt_node *node, const char *end,
                      struct err *e)
{
    const uint64_t used = (uint64_t)(end - (const char *)node->p);
    if (node->span == 0) /* an inline bucket is exactly as long as it needs to be */
        return used == node->n
                   ? 0
                   : err_set(e, ERR_CORRUPT, 0,
                             "page %" PRIu64 ": an inline bucket of %zu bytes where %" PRIu64
                             " are needed",
                             node->page, node->n, used);
    const uint64_t needed = (used + w->b->meta.page_size - 1) / w->b->meta.page_size;
    if (node->span > needed + 1)
        return err_set(e, ERR_CORRUPT, 0,
                       "page %" PRIu64 ": %" PRIu64 " overflow pages where %" PRIu64 " are needed",
                       node->page, node->span - 1, needed - 1);
    return 0;
}

/* Tells the visitor of whole pages up to the one that holds the byte before `end`, in pieces. The
 * first page of a node was told before it was looked at; an inline bucket has none of its own. */
static int reach_to(struct walk *w, const struct bolt_node *node, uint64_t *reached,
                    const char *end, struct err *e)
{
    enum { PIECE_BYTES = 1024 * 1024 };
    const uint64_t size = w->b->meta.page_size, used = (uint64_t)(end - (const char *)node->p);
    const uint64_t most = size > PIECE_BYTES ? size : PIECE_BYTES;
    while (used > *reached && w->v->reach && node->span > 0) {
        const uint64_t left = (used - *reached + size - 1) / size * size;
        const uint64_t part = left < most ? left : most;
        if (w->v->reach(w->v->arg, node->page * size + *reached, part, e) < 0)
            return -1;
        *reached += part;
    }
    return 0;
}

static int walk_bucket(struct walk *w, struct str name, struct str value, uint64_t page,
                       struct err *e);

static int walk_element(struct walk *w, const struct bolt_node *node, const struct bolt_element *el,
                        bool top, struct err *e)
{
    if (el->is_bucket != top)
        return err_set(e, ERR_CORRUPT, 0,
                       top ? "page %" PRIu64 ": a key outside any bucket"
                           : "page %" PRIu64 ": a bucket inside a bucket",
                       node->page);
    if (top)
        return walk_bucket(w, el->key, el->value, node->page, e);
    w->totals.items++;
    if (!w->v->item)
        return 0;
    const struct bolt_item item = {el->key, el->value, node->page};
    return w->v->item(w->v->arg, &item, e);
}

/* The walk leaps from key to key, over values it may not look at, and the processor does not
 * foresee where it lands. The key after the next one is there if the next value is as long as this
 * one. Only a hint: it does nothing where there is no memory. */
static void fetch_after(const char *end, size_t n)
{
    __builtin_prefetch((const void *)((uintptr_t)end + n));
}

/* `top`: the tree of buckets, whose elements are buckets. A value is reached where it begins, and
 * in all its length only after the visitor had it: what is let go behind the reader has been read
 * then, however large it is. */
static int walk_leaf(struct walk *w, const struct bolt_node *node, const struct bolt_range *r,
                     bool top, struct err *e)
{
    struct str before = {0};
    const char *end = bolt_data_begin(node);
    uint64_t reached = w->b->meta.page_size;
    for (uint32_t i = 0; i < node->count; i++) {
        struct bolt_element el;
        if (bolt_element_at(node, i, &el, e) < 0 || bolt_check_packed(node, &el, i, &end, e) < 0)
            return report(w, node->page, e);
        fetch_after(end, (size_t)(end - el.key.p));
        if (reach_to(w, node, &reached, el.key.p + 1, e) < 0)
            return -1;
        if (bolt_check_order(node, i, before, el.key, r, e) < 0 && report(w, node->page, e) < 0)
            return -1;
        before = el.key;
        if (walk_element(w, node, &el, top, e) < 0 && report(w, node->page, e) < 0)
            return -1;
        if (reach_to(w, node, &reached, end, e) < 0)
            return -1;
    }
    w->last = before;
    if (check_span(w, node, end, e) < 0 && report(w, node->page, e) < 0)
        return -1;
    return reach_to(w, node, &reached, (const char *)node->p + node->n, e);
}

static int walk_page(struct walk *w, uint64_t page, const struct bolt_range *r, bool top, int depth,
                     struct err *e);

static int walk_branch(struct walk *w, const struct bolt_node *node, const struct bolt_range *r,
                       bool top, int depth, struct err *e)
{
    const char *end = bolt_data_begin(node);
    uint64_t reached = w->b->meta.page_size;
    struct bolt_element el = {0}, next = {0};
    for (uint32_t i = 0; i <= node->count; i++, el = next) {
        if (i < node->count && (bolt_element_at(node, i, &next, e) < 0 ||
                                bolt_check_packed(node, &next, i, &end, e) < 0 ||
                                bolt_check_order(node, i, el.key, next.key, r, e) < 0))
            return report(w, node->page, e);
        if (reach_to(w, node, &reached, end, e) < 0)
            return -1;
        if (i == 0)
            continue;
        const struct bolt_range child = {el.key, i < node->count ? next.key : r->high};
        if (walk_page(w, el.child, &child, top, depth + 1, e) < 0)
            return -1;
    }
    if (check_span(w, node, end, e) < 0 && report(w, node->page, e) < 0)
        return -1;
    return reach_to(w, node, &reached, (const char *)node->p + node->n, e);
}

static int walk_node(struct walk *w, const struct bolt_node *node, const struct bolt_range *r,
                     bool top, int depth, struct err *e)
{
    if (bolt_check_filled(node, depth == 0, e) < 0)
        return report(w, node->page, e);
    return node->leaf ? walk_leaf(w, node, r, top, e) : walk_branch(w, node, r, top, depth, e);
}

static int check_depth(uint64_t page, int depth, struct err *e)
{
    if (depth <= BOLT_DEPTH_MAX)
        return 0;
    return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": more than %d levels deep", page,
                   BOLT_DEPTH_MAX);
}

/* What is left to ask of a part is whether it fits where it is: its first key is that of its top,
 * its last one was noted. */
static int take_part(struct walk *w, const struct bolt_node *node, const struct bolt_range *r,
                     int depth, struct err *e)
{
    const struct part *part = &w->parts.v[w->taken];
    const uint64_t size = w->b->meta.page_size;
    const struct str last = {(const char *)w->b->p + part->last_at, part->last_n};
    struct bolt_element first;
    if (part->last_at + part->last_n > w->b->meta.pages * size)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": passes the end", part->page);
    if (check_depth(part->page, depth + part->height, e) < 0 ||
        bolt_element_at(node, 0, &first, e) < 0 ||
        bolt_check_order(node, 0, (struct str){0}, first.key, r, e) < 0 ||
        (w->v->reach && w->v->reach(w->v->arg, part->last_at / size * size, size, e) < 0) ||
        bolt_check_order(node, node->count - 1, (struct str){0}, last, r, e) < 0)
        return -1;
    const size_t index = w->taken++;
    return w->v->part ? w->v->part(w->v->arg, index, e) : 0;
}

static int walk_page(struct walk *w, uint64_t page, const struct bolt_range *r, bool top, int depth,
                     struct err *e)
{
    const uint64_t size = w->b->meta.page_size;
    if (check_depth(page, depth, e) < 0)
        return report(w, page, e);
    w->deepest = depth > w->deepest ? depth : w->deepest;
    if (w->v->reach && page < w->b->meta.pages && w->v->reach(w->v->arg, page * size, size, e) < 0)
        return -1;
    struct bolt_node node;
    if (bolt_node_at(w->b, page, &node, e) < 0)
        return report(w, page, e);
    if (!top && w->taken < w->parts.n && page == w->parts.v[w->taken].page)
        return take_part(w, &node, r, depth, e);
    if (mark_seen(w, &node, e) < 0)
        return report(w, page, e);
    return walk_node(w, &node, r, top, depth, e);
}

static int walk_bucket(struct walk *w, struct str name, struct str value, uint64_t page,
                       struct err *e)
{
    w->totals.buckets++;
    if (w->v->bucket && w->v->bucket(w->v->arg, name, page, e) < 0)
        return -1;
    const struct bolt_range all = {0};
    if (value.n >= BOLT_BUCKET_BYTES && bolt_get64((const uint8_t *)value.p) != 0)
        return walk_page(w, bolt_get64((const uint8_t *)value.p), &all, false, 0, e);
    struct bolt_node node;
    if (bolt_bucket_node(w->b, value, page, &node, e) < 0)
        return -1; /* reported by the caller's loop, with the page of the bucket */
    return walk_node(w, &node, &all, false, 0, e);
}

static int check_free_page(struct walk *w, uint64_t id, uint64_t before, struct err *e)
{
    if (id < 2 || id >= w->b->meta.pages)
        return err_set(e, ERR_CORRUPT, 0, "freelist: page %" PRIu64 " is outside the file", id);
    if (id <= before)
        return err_set(e, ERR_CORRUPT, 0, "freelist: page %" PRIu64 " is out of order", id);
    if (was_seen(w, id))
        return err_set(e, ERR_CORRUPT, 0, "freelist: page %" PRIu64 " is in use", id);
    return 0;
}

static int find_freelist(const struct bolt *b, const uint8_t **out_ids, uint64_t *out_n,
                         uint64_t *out_span, struct err *e)
{
    const uint64_t page = b->meta.freelist, pages = b->meta.pages;
    if (page < 2 || page >= pages)
        return err_set(e, ERR_CORRUPT, 0, "freelist: page %" PRIu64 " is outside the file", page);
    if (bolt_await(b, page, 1, e) < 0)
        return -1;
    const uint8_t *p = b->p + page * b->meta.page_size;
    const uint64_t overflow = bolt_get32(p + 12);
    if (bolt_get64(p) != page || bolt_get16(p + 8) != BOLT_FREELIST || overflow >= pages - page)
        return err_set(e, ERR_CORRUPT, 0, "freelist: page %" PRIu64 " is not a freelist", page);
    if (bolt_await(b, page, overflow + 1, e) < 0)
        return -1;
    uint64_t n = bolt_get16(p + 10);
    const uint8_t *ids = p + BOLT_HEADER_BYTES;
    uint64_t room = ((overflow + 1) * b->meta.page_size - BOLT_HEADER_BYTES) / 8;
    if (n == BOLT_LONG_FREELIST) {
        n = bolt_get64(ids);
        ids += 8;
        room--;
    }
    if (n > room)
        return err_set(e, ERR_CORRUPT, 0, "freelist: page %" PRIu64 ": %" PRIu64 " ids do not fit",
                       page, n);
    *out_ids = ids;
    *out_n = n;
    *out_span = overflow + 1;
    return 0;
}

/* With a stored freelist every page is either reachable or free, never both, never neither. */
static int walk_freelist(struct walk *w, struct err *e)
{
    const uint64_t page = w->b->meta.freelist;
    if (page == BOLT_NO_FREELIST)
        return 0;
    const bool whole = w->totals.problems == 0;
    const uint8_t *ids = NULL;
    uint64_t n = 0, span = 0;
    if (find_freelist(w->b, &ids, &n, &span, e) < 0)
        return report(w, page, e);
    const struct bolt_node self = {.page = page, .span = span};
    if (mark_seen(w, &self, e) < 0)
        return report(w, page, e);
    uint64_t before = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t id = bolt_get64(ids + i * 8);
        if (check_free_page(w, id, before, e) < 0)
            return report(w, page, e);
        before = id;
    }
    if (whole && n + w->totals.pages_used != w->b->meta.pages) {
        err_set(e, ERR_CORRUPT, 0,
                "freelist: %" PRIu64 " pages are free and %" PRIu64 " in use, of %" PRIu64, n,
                w->totals.pages_used, w->b->meta.pages);
        return report(w, page, e);
    }
    return 0;
}

static int walk_file(struct walk *w, const struct bolt *b, struct bolt_totals *out, struct err *e)
{
    const struct bolt_range all = {0};
    look_at(w, b);
    w->taken = 0;
    if (walk_page(w, b->meta.root, &all, true, 0, e) < 0 || walk_freelist(w, e) < 0)
        return -1;
    if (w->taken < w->parts.n)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": no branch names it, or not in order",
                       w->parts.v[w->taken].page);
    *out = w->totals;
    return 0;
}

int bolt_walk(const struct bolt *b, const struct bolt_visitor *v, struct bolt_totals *out,
              struct err *e)
{
    AUTO(release) struct walk w = {.v = v, .totals = {.pages_used = 2}};
    return walk_file(&w, b, out, e);
}

struct bolt_parts {
    struct walk walk;
};

struct bolt_parts *bolt_parts_new(const struct bolt_visitor *v)
{
    assert(!v->problem);
    struct bolt_parts *p = xcalloc(1, sizeof(*p));
    p->walk = (struct walk){.v = v, .totals = {.pages_used = 2}, .taken = SIZE_MAX};
    return p;
}

void bolt_parts_free(struct bolt_parts *p)
{
    if (!p)
        return;
    release(&p->walk);
    free(p);
}

/* As if below some branch: the top of a bucket may be empty, a part may not. */
int bolt_walk_part(struct bolt_parts *p, const struct bolt *b, uint64_t page, struct err *e)
{
    struct walk *w = &p->walk;
    const struct bolt_range all = {0};
    const int depth = 1;
    w->deepest = depth;
    look_at(w, b);
    if (walk_page(w, page, &all, false, depth, e) < 0)
        return -1;
    vec_push(&w->parts, (struct part){.page = page,
                                      .last_at = (uint64_t)((const uint8_t *)w->last.p - b->p),
                                      .last_n = (uint32_t)w->last.n,
                                      .height = w->deepest - depth});
    return 0;
}

int bolt_walk_rest(struct bolt_parts *p, const struct bolt *b, struct bolt_totals *out,
                   struct err *e)
{
    return walk_file(&p->walk, b, out, e);
}
