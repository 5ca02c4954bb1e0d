/* SPDX-License-Identifier: Apache-2.0
 * Single keys out of a file, without a walk: a handful of pages are read, and checked as they
 * are read. */
#pragma once
#include "bolt/walk.h"

struct bolt_bucket {
    const struct bolt *b;
    struct bolt_node top;
};

/* ERR_NOT_FOUND · ERR_CORRUPT. */
NODISCARD int bolt_find_bucket(const struct bolt *b, struct str name, struct bolt_bucket *out,
                               struct err *e);
NODISCARD int bolt_find(const struct bolt_bucket *bucket, struct str key, struct str *out_value,
                        struct err *e);

/* The greatest key of a bucket. ERR_NOT_FOUND: it is empty. */
NODISCARD int bolt_find_last(const struct bolt_bucket *bucket, struct bolt_element *out,
                             struct err *e);

/* Every item of one bucket in order; for small ones. */
NODISCARD int bolt_each(const struct bolt_bucket *bucket,
                        int (*item)(void *arg, const struct bolt_item *item, struct err *e),
                        void *arg, struct err *e);
