/* SPDX-License-Identifier: Apache-2.0
 * Files read under a ceiling and written durably. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct buf;
struct ctx;

/* Appends everything up to end of file. Also for pipes and FIFOs: it ends at the deadline.
 * ERR_TOO_BIG past the buffer's ceiling · ERR_NOT_FOUND · ERR_DENIED · ERR_IO · those of ctx. */
NODISCARD int file_read_fd(const struct ctx *ctx, int fd, struct buf *out, struct err *e);
NODISCARD int file_read(const struct ctx *ctx, const char *path, struct buf *out, struct err *e);

NODISCARD int file_write_all(int fd, struct str bytes, struct err *e);
NODISCARD int file_write_at(int fd, struct str bytes, uint64_t offset, struct err *e);

/* The directory a path names something in, "." if it has none; owned. */
char *file_dir_of(const char *path) NONNULL;

/* Makes the names in a directory durable. */
NODISCARD int file_sync_dir(const char *path, struct err *e);

/* A file that appears whole or not at all, also across a power cut: written without a name,
 * synced, named, directory synced. A writer that is killed leaves nothing; on a file system that
 * knows no unnamed files it leaves .NAME.tmp, which the next one removes.
 *
 *     AUTO(file_replace_done) struct file_replace f = {0};
 *     if (file_replace_begin(&f, path, 0600, e) < 0 || … write to f.fd … ||
 *         file_replace_commit(&f, e) < 0) return -1;
 */
struct file_replace {
    int fd;
    int dir_fd;
    char *path;
    char *temp_name; /* the one it has meanwhile; NULL: none */
    bool begun;
};

/* ERR_CONFLICT, also of the commit: another run is writing the same file · ERR_INVALID · ERR_IO. */
NODISCARD int file_replace_begin(struct file_replace *f, const char *path, mode_t mode,
                                 struct err *e);
NODISCARD int file_replace_commit(struct file_replace *f, struct err *e);
void file_replace_done(struct file_replace *f); /* removes what was not committed */

/* The three steps for bytes that are at hand. */
NODISCARD int file_write_durable(const char *path, struct str bytes, mode_t mode, struct err *e);
