/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/intake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

/* Aligned like the pieces that the page cache keeps files in, which go as a whole or not at all. */
static const uint64_t forget_bytes = 8 << 20;

void intake_begin(struct intake *in, const struct dbfile *f, uint64_t bytes)
{
    *in = (struct intake){.f = f, .end = bytes, .piece = xmalloc(INTAKE_PIECE_BYTES)};
    /* Advice: without it the disk is asked for less at a time. */
    (void)posix_fadvise(f->map.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
}

void intake_done(struct intake *in)
{
    free(TAKE(in->piece));
}

static int fill(const struct intake *in, size_t n, struct err *e)
{
    for (size_t filled = 0; filled < n;) {
        const ssize_t got =
            pread(in->f->map.fd, in->piece + filled, n - filled, (off_t)(in->at + filled));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_set_errno(e, errno, "read %s", in->f->path);
        if (got == 0) /* shorter than it was */
            return dbfile_check(in->f, e) < 0
                       ? -1
                       : err_set(e, ERR_IO, 0, "%s: was cut short", in->f->path);
        filled += (size_t)got;
    }
    return 0;
}

static void forget(struct intake *in)
{
    const uint64_t end = in->at / forget_bytes * forget_bytes;
    if (end == in->forgotten)
        return;
    (void)posix_fadvise(in->f->map.fd, (off_t)in->forgotten, (off_t)(end - in->forgotten),
                        POSIX_FADV_DONTNEED);
    in->forgotten = end;
}

int intake_next(struct intake *in, struct str *out, struct err *e)
{
    const uint64_t left = in->end - in->at;
    const size_t n = left < INTAKE_PIECE_BYTES ? (size_t)left : INTAKE_PIECE_BYTES;
    if (fill(in, n, e) < 0)
        return -1;
    *out = (struct str){in->piece, n};
    in->at += n;
    forget(in);
    return 0;
}
