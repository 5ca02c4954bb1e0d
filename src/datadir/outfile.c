/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static const uint64_t start_every_bytes = 8 << 20, piece_bytes = 64 << 20;

int outfile_create(struct outfile *f, int dir_fd, const char *dir, const char *name, mode_t mode,
                   uint64_t expected_bytes, struct err *e)
{
    const int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    *f = (struct outfile){.fd = fd};
    if (fd < 0)
        return err_set_errno(e, errno, "create %s/%s", dir, name);
    f->path = xasprintf("%s/%s", dir, name);
    /* Not every file system can; what it cannot, writing does. A full disk is final. */
    if (expected_bytes > 0 && fallocate(f->fd, 0, 0, (off_t)expected_bytes) < 0 &&
        errno == ENOSPC) {
        err_set_errno(e, ENOSPC, "%s: %llu bytes", f->path, (unsigned long long)expected_bytes);
        outfile_done(f);
        return -1;
    }
    f->piecewise = expected_bytes == 0;
    return 0;
}

/* What cannot be allocated may still be written, up to the last block. */
static void allocate_ahead(struct outfile *f, uint64_t end)
{
    while (f->piecewise && f->allocated < end) {
        f->piecewise = fallocate(f->fd, 0, (off_t)f->allocated, (off_t)piece_bytes) == 0;
        f->allocated += piece_bytes;
    }
}

void outfile_done(struct outfile *f)
{
    if (f->fd >= 0)
        (void)close(f->fd); /* synced before, or to be removed */
    f->fd = -1;
    free(TAKE(f->path));
}

int outfile_write(struct outfile *f, uint64_t offset, struct str bytes, struct err *e)
{
    allocate_ahead(f, offset + bytes.n);
    if (file_write_at(f->fd, bytes, offset, e) < 0)
        return err_wrap(e, "%s", f->path);
    if (f->next != 0 && offset != f->next)
        return 0;
    f->next = offset + bytes.n;
    if (f->next - f->started >= start_every_bytes) {
        /* Advice: the sync that counts comes later. */
        (void)sync_file_range(f->fd, (off_t)f->started, (off_t)(f->next - f->started),
                              SYNC_FILE_RANGE_WRITE);
        f->started = f->next;
    }
    return 0;
}

int outfile_sink(void *outfile, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    return outfile_write(outfile, offset, (struct str){bytes, n}, e);
}

int outfile_cut(struct outfile *f, uint64_t length, struct err *e)
{
    return ftruncate(f->fd, (off_t)length) < 0
               ? err_set_errno(e, errno, "set the length of %s", f->path)
               : 0;
}

int outfile_sync(struct outfile *f, struct err *e)
{
    return fsync(f->fd) < 0 ? err_set_errno(e, errno, "sync %s", f->path) : 0;
}
