/* SPDX-License-Identifier: Apache-2.0
 * etcd's .snap files: a raft snapshot's position, its voters, and the legacy v2 store as JSON. */
#pragma once
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "datadir/raft.h"

struct membership;

enum { SNAPFILE_MAX_BYTES = 64 * 1024 * 1024, SNAPFILE_NAME_BYTES = 39 };

/* Checks the checksum, the message and that the store is JSON. `bytes` is borrowed.
 * ERR_CORRUPT: one of the first two is wrong, and etcd goes on as if there were no such file ·
 * ERR_INVALID: only the store is, and *out is filled: 3.5 and 3.6 stop at it. */
NODISCARD int snapfile_decode(struct str bytes, struct raft_snapshot *out, struct err *e);

/* The one of a restored member, at index N (its number of members) and term 1. */
void snapfile_build(const struct membership *m, struct buf *out);
/* "<term>-<index>.snap" */
void snapfile_name(struct raft_snapshot_point at, char out[SNAPFILE_NAME_BYTES]);
bool snapfile_name_parse(const char *name, struct raft_snapshot_point *out);
