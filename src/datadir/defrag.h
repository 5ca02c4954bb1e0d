/* SPDX-License-Identifier: Apache-2.0
 * Offline defragmentation: the database of a stopped member is rewritten without free pages. */
#pragma once
#include "datadir/dbfile.h"

struct defragmented {
    uint64_t bytes_before, bytes_after;
};

/* `db` is member/snap/db of a data directory, or any other database file. Written beside it,
 * checked by opening it, synced, renamed over it. ERR_CONFLICT etcd runs on it · ERR_CORRUPT it is
 * damaged: it stays as it is · ERR_CANCELED · ERR_IO. */
NODISCARD int defrag_run(const struct ctx *ctx, const char *db, const struct progress *progress,
                         struct defragmented *out, struct err *e);
