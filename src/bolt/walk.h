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
};

struct bolt_totals {
    uint64_t items;      /* in all buckets */
    uint64_t buckets;    /* named ones */
    uint64_t pages_used; /* reachable, with overflow and meta pages */
    uint64_t problems;
};

NODISCARD int bolt_walk(const struct bolt *b, const struct bolt_visitor *v, struct bolt_totals *out,
                        struct err *e);
