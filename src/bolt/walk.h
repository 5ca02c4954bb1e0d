/* SPDX-License-Identifier: Apache-2.0
 * One pass over a whole file: every bucket and key in order, and the integrity of all of it.
 *
 * Checked: ids, kinds and bounds of pages; that each page is reached once; key order inside
 * pages and against the branches above; that keys and values lie packed behind their elements,
 * as bbolt writes them; bucket headers; the stored freelist, if there is one, against what is
 * reachable. Depth of the tree is bounded, memory is one bit per page. */
#pragma once
#include "bolt/db.h"

struct bolt_item {
    struct str key, value; /* borrowed from the file */
    uint64_t page;         /* where it lies */
};

/* Any callback may be NULL, and returns -1 with *e filled to end the walk. */
struct bolt_visitor {
    void *arg;
    int (*bucket)(void *arg, struct str name, uint64_t page, struct err *e); /* before its items */
    int (*item)(void *arg, const struct bolt_item *item, struct err *e);
    /* What is wrong, in words that name the page. 0: go on behind the damage, which is skipped.
     * Without this callback the first problem ends the walk with ERR_CORRUPT. */
    int (*problem)(void *arg, uint64_t page, const char *what, struct err *e);
    /* Where the walk is: for read-ahead, progress, cancellation, and to let go what lies behind.
     * Every page in use is told once, in pieces of at most a MiB or a page; those of an overflowing
     * node one by one as its elements are reached, the inside of a large value right after it. */
    int (*reach)(void *arg, uint64_t offset, uint64_t bytes, struct err *e);
    /* In the place of the items of a subtree that was walked before: see bolt_walk_part(). */
    int (*part)(void *arg, size_t index, struct err *e);
};

struct bolt_totals {
    uint64_t items;      /* in all buckets */
    uint64_t buckets;    /* named ones */
    uint64_t pages_used; /* reachable, with overflow and meta pages */
    uint64_t problems;
};

NODISCARD int bolt_walk(const struct bolt *b, const struct bolt_visitor *v, struct bolt_totals *out,
                        struct err *e);

/* --- The same in parts, for a file that is still being written: subtrees are walked as soon as
 * they are there, the rest once it is complete. Together they check what bolt_walk() checks. The
 * visitor is borrowed and has no `problem`. One thread at a time. */
struct bolt_parts;
struct bolt_parts *bolt_parts_new(const struct bolt_visitor *v) NONNULL;
void bolt_parts_free(struct bolt_parts *p); /* NULL-safe */
AUTO_DEFINE(struct bolt_parts, bolt_parts_free)

/* Walks the subtree at `page`, which is not the tree of buckets. Parts come in the order in which
 * a walk would come to them, and are numbered from 0. `b` need not be complete: bytes, page size
 * and the number of pages that are written are enough. ERR_CORRUPT: it does not count as walked. */
NODISCARD int bolt_walk_part(struct bolt_parts *p, const struct bolt *b, uint64_t page,
                             struct err *e);
/* From the root, over the parts to everything else; once. `b` may lie elsewhere in memory now. A
 * part is reached again at its top and its end. ERR_CORRUPT also: a part that is not reachable. */
NODISCARD int bolt_walk_rest(struct bolt_parts *p, const struct bolt *b, struct bolt_totals *out,
                             struct err *e);
