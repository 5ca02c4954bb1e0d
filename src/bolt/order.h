/* SPDX-License-Identifier: Apache-2.0
 * What holds between the elements of a node, and between a node and the branch above it. Whoever
 * takes a tree apart asks this of every node before it goes on what the node says. */
#pragma once
#include "bolt/db.h"

/* Keys of a subtree lie in [low, high); p == NULL: no bound. */
struct bolt_range {
    struct str low, high;
};

/* Where the keys and values of a node begin: right behind its elements. */
const char *bolt_data_begin(const struct bolt_node *node);

/* Only the leaf at the top of a bucket may be empty. ERR_CORRUPT. */
NODISCARD int bolt_check_filled(const struct bolt_node *node, bool top, struct err *e);

/* bbolt writes the keys and values of a page without gaps, in the order of the elements; a damaged
 * position or size breaks this even where it stays inside the page. *end is where the element
 * before ended, at first bolt_data_begin(), and is moved on. ERR_CORRUPT. */
NODISCARD int bolt_check_packed(const struct bolt_node *node, const struct bolt_element *el,
                                uint32_t index, const char **end, struct err *e);

/* Keys rise, and stay in the range that the branch above gives. `before` is the key before, p ==
 * NULL for the first. ERR_CORRUPT. */
NODISCARD int bolt_check_order(const struct bolt_node *node, uint32_t index, struct str before,
                               struct str key, const struct bolt_range *r, struct err *e);
