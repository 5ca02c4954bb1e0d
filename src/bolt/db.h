/* SPDX-License-Identifier: Apache-2.0
 * A bbolt file as bytes in memory, for reading. Nothing here does I/O: the caller maps the file.
 * Every page and every length is checked before it is used, so hostile bytes give ERR_CORRUPT
 * with the page named. Thread-safe as far as the bytes are constant. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct bolt_meta {
    uint32_t page_size;
    uint64_t root;     /* page of the root bucket */
    uint64_t freelist; /* its page, or BOLT_NO_FREELIST */
    uint64_t pages;    /* the high-water mark: pages that were ever allocated */
    uint64_t txid;
};

/* For a file that is still being written: waits until these bytes of it are there. -1 with *e
 * filled, and not as ERR_CORRUPT: they will not come. */
struct bolt_arrival {
    void *arg;
    int (*await)(void *arg, uint64_t offset, uint64_t bytes, struct err *e);
};

struct bolt {
    const uint8_t *p; /* borrowed */
    size_t n;
    struct bolt_meta meta;              /* the newer of the valid ones */
    bool valid[2];                      /* which meta pages were valid */
    const struct bolt_arrival *arrival; /* NULL: all of it is there */
};

/* ERR_CORRUPT: neither meta page is valid, or the file ends before the pages it claims. */
NODISCARD int bolt_open(struct bolt *b, const void *bytes, size_t n, struct err *e);

/* The bytes of a meta page: BOLT_HEADER_BYTES + BOLT_META_BYTES of them, the rest is zero. */
void bolt_meta_encode(const struct bolt_meta *m, uint64_t page, uint8_t *out);
/* False unless magic, version and checksum fit and the page size is one that can be. */
bool bolt_meta_decode(const uint8_t *p, size_t n, struct bolt_meta *out);

/* A branch or leaf: in pages of its own, or inside the value of an inline bucket. */
struct bolt_node {
    const uint8_t *p;
    size_t n;      /* bytes that belong to it */
    uint64_t page; /* where: for an inline bucket the page that holds it */
    uint64_t span; /* pages it occupies; 0 for an inline one */
    uint32_t count;
    bool leaf;
};

/* Waits for pages that are within the file, where there is something to wait for. */
NODISCARD int bolt_await(const struct bolt *b, uint64_t page, uint64_t span, struct err *e);

/* ERR_CORRUPT: outside the file, wrong id or kind, or elements that do not fit. Also what
 * bolt_await() says. */
NODISCARD int bolt_node_at(const struct bolt *b, uint64_t page, struct bolt_node *out,
                           struct err *e);

struct bolt_element {
    struct str key;
    struct str value; /* of a leaf */
    uint64_t child;   /* of a branch */
    bool is_bucket;   /* of a leaf: the value is a bucket */
};

/* ERR_CORRUPT: key or value outside the node, or a key of impossible length. index < count. */
NODISCARD int bolt_element_at(const struct bolt_node *node, uint32_t index,
                              struct bolt_element *out, struct err *e);

/* The node at the top of a bucket, given the bucket's value in the root tree; inline buckets
 * live inside that value. `page` is where the value was found. */
NODISCARD int bolt_bucket_node(const struct bolt *b, struct str value, uint64_t page,
                               struct bolt_node *out, struct err *e);

/* Bytewise, as bbolt orders keys: <0, 0, >0. */
int bolt_key_cmp(struct str a, struct str b);
