/* SPDX-License-Identifier: Apache-2.0
 * A tree is merged with its changes from left to right into a new tree. Where no change falls,
 * the old subtree is grafted in as it is, so the work is the paths to the changes.
 *
 * Nobody has checked the tree before. What is read is checked as it is read; and as the ranges of
 * the children of a branch follow each other, a node that was gone into has used up the changes in
 * its range, so that no more nodes are visited than there are changes times levels, even if the
 * levels of a damaged file all point to the same page. */
#include "bolt/edit.h"

#include <inttypes.h>

#include "base/mem.h"
#include "bolt/find.h"
#include "bolt/order.h"

enum { BUFFER_BYTES = 64 * 1024 }; /* a few pages */

struct merge {
    const struct bolt *b;
    struct bolt_tree *tree;
    const struct bolt_change *v; /* changes not yet applied */
    size_t n;
    uint32_t flags; /* of the elements this tree holds */
};

static int apply_first(struct merge *m, struct err *e)
{
    const struct bolt_change *c = m->v;
    m->v++;
    m->n--;
    return c->remove ? 0 : bolt_tree_put(m->tree, c->key, c->value, m->flags, e);
}

/* Whether a change is left that falls below this key; p == NULL: above all keys. */
static bool falls_below(const struct merge *m, struct str key)
{
    return m->n > 0 && (!key.p || bolt_key_cmp(m->v[0].key, key) < 0);
}

static int apply_below(struct merge *m, struct str key, struct err *e)
{
    while (falls_below(m, key))
        if (apply_first(m, e) < 0)
            return -1;
    return 0;
}

static int read_element(const struct bolt_node *node, uint32_t index, const struct bolt_range *r,
                        struct bolt_element *el, const char **end, struct err *e)
{
    const struct str before = el->key;
    return bolt_element_at(node, index, el, e) < 0 ||
                   bolt_check_packed(node, el, index, end, e) < 0 ||
                   bolt_check_order(node, index, before, el->key, r, e) < 0
               ? -1
               : 0;
}

static int merge_leaf(struct merge *m, const struct bolt_node *node, const struct bolt_range *r,
                      struct err *e)
{
    const char *end = bolt_data_begin(node);
    struct bolt_element el = {0};
    for (uint32_t i = 0; i < node->count; i++) {
        if (read_element(node, i, r, &el, &end, e) < 0 || apply_below(m, el.key, e) < 0)
            return -1;
        if (m->n > 0 && str_eq(m->v[0].key, el.key)) {
            if (apply_first(m, e) < 0)
                return -1;
            continue;
        }
        const uint32_t flags = el.is_bucket ? BOLT_ELEMENT_IS_BUCKET : 0;
        if (bolt_tree_put(m->tree, el.key, el.value, flags, e) < 0)
            return -1;
    }
    return apply_below(m, r->high, e);
}

static int merge_node(struct merge *m, const struct bolt_node *node, unsigned height,
                      const struct bolt_range *r, struct err *e);

static int merge_child(struct merge *m, const struct bolt_element *el, unsigned height,
                       const struct bolt_range *r, struct err *e)
{
    struct bolt_node child;
    if (!falls_below(m, r->high))
        return bolt_tree_graft(m->tree, height, el->key, el->child, e);
    if (bolt_node_at(m->b, el->child, &child, e) < 0 || bolt_check_filled(&child, false, e) < 0)
        return -1;
    return merge_node(m, &child, height, r, e);
}

/* `height` counts from the leaves: 1 is a leaf. */
static int merge_node(struct merge *m, const struct bolt_node *node, unsigned height,
                      const struct bolt_range *r, struct err *e)
{
    if (node->leaf != (height == 1))
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": leaves at different depths",
                       node->page);
    if (node->leaf)
        return merge_leaf(m, node, r, e);
    const char *end = bolt_data_begin(node);
    struct bolt_element el = {0}, next = {0};
    for (uint32_t i = 0; i <= node->count; i++, el = next) {
        if (i < node->count && read_element(node, i, r, &next, &end, e) < 0)
            return -1;
        const struct bolt_range child = {el.key, i < node->count ? next.key : r->high};
        if (i > 0 && merge_child(m, &el, height - 1, &child, e) < 0)
            return -1;
    }
    return 0;
}

