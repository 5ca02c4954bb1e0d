/* SPDX-License-Identifier: Apache-2.0
 * HashKV of a file: the number etcd answers for the same revision and compaction. */
#pragma once
#include "datadir/dbfile.h"

struct hashkv {
    uint32_t hash;
    int64_t hash_revision;
    int64_t compact_revision; /* -1: never compacted */
};

/* revision 0: the latest. ERR_INVALID in the future · ERR_EXPIRED compacted · ERR_CORRUPT ·
 * ERR_CONFLICT the file changed meanwhile ·
 * ERR_CANCELED · ERR_IO (also of the temporary file). */
NODISCARD int hashkv_of(const struct ctx *ctx, const struct dbfile *f, int64_t revision,
                        const struct progress *progress, struct hashkv *out, struct err *e);
