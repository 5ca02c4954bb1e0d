/* SPDX-License-Identifier: Apache-2.0
 * Which entries are the newest of their key? The bucket `key` is ordered by revision, so the
 * question spans the whole file; a table of all keys would grow with it. Instead each entry
 * leaves a 16-byte record in one of many partitions, chosen by a hash of the key; partitions that
 * outgrow their buffer go to an unnamed temporary file, and are resolved one after the other.
 * Memory is constant (about 8 MiB at most, up to some 300 million keys), time is linear.
 *
 * Keys are told apart by 86 bits of a keyed hash: the chance that two of a hundred million keys
 * are taken for one is less than one in a billion. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct keyset;

/* At most this many flag bits go with an entry. KEYSET_TOMBSTONE ends the key's life. */
enum { KEYSET_TOMBSTONE = 1, KEYSET_MARK = 2 };

/* `beside`: the file the keys are of, for scratch_open(); borrowed. */
struct keyset *keyset_new(const char *beside) NONNULL;
void keyset_free(struct keyset *s); /* NULL-safe */
AUTO_DEFINE(struct keyset, keyset_free)

/* Entries in the order of their revisions; they are numbered from 0. ERR_IO: no room for the
 * temporary file. */
NODISCARD int keyset_add(struct keyset *s, struct str key, unsigned flags, struct err *e);

struct keyset_totals {
    uint64_t live;   /* keys whose newest entry is not a tombstone */
    uint64_t marked; /* of them, those whose newest entry has KEYSET_MARK */
};

/* Called for each newest entry that is no tombstone, in no order. */
struct keyset_visitor {
    void *arg;
    int (*newest)(void *arg, uint64_t number, unsigned flags, struct err *e);
};

/* Once, after the last add. The visitor may be NULL. */
NODISCARD int keyset_resolve(struct keyset *s, const struct keyset_visitor *v,
                             struct keyset_totals *out, struct err *e);
