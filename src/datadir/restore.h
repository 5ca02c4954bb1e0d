/* SPDX-License-Identifier: Apache-2.0
 * A snapshot becomes the data directory of one member of a new cluster, for etcd 3.5, 3.6 and
 * 3.7. docs/internals/restore.md tells the order of steps and why nothing can be lost. */
#pragma once
#include "base/vec.h"
#include "datadir/dbfile.h"

struct membership;

struct restore_options {
    const char *snapshot;
    const char *data_dir;
    const struct membership *membership;
    bool skip_hash_check;  /* also for a plain database file, which has no hash */
    int64_t bump_revision; /* with mark_compacted: old watchers are told "compacted" */
    bool mark_compacted;
    const struct progress *progress;
};

struct restored {
    uint64_t bytes;
    int64_t revision;      /* of the snapshot */
    int64_t next_revision; /* the store's after the restore */
    VEC(char *) warnings;  /* what is odd about the snapshot, but does not stop etcd */
};
void restored_done(struct restored *r); /* idempotent */

/* Afterwards there is a complete, durable data_dir/member, or on any error what was there before.
 * ERR_EXISTS there is a member/ already · ERR_CORRUPT the snapshot is damaged · ERR_INVALID no
 * hash to check, or bump without mark · ERR_CONFLICT another restore is at work there, or the
 * snapshot changes meanwhile · ERR_CANCELED · ERR_IO. */
NODISCARD int restore_run(const struct ctx *ctx, const struct restore_options *o,
                          struct restored *out, struct err *e);
