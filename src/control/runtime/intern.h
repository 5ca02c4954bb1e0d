/* SPDX-License-Identifier: Apache-2.0
 * Strings that many views share (namespaces, nodes, owners), kept once and counted. Thread-safe:
 * the last reference may go in any thread. */
#pragma once
#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

struct intern; /* a table */

struct istr {
    struct intern *table;
    unsigned int refs; /* guarded by the table's lock */
    char text[];
};

struct intern *intern_new(void) NONNULL;
void intern_free(struct intern *t); /* NULL-safe; every string must have been released */

/* A reference of one's own. Equal texts of one table are the same pointer. */
const struct istr *intern(struct intern *t, struct str text) NONNULL;
void istr_unref(const struct istr *s); /* NULL-safe */

static inline const char *istr_text(const struct istr *s) /* "" for NULL */
{
    return s ? s->text : "";
}

size_t intern_count(struct intern *t);
