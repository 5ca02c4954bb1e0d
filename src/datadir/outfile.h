/* SPDX-License-Identifier: Apache-2.0
 * A large file written in order, with the disk kept busy from the start: what has been written is
 * handed to the device along the way, so that the final sync is short. */
#pragma once
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct outfile {
    int fd;
    char *path;       /* for messages */
    uint64_t next;    /* where the next write in order begins; 0: anywhere */
    uint64_t started; /* up to here the device has been asked to write */
    uint64_t allocated;
    bool piecewise; /* room is allocated a piece ahead of what is written */
};

/* Created new under dir_fd, which every error calls `dir`; expected_bytes are allocated at once if
 * not 0, so that a full disk is known before the work. If the length is not known, room is
 * allocated in large pieces along the way. ERR_EXISTS · ERR_DENIED · ERR_IO. */
NODISCARD int outfile_create(struct outfile *f, int dir_fd, const char *dir, const char *name,
                             mode_t mode, uint64_t expected_bytes, struct err *e);
void outfile_done(struct outfile *f); /* idempotent */

/* What does not follow the write before it is left to the sync. */
NODISCARD int outfile_write(struct outfile *f, uint64_t offset, struct str bytes, struct err *e);
/* The `write` of a bolt_sink whose argument is a struct outfile. */
NODISCARD int outfile_sink(void *outfile, uint64_t offset, const void *bytes, size_t n,
                           struct err *e);
/* Makes it as long as it is to be: what was allocated beyond goes, what lacks is zeros. */
NODISCARD int outfile_cut(struct outfile *f, uint64_t length, struct err *e);
NODISCARD int outfile_sync(struct outfile *f, struct err *e);
