/* SPDX-License-Identifier: Apache-2.0
 * That a database holds the very bytes which the hash at the end of a snapshot covers: SHA-256 is
 * computed of what lies in the database, while it is copied, and not of the snapshot, which may
 * change between two readings. */
#pragma once
#include "datadir/arrival.h"
#include "datadir/dbfile.h"

struct proof {
    const struct dbfile *snapshot;
    struct dbfile_hash hash;
    const char *path; /* of the database; borrowed */
    struct mapping db;
    uint64_t copied_end;
    struct arrival *arrival;
};

/* Borrows the snapshot until proof_done(). */
void proof_begin(struct proof *p, const struct ctx *ctx, const struct dbfile *snapshot);
/* Gives up on what has not arrived. Idempotent on a zeroed or begun struct. */
void proof_done(struct proof *p);

/* First what will be changed in the database, as it was copied. */
void proof_add(struct proof *p, struct str bytes);
/* Then what lies in it, in a thread of its own: bytes from one offset to another as they arrive.
 * Path and arrival are borrowed. Those of mapping_open() · ERR_UNAVAILABLE. */
NODISCARD int proof_follow(struct proof *p, const char *path, uint64_t from, uint64_t end,
                           struct arrival *arrival, struct err *e);
/* Last what the snapshot has behind that, and nobody copies. ERR_CORRUPT they are not the same
 * bytes · ERR_IO · ERR_CANCELED. */
NODISCARD int proof_end(struct proof *p, struct err *e);
