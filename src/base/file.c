/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/mem.h"

enum { READ_CHUNK = 64 * 1024 };

/* A regular file sits in one reservation; anything else arrives in chunks. The ceiling is only
 * passed by a byte that is really there: the last chunk asks for what room is left, plus one. */
int file_read_fd(const struct ctx *ctx, int fd, struct buf *out, struct err *e)
{
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (ctx_poll(ctx, &ready, 1, -1, e) < 0)
            return -1;
        const size_t left = out->max - out->n;
        const size_t want = left < READ_CHUNK ? left : READ_CHUNK;
        char probe = 0;
        char *room = want > 0 ? buf_reserve(out, want) : &probe;
        if (!room)
            return buf_check(out, "read", e);
        const ssize_t got = read(fd, room, want > 0 ? want : 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got < 0)
            return err_set_errno(e, errno, "read");
        if (got == 0)
            return 0;
        if (want == 0)
            return err_set(e, ERR_TOO_BIG, 0, "more than %zu bytes", out->max);
        buf_wrote(out, (size_t)got);
    }
}

int file_read(const struct ctx *ctx, const char *path, struct buf *out, struct err *e)
{
    /* O_NONBLOCK: a FIFO without a writer must not hold us past the deadline. */
    auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return err_set_errno(e, errno, "open %s", path);
    if (file_read_fd(ctx, fd, out, e) < 0)
        return err_wrap(e, "%s", path);
    return 0;
}

int file_write_all(int fd, struct str bytes, struct err *e)
{
    while (bytes.n > 0) {
        const ssize_t put = write(fd, bytes.p, bytes.n);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return err_set_errno(e, errno, "write");
        bytes = str_from(bytes, (size_t)put);
    }
    return 0;
}

int file_write_at(int fd, struct str bytes, uint64_t offset, struct err *e)
{
    while (bytes.n > 0) {
        const ssize_t put = pwrite(fd, bytes.p, bytes.n, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return err_set_errno(e, errno, "write");
        offset += (uint64_t)put;
        bytes = str_from(bytes, (size_t)put);
    }
    return 0;
}

char *file_dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return xstrdup(".");
    return str_dup((struct str){path, slash == path ? 1 : (size_t)(slash - path)});
}

int file_sync_dir(const char *path, struct err *e)
{
    auto_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_set_errno(e, errno, "sync directory %s", path);
    return 0;
}

static const char *name_of(const struct file_replace *f)
{
    const char *slash = strrchr(f->path, '/');
    return slash ? slash + 1 : f->path;
}

/* --- The name before the rename. It is always the same one, so that what a killed run left is
 * found and removed. Whoever works under it holds a lock on the file. */

static char *temp_name_of(const struct file_replace *f)
{
    return xasprintf(".%s.tmp", name_of(f));
}