static int height_of(const struct bolt *b, struct bolt_node node, unsigned *out, struct err *e)
{
    for (unsigned height = 1; height < BOLT_DEPTH_MAX; height++) {
        if (node.leaf) {
            *out = height;
            return 0;
        }
        struct bolt_element el;
        if (bolt_check_filled(&node, false, e) < 0 || bolt_element_at(&node, 0, &el, e) < 0 ||
            bolt_node_at(b, el.child, &node, e) < 0)
            return -1;
    }
    return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": the tree is too deep", node.page);
}

static int merge_tree(struct merge *m, const struct bolt_node *top, struct err *e)
{
    unsigned height = 0;
    const struct bolt_range all = {0};
    if (height_of(m->b, *top, &height, e) < 0)
        return -1;
    return merge_node(m, top, height, &all, e);
}

static int edit_bucket(const struct bolt *b, struct bolt_tree *tree,
                       const struct bolt_bucket_edit *edit, uint8_t *value, size_t *out_n,
                       struct err *e)
{
    struct merge m = {.b = b, .tree = tree, .v = edit->v, .n = edit->n};
    struct bolt_bucket old;
    const bool found = bolt_find_bucket(b, edit->name, &old, e) == 0;
    if (!found && e->code != ERR_NOT_FOUND)
        return -1;
    if (found && !edit->clear && merge_tree(&m, &old.top, e) < 0)
        return -1;
    if (apply_below(&m, (struct str){0}, e) < 0)
        return -1;
    return bolt_tree_to_bucket(tree, value, out_n, e);
}

struct rewrite {
    struct bolt_out out;
    struct bolt_tree tree;
    struct bolt_change *roots; /* the changed buckets, as changes to the root tree */
    uint8_t *values;
};

static void rewrite_done(struct rewrite *r)
{
    bolt_tree_done(&r->tree);
    bolt_out_done(&r->out);
    free(r->roots);
    free(r->values);
}

int bolt_edit(const struct bolt *b, const struct bolt_bucket_edit *edits, size_t n,
              const struct bolt_sink *sink, struct bolt_meta *out, struct err *e)
{
    const size_t value_max = bolt_inline_max(b->meta.page_size);
    AUTO(rewrite_done)
    struct rewrite r = {.roots = xcalloc(n, sizeof(*r.roots)), .values = xcalloc(n, value_max)};
    bolt_out_init(&r.out, sink, b->meta.page_size, b->meta.pages, BUFFER_BYTES);
    bolt_tree_init(&r.tree, &r.out);
    for (size_t i = 0; i < n; i++) {
        uint8_t *value = r.values + i * value_max;
        size_t value_n = 0;
        if (edit_bucket(b, &r.tree, &edits[i], value, &value_n, e) < 0)
            return err_wrap(e, "bucket %.*s", STR_ARG(edits[i].name));
        r.roots[i] =
            (struct bolt_change){.key = edits[i].name, .value = {(const char *)value, value_n}};
    }
    struct merge m = {
        .b = b, .tree = &r.tree, .v = r.roots, .n = n, .flags = BOLT_ELEMENT_IS_BUCKET};
    struct bolt_node root;
    struct bolt_meta meta = b->meta;
    if (bolt_node_at(b, b->meta.root, &root, e) < 0 || merge_tree(&m, &root, e) < 0 ||
        apply_below(&m, (struct str){0}, e) < 0 || bolt_tree_to_page(&r.tree, &meta.root, e) < 0 ||
        bolt_out_flush(&r.out, e) < 0)
        return -1;
    meta.pages = r.out.next;
    meta.freelist = BOLT_NO_FREELIST;
    meta.txid++;
    *out = meta;
    return 0;
}
