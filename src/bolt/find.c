/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/find.h"

#include <inttypes.h>

#include "bolt/layout.h"

/* The number of elements whose key is <= key. */
static int upper_bound(const struct bolt_node *node, struct str key, uint32_t *out, struct err *e)
{
    uint32_t low = 0, high = node->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        struct bolt_element el;
        if (bolt_element_at(node, middle, &el, e) < 0)
            return -1;
        if (bolt_key_cmp(el.key, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    *out = low;
    return 0;
}

/* One level down; a loop of damaged branches ends at the depth limit. */
static int descend(const struct bolt *b, struct bolt_node *node, uint32_t index, int depth,
                   struct err *e)
{
    struct bolt_element el;
    if (node->count == 0 || depth > BOLT_DEPTH_MAX)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": %s", node->page,
                       node->count == 0 ? "a branch without children" : "the tree is too deep");
    if (bolt_element_at(node, index, &el, e) < 0)
        return -1;
    return bolt_node_at(b, el.child, node, e);
}

/* The leaf element of exactly this key. */
static int find_element(const struct bolt *b, struct bolt_node node, struct str key,
                        struct bolt_element *out, uint64_t *out_page, struct err *e)
{
    uint32_t n = 0;
    for (int depth = 0; !node.leaf; depth++) {
        if (upper_bound(&node, key, &n, e) < 0 ||
            descend(b, &node, n > 0 ? n - 1 : 0, depth, e) < 0)
            return -1;
    }
    if (upper_bound(&node, key, &n, e) < 0)
        return -1;
    if (n > 0) {
        if (bolt_element_at(&node, n - 1, out, e) < 0)
            return -1;
        *out_page = node.page;
        if (str_eq(out->key, key))
            return 0;
    }
    return err_set(e, ERR_NOT_FOUND, 0, "no such key");
}

int bolt_find_bucket(const struct bolt *b, struct str name, struct bolt_bucket *out, struct err *e)
{
    struct bolt_node root;
    struct bolt_element el = {0};
    uint64_t page = 0;
    if (bolt_node_at(b, b->meta.root, &root, e) < 0)
        return -1;
    if (find_element(b, root, name, &el, &page, e) < 0)
        return err_wrap(e, "bucket %.*s", STR_ARG(name));
    if (!el.is_bucket)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": %.*s is not a bucket", page,
                       STR_ARG(name));
    out->b = b;
    return bolt_bucket_node(b, el.value, page, &out->top, e);
}

int bolt_find(const struct bolt_bucket *bucket, struct str key, struct str *out_value,
              struct err *e)
{
    struct bolt_element el = {0};
    uint64_t page = 0;
    if (find_element(bucket->b, bucket->top, key, &el, &page, e) < 0)
        return -1;
    *out_value = el.value;
    return 0;
}

int bolt_find_last(const struct bolt_bucket *bucket, struct bolt_element *out, struct err *e)
{
    struct bolt_node node = bucket->top;
    for (int depth = 0; !node.leaf; depth++)
        if (descend(bucket->b, &node, node.count > 0 ? node.count - 1 : 0, depth, e) < 0)
            return -1;
    if (node.count == 0)
        return err_set(e, ERR_NOT_FOUND, 0, "the bucket is empty");
    return bolt_element_at(&node, node.count - 1, out, e);
}

static int each_node(const struct bolt *b, const struct bolt_node *node, int depth,
                     int (*item)(void *arg, const struct bolt_item *item, struct err *e), void *arg,
                     struct err *e)
{
    if (depth > BOLT_DEPTH_MAX)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": the tree is too deep", node->page);
    for (uint32_t i = 0; i < node->count; i++) {
        struct bolt_element el;
        struct bolt_node child;
        if (bolt_element_at(node, i, &el, e) < 0)
            return -1;
        if (node->leaf) {
            const struct bolt_item found = {el.key, el.value, node->page};
            if (item(arg, &found, e) < 0)
                return -1;
        } else if (bolt_node_at(b, el.child, &child, e) < 0 ||
                   each_node(b, &child, depth + 1, item, arg, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int bolt_each(const struct bolt_bucket *bucket,
              int (*item)(void *arg, const struct bolt_item *item, struct err *e), void *arg,
              struct err *e)
{
    return each_node(bucket->b, &bucket->top, 0, item, arg, e);
}
