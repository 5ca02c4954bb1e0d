/* SPDX-License-Identifier: Apache-2.0
 * The user's keys in a database file as of its last revision, by rising key: what a restored
 * member would serve. Large key sets are sorted in a temporary file, not in memory, and what is
 * read of the database out of order is let go again. */
#pragma once
#include "datadir/dbfile.h"
#include "datadir/mvcc.h"
#include "datadir/scratch.h"

struct livekey; /* one entry of the sorted array */

struct livekeys {
    const struct dbfile *f;
    struct mapping_window window;
    struct scratch entries;
    size_t n;
    char *read; /* owned: the message read last */
};

/* Keys that begin with prefix; an exact match only if `exact`. ERR_CORRUPT · ERR_CANCELED ·
 * ERR_CONFLICT the file changed meanwhile · ERR_IO (also of the temporary file). */
NODISCARD int livekeys_find(const struct ctx *ctx, const struct dbfile *f, struct str prefix,
                            bool exact, const struct progress *progress, struct livekeys *out,
                            struct err *e);
void livekeys_done(struct livekeys *k); /* idempotent */

/* Borrowed until the next call. After the last one, dbfile_check() says whether they count. */
struct mvcc_kv livekeys_at(struct livekeys *k, size_t i);

/* --- What became of the keys between two files. */
enum diff_kind { DIFF_ADDED, DIFF_CHANGED, DIFF_REMOVED };

/* In key order; changed means another value or another lease. What `found` says · ERR_IO. */
NODISCARD int livekeys_diff(struct livekeys *a, struct livekeys *b,
                            int (*found)(void *arg, enum diff_kind kind, struct str key,
                                         struct err *e),
                            void *arg, struct err *e);
