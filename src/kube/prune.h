/* SPDX-License-Identifier: Apache-2.0
 * Leaves out of a JSON text what nobody will look at, before it is parsed: managedFields alone are
 * a third of a Pod and more than half of the nodes a parser would build of it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

struct buf;

enum { PRUNE_DEPTH_MAX = 5, PRUNE_PATHS_MAX = 16 };

struct prune_path {
    struct str keys[PRUNE_DEPTH_MAX];
    size_t n;
};

/* Paths of object keys, compiled once. */
struct prune {
    struct prune_path paths[PRUNE_PATHS_MAX];
    size_t n;
};

/* "spec.containers" below `under` ("object" in an event; "" in an object). Both are kept by
 * reference. Too many, or too deep, is a bug. */
void prune_add(struct prune *p, const char *under, const char *path);

/* Appends the text with null for each value at one of the paths. False, with out of no use: the
 * text is not an object as JSON writes it, or too large for out; parse the original then. What is
 * left out is not checked beyond its brackets and quotes. */
NODISCARD bool prune_text(const struct prune *p, struct str text, struct buf *out);
