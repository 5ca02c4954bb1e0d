/* SPDX-License-Identifier: Apache-2.0
 * A member directory that is being built: it lies beside its final name as member.partial and
 * takes that name last, in one rename. What a killed run left there is removed by the next. */
#pragma once
#include "base/attr.h"
#include "base/err.h"
#include "base/vec.h"

struct partial {
    char *data_dir;
    char *path; /* of member.partial */
    int data_fd, fd, snap_fd, wal_fd;
    VEC(char *) created; /* directories made on the way to data_dir, removed again on failure */
    bool begun;
};

/* Makes data_dir if there is none, and member.partial/{snap,wal} in it, empty and locked.
 * ERR_EXISTS there is a member/ already: it is never touched · ERR_CONFLICT another restore is
 * at work here · ERR_DENIED · ERR_IO. */
NODISCARD int partial_begin(struct partial *p, const char *data_dir, struct err *e);
/* Everything in it must be synced. Syncs the directories and gives it its name. */
NODISCARD int partial_commit(struct partial *p, struct err *e);
void partial_done(struct partial *p); /* removes what was not committed; idempotent */