/* Between an open and a lock another run may have removed the name, or given it away. */
static int lock_temp(const struct file_replace *f, const char *temp, int fd, struct err *e)
{
    struct stat held, named;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? err_set(e, ERR_CONFLICT, errno, "%s: is being written by another run", f->path)
                   : err_set_errno(e, errno, "lock %s beside %s", temp, f->path);
    if (fstat(fd, &held) < 0 || fstatat(f->dir_fd, temp, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
        held.st_ino != named.st_ino || held.st_dev != named.st_dev)
        return err_set(e, ERR_CONFLICT, 0, "%s: was written by another run", f->path);
    return 0;
}

static int remove_stale_temp(const struct file_replace *f, const char *temp, struct err *e)
{
    auto_close int fd = openat(f->dir_fd, temp, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : err_set_errno(e, errno, "open %s beside %s", temp, f->path);
    if (lock_temp(f, temp, fd, e) < 0)
        return -1;
    return unlinkat(f->dir_fd, temp, 0) < 0
               ? err_set_errno(e, errno, "remove %s beside %s", temp, f->path)
               : 0;
}

static int create_temp(struct file_replace *f, mode_t mode, struct err *e)
{
    auto_free char *temp = temp_name_of(f);
    if (remove_stale_temp(f, temp, e) < 0)
        return -1;
    f->fd = openat(f->dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (f->fd < 0)
        return err_set_errno(e, errno, "create beside %s", f->path);
    if (lock_temp(f, temp, f->fd, e) < 0)
        return -1; /* the name is another run's now */
    f->temp_name = TAKE(temp);
    return 0;
}

int file_replace_begin(struct file_replace *f, const char *path, mode_t mode, struct err *e)
{
    *f = (struct file_replace){.fd = -1, .dir_fd = -1, .path = xstrdup(path), .begun = true};
    if (*name_of(f) == '\0')
        return err_set(e, ERR_INVALID, 0, "%s: names a directory, not a file", path);
    auto_free char *dir = file_dir_of(path);
    f->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->dir_fd < 0)
        return err_set_errno(e, errno, "open directory of %s", path);
    /* A file without a name does not outlive a killed process. /proc will be needed to name it. */
    if (access("/proc/self/fd", F_OK) == 0)
        f->fd = openat(f->dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode);
    return f->fd < 0 ? create_temp(f, mode, e) : 0;
}

static int link_as(const struct file_replace *f, const char *name)
{
    char self[32];
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
    return linkat(AT_FDCWD, self, f->dir_fd, name, AT_SYMLINK_FOLLOW);
}

/* A link never replaces anything: an old file is replaced by a rename. */
static int link_temp(struct file_replace *f, struct err *e)
{
    auto_free char *temp = temp_name_of(f);
    if (flock(f->fd, LOCK_EX | LOCK_NB) < 0) /* before others can see it */
        return err_set_errno(e, errno, "lock %s", f->path);
    if (remove_stale_temp(f, temp, e) < 0)
        return -1;
    if (link_as(f, temp) < 0)
        return err_set_errno(e, errno, "create beside %s", f->path);
    f->temp_name = TAKE(temp);
    return 0;
}

static int give_name(struct file_replace *f, struct err *e)
{
    if (!f->temp_name) {
        if (link_as(f, name_of(f)) == 0)
            return 0;
        if (errno != EEXIST)
            return err_set_errno(e, errno, "create %s", f->path);
        if (link_temp(f, e) < 0)
            return -1;
    }
    if (renameat(f->dir_fd, f->temp_name, f->dir_fd, name_of(f)) < 0)
        return err_set_errno(e, errno, "rename to %s", f->path);
    free(TAKE(f->temp_name));
    return 0;
}

int file_replace_commit(struct file_replace *f, struct err *e)
{
    if (fsync(f->fd) < 0)
        return err_set_errno(e, errno, "sync %s", f->path);
    if (give_name(f, e) < 0)
        return -1;
    const int fd = f->fd; /* with its lock: from here on the file is anybody's */
    f->fd = -1;
    if (close(fd) < 0)
        return err_set_errno(e, errno, "close %s", f->path);
    if (fsync(f->dir_fd) < 0)
        return err_set_errno(e, errno, "sync directory of %s", f->path);
    return 0;
}

void file_replace_done(struct file_replace *f)
{
    if (!f || !f->begun)
        return;
    if (f->temp_name) /* while it is locked; best effort: the next run tries again */
        (void)unlinkat(f->dir_fd, f->temp_name, 0);
    if (f->fd >= 0)
        (void)close(f->fd); /* not committed: its bytes do not matter */
    if (f->dir_fd >= 0)
        (void)close(f->dir_fd);
    free(f->temp_name);
    free(f->path);
    *f = (struct file_replace){0};
}

int file_write_durable(const char *path, struct str bytes, mode_t mode, struct err *e)
{
    AUTO(file_replace_done) struct file_replace f = {0};
    if (file_replace_begin(&f, path, mode, e) < 0)
        return -1;
    if (file_write_all(f.fd, bytes, e) < 0)
        return err_wrap(e, "%s", path);
    return file_replace_commit(&f, e);
}
