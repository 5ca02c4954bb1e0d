/* SPDX-License-Identifier: Apache-2.0
 * Building B+trees bottom up, in key order, one sequential stream of new pages. The bulk writer
 * and the copy-on-write edit are both made of this.
 *
 * Keys and values are borrowed until their leaf is written: they normally lie in a mapped file,
 * and copying them twice would be most of the work. Memory is the entries of one node per level and
 * one output buffer, whatever the size of the values. */
#pragma once
#include "bolt/db.h"
#include "bolt/layout.h"

/* Where new pages go. Offsets rise without gaps, except that meta pages are written last. All
 * callbacks but `write` may be NULL. */
struct bolt_sink {
    void *arg;
    int (*write)(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e);
    /* Where the next pages are collected, n bytes. It stays the sink's, and is untouched once it
     * was written: a sink with several can let `write` return before the work is done. */
    uint8_t *(*buffer)(void *arg, size_t n);
    /* Of the bulk writer: a branch over leaves, at `page`, and all below it will have been written
     * when everything before `end` was. */
    void (*subtree)(void *arg, uint64_t page, uint64_t end);
};

/* Allocates page numbers upwards and collects pages into large writes. */
struct bolt_out {
    const struct bolt_sink *sink;
    uint32_t page_size;
    uint64_t next;   /* the page that will be allocated next */
    uint64_t offset; /* where the buffer belongs */
    uint8_t *buffer;
    size_t size, used;
};

void bolt_out_init(struct bolt_out *o, const struct bolt_sink *sink, uint32_t page_size,
                   uint64_t first, size_t buffer_bytes);
void bolt_out_done(struct bolt_out *o); /* idempotent */
NODISCARD int bolt_out_flush(struct bolt_out *o, struct err *e);

struct bolt_entry {
    struct str key, value;
    uint64_t child;
    uint32_t flags; /* of a leaf element */
};

struct bolt_level {
    struct bolt_entry *v;
    size_t n, cap;
    size_t bytes; /* what a page of these takes, with its header */
};

struct bolt_tree {
    struct bolt_out *out;
    struct bolt_level levels[BOLT_DEPTH_MAX];
    unsigned height; /* levels in use; 0 is leaves */
    bool tells;      /* the sink hears of its subtrees */
};

void bolt_tree_init(struct bolt_tree *t, struct bolt_out *out);
void bolt_tree_done(struct bolt_tree *t); /* idempotent */

/* Keys must rise. */
NODISCARD int bolt_tree_put(struct bolt_tree *t, struct str key, struct str value, uint32_t flags,
                            struct err *e);
/* An existing subtree of that height (1: a leaf), taken over as it is. */
NODISCARD int bolt_tree_graft(struct bolt_tree *t, unsigned height, struct str first_key,
                              uint64_t page, struct err *e);
/* Ends the node that is being filled on each level below `height`. */
NODISCARD int bolt_tree_break(struct bolt_tree *t, unsigned height, struct err *e);

/* Ends the tree and appends the value that makes it a bucket: 16 bytes that name its top page,
 * or the whole of it inline if it is small. `value` is the caller's, with room for
 * bolt_inline_max() bytes. The tree is empty afterwards and can be filled again. */
NODISCARD int bolt_tree_to_bucket(struct bolt_tree *t, uint8_t *value, size_t *out_n,
                                  struct err *e);
/* Ends the tree and says its top page. */
NODISCARD int bolt_tree_to_page(struct bolt_tree *t, uint64_t *out_page, struct err *e);

static inline size_t bolt_inline_max(uint32_t page_size)
{
    return BOLT_BUCKET_BYTES + page_size / 4;
}
