/* SPDX-License-Identifier: Apache-2.0
 * What a data directory says about itself, and what would stop etcd from starting on it. Reads
 * only; works on a directory that etcd refuses. */
#pragma once
#include "datadir/scan.h"
#include "datadir/wal.h"

struct inspection {
    bool has_db, has_wal;
    bool wal_whole; /* the log could be read to its end */
    struct scan_result db;
    struct wal_summary wal;
    uint64_t db_file_bytes;
    uint64_t snap_files;             /* *.snap that can be read */
    struct raft_snapshot_point snap; /* the newest of them that the log knows as committed */
    uint64_t snap_members;           /* voters and learners in it */
    bool has_snap_db;                /* a received database of that index waits to be installed */
    bool is_member;                  /* bucket members lists the member of the log */
    uint64_t members;                /* in bucket members */
    VEC(char *) problems;            /* owned; each would stop etcd, or make it forget */
    VEC(char *) oddities;            /* owned; the first of db.odd that etcd lives with */
};

struct inspect_options {
    const struct progress *progress;
    const struct bolt_arrival *arrival; /* of the database, which is still being written */
};

/* `member_dir` is the data directory's member/. Without options: no progress, all is there.
 * ERR_NOT_FOUND there is none · ERR_CONFLICT etcd runs on it · ERR_CANCELED · ERR_IO. Damage is no
 * error: it is in problems. */
NODISCARD int inspect_member_dir(const struct ctx *ctx, const char *member_dir,
                                 const struct inspect_options *options, struct inspection *out,
                                 struct err *e);
void inspection_done(struct inspection *i); /* idempotent */
