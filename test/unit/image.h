/* SPDX-License-Identifier: Apache-2.0
 * Database files in memory for tests: built by the bulk writer, damaged by hand. */
#pragma once
#include "base/buf.h"
#include "base/mem.h"
#include "bolt/edit.h"
#include "bolt/walk.h"
#include "bolt/writer.h"

enum { IMAGE_MAX = 256 * 1024 * 1024 };

/* The `write` of a bolt_sink over a struct buf. */
static inline int image_write(void *arg, uint64_t offset, const void *bytes, size_t n,
                              struct err *e)
{
    struct buf *b = arg;
    (void)e;
    if (offset + n > b->n) {
        const size_t more = (size_t)offset + n - b->n;
        char *room = buf_reserve(b, more);
        if (!room)
            abort();
        memset(room, 0, more);
        buf_wrote(b, more);
    }
    memcpy(b->p + offset, bytes, n);
    return 0;
}

struct image_item {
    const char *bucket;
    struct str key, value;
};

/* Items by bucket and key, ascending. Returns the number of pages. */
static inline uint64_t image_put(const struct bolt_sink *sink, const struct image_item *items,
                                 size_t n, uint32_t page_size)
{
    struct err e = {0};
    struct bolt_writer *w = bolt_writer_new(sink, page_size);
    uint64_t pages = 0;
    for (size_t i = 0; i < n; i++) {
        if ((i == 0 || strcmp(items[i - 1].bucket, items[i].bucket) != 0) &&
            bolt_writer_bucket(w, str_c(items[i].bucket), &e) < 0)
            abort();
        if (items[i].key.n > 0 && bolt_writer_put(w, items[i].key, items[i].value, &e) < 0)
            abort();
    }
    if (bolt_writer_finish(w, &pages, &e) < 0)
        abort();
    bolt_writer_free(w);
    return pages;
}

static inline struct buf image_of(const struct image_item *items, size_t n, uint32_t page_size)
{
    struct buf b = BUF_INIT(IMAGE_MAX);
    const struct bolt_sink sink = {&b, image_write};
    if (image_put(&sink, items, n, page_size) * page_size != b.n)
        abort();
    return b;
}

#define BYTES(literal) ((struct str){literal, sizeof(literal) - 1})
