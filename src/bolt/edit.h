/* SPDX-License-Identifier: Apache-2.0
 * A few keys changed in a file where a rewrite is not wanted: copy on write, as bbolt itself
 * does it. No page of the old state is overwritten; new pages go behind the high-water mark, and
 * only pages on the paths to changed keys are copied. */
#pragma once
#include "bolt/tree.h"

struct bolt_change {
    struct str key;
    struct str value;
    bool remove; /* a key that is not there is no error */
};

/* Changes to one bucket, by rising key. A bucket that is not there is created. */
struct bolt_bucket_edit {
    struct str name;
    bool clear; /* everything in it goes first */
    const struct bolt_change *v;
    size_t n;
};

/* Writes the new pages to the sink and fills the meta that makes them count. To be durable at
 * any moment: extend the file to out->pages, write, sync, then write the meta to page
 * out->txid % 2, sync. Buckets by rising name. ERR_CORRUPT · what the sink says. */
NODISCARD int bolt_edit(const struct bolt *b, const struct bolt_bucket_edit *edits, size_t n,
                        const struct bolt_sink *sink, struct bolt_meta *out, struct err *e);
