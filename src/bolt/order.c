/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/order.h"

#include <inttypes.h>

#include "bolt/layout.h"

const char *bolt_data_begin(const struct bolt_node *node)
{
    return (const char *)node->p + BOLT_HEADER_BYTES + (size_t)node->count * BOLT_ELEMENT_BYTES;
}

int bolt_check_filled(const struct bolt_node *node, bool top, struct err *e)
{
    if (node->count > 0 || (top && node->leaf))
        return 0;
    return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": empty, and not the top of a bucket",
                   node->page);
}

int bolt_check_packed(const struct bolt_node *node, const struct bolt_element *el, uint32_t index,
                      const char **end, struct err *e)
{
    if (el->key.p != *end)
        return err_set(e, ERR_CORRUPT, 0,
                       "page %" PRIu64 ": element %" PRIu32 " does not lie behind the one before",
                       node->page, index);
    *end = el->key.p + el->key.n + el->value.n;
    return 0;
}

int bolt_check_order(const struct bolt_node *node, uint32_t index, struct str before,
                     struct str key, const struct bolt_range *r, struct err *e)
{
    if (before.p && bolt_key_cmp(before, key) >= 0)
        return err_set(e, ERR_CORRUPT, 0, "page %" PRIu64 ": key %" PRIu32 " is out of order",
                       node->page, index);
    if (!before.p && r->low.p && bolt_key_cmp(key, r->low) < 0)
        return err_set(e, ERR_CORRUPT, 0,
                       "page %" PRIu64 ": first key is below the branch above it", node->page);
    if (r->high.p && bolt_key_cmp(key, r->high) >= 0)
        return err_set(e, ERR_CORRUPT, 0,
                       "page %" PRIu64 ": key %" PRIu32 " is past the branch above it", node->page,
                       index);
    return 0;
}
