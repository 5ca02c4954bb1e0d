/* SPDX-License-Identifier: Apache-2.0
 * A snapshot read once and in order, piece by piece. The page cache forgets what was read: its
 * memory serves what is made of it. */
#pragma once
#include "datadir/dbfile.h"

enum { INTAKE_PIECE_BYTES = 512 * 1024 }; /* small enough to stay in a processor's own cache */

struct intake {
    const struct dbfile *f;
    uint64_t at, end;   /* what lies before it was read, and how far it goes */
    uint64_t forgotten; /* by the page cache, up to here */
    char *piece;        /* owned */
};

/* The first bytes of a file, which is borrowed until intake_done(). */
void intake_begin(struct intake *in, const struct dbfile *f, uint64_t bytes);
void intake_done(struct intake *in); /* idempotent on a zeroed or begun struct */

/* The next piece, borrowed until the next call; empty at the end. ERR_IO, also for a file that was
 * cut short. */
NODISCARD int intake_next(struct intake *in, struct str *out, struct err *e);
