/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/partial.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

static const char building[] = "member.partial";
static const char complete[] = "member";
enum { DIR_MODE = 0700, DEPTH_MAX = 4 };

/* Empties a directory we made: two levels of it, and nothing behind symbolic links. */
static void wipe(int dir_fd, int depth)
{
    const int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy >= 0 ? fdopendir(copy) : NULL;
    if (!d) {
        if (copy >= 0)
            (void)close(copy);
        return;
    }
    for (const struct dirent *entry = NULL; (entry = readdir(d));) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (unlinkat(dir_fd, name, 0) == 0 || depth >= DEPTH_MAX)
            continue;
        auto_close int sub = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (sub >= 0)
            wipe(sub, depth + 1);
        (void)unlinkat(dir_fd, name, AT_REMOVEDIR); /* best effort: the next run tries again */
    }
    (void)closedir(d);
}

/* mkdir -p that remembers what it made, and makes each new name durable. */
static int make_dirs(struct partial *p, struct err *e)
{
    const char *path = p->data_dir;
    for (const char *at = path; *at != '\0';) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        auto_free char *dir = str_dup((struct str){path, (size_t)(at - path)});
        if (*dir == '\0' || mkdir(dir, DIR_MODE) < 0) {
            if (*dir == '\0' || errno == EEXIST)
                continue;
            return err_set_errno(e, errno, "create %s", dir);
        }
        vec_push(&p->created, TAKE(dir));
        auto_free char *parent = xasprintf("%s/..", p->created.v[p->created.n - 1]);
        if (file_sync_dir(parent, e) < 0)
            return -1;
    }
    return 0;
}

/* A data directory that was there may have been made a moment before by somebody who did not sync
 * its name. A parent that we may not open is somebody else's to care for. */
static int sync_name(const struct partial *p, struct err *e)
{
    if (p->created.n > 0)
        return 0; /* our own, and durable since it was made */
    auto_free char *parent = xasprintf("%s/..", p->data_dir);
    return file_sync_dir(parent, e) == 0 || e->code == ERR_DENIED ? 0 : -1;
}

static int open_dir(int at_fd, const char *name, struct err *e)
{
    const int fd = openat(at_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return fd < 0 ? err_set_errno(e, errno, "open %s", name) : fd;
}

static int make_dir(int at_fd, const char *name, struct err *e)
{
    if (mkdirat(at_fd, name, DIR_MODE) < 0 && errno != EEXIST)
        return err_set_errno(e, errno, "create %s", name);
    return open_dir(at_fd, name, e);
}

static int check_no_member(const struct partial *p, struct err *e)
{
    struct stat st;
    if (fstatat(p->data_fd, complete, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return err_set(e, ERR_EXISTS, 0, "%s/%s exists and is not touched", p->data_dir, complete);
    return errno == ENOENT ? 0 : err_set_errno(e, errno, "%s/%s", p->data_dir, complete);
}

/* Between our open and our lock another run may have finished and renamed the directory: then
 * what we hold is its result. */
static int lock_building(const struct partial *p, struct err *e)
{
    struct stat held, named;
    if (flock(p->fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
                   ? err_set(e, ERR_CONFLICT, errno, "%s: another restore is at work", p->path)
                   : err_set_errno(e, errno, "lock %s", p->path);
    if (fstat(p->fd, &held) < 0 || fstatat(p->data_fd, building, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
        held.st_ino != named.st_ino || held.st_dev != named.st_dev)
        return err_set(e, ERR_CONFLICT, 0, "%s: another restore was at work", p->path);
    return 0;
}

static int begin(struct partial *p, struct err *e)
{
    if (make_dirs(p, e) < 0)
        return -1;
    p->data_fd = open(p->data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (p->data_fd < 0)
        return err_set_errno(e, errno, "open %s", p->data_dir);
    if (check_no_member(p, e) < 0)
        return -1;
    const int fd = make_dir(p->data_fd, building, e);
    if (fd < 0)
        return err_wrap(e, "%s", p->data_dir);
    p->fd = fd;
    if (lock_building(p, e) < 0) {
        (void)close(p->fd); /* not ours: partial_done() must not empty it */
        p->fd = -1;
        return -1;
    }
    wipe(p->fd, 0);
    if ((p->snap_fd = make_dir(p->fd, "snap", e)) < 0 ||
        (p->wal_fd = make_dir(p->fd, "wal", e)) < 0)
        return err_wrap(e, "%s", p->path);
    return 0;
}

int partial_begin(struct partial *p, const char *data_dir, struct err *e)
{
    *p = (struct partial){
        .data_dir = xstrdup(data_dir),
        .path = xasprintf("%s/%s", data_dir, building),
        .data_fd = -1,
        .fd = -1,
        .snap_fd = -1,
        .wal_fd = -1,
        .begun = true,
    };
    return begin(p, e);
}

static int rename_new(const struct partial *p)
{
    if (renameat2(p->data_fd, building, p->data_fd, complete, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -1;
    /* A file system without it. A directory is only ever renamed over an empty one. */
    return renameat(p->data_fd, building, p->data_fd, complete);
}

int partial_commit(struct partial *p, struct err *e)
{
    if (fsync(p->snap_fd) < 0 || fsync(p->wal_fd) < 0 || fsync(p->fd) < 0)
        return err_set_errno(e, errno, "sync %s", p->path);
    if (sync_name(p, e) < 0)
        return -1;
    if (rename_new(p) < 0)
        return err_set_errno(e, errno, "rename %s to %s", p->path, complete);
    (void)close(p->fd); /* from here on it is complete and not ours to remove */
    p->fd = -1;
    for (size_t i = 0; i < p->created.n; i++)
        free(p->created.v[i]);
    p->created.n = 0;
    if (fsync(p->data_fd) < 0)
        return err_set_errno(e, errno, "sync %s", p->data_dir);
    return 0;
}

static void close_one(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void partial_done(struct partial *p)
{
    if (!p->begun)
        return;
    close_one(&p->snap_fd);
    close_one(&p->wal_fd);
    if (p->fd >= 0) {
        wipe(p->fd, 0);
        (void)unlinkat(p->data_fd, building, AT_REMOVEDIR); /* best effort; the next run tries */
    }
    close_one(&p->fd);
    close_one(&p->data_fd);
    for (size_t i = p->created.n; i-- > 0;) {
        (void)rmdir(p->created.v[i]); /* not empty any more: somebody else uses it */
        free(p->created.v[i]);
    }
    vec_done(&p->created);
    free(p->data_dir);
    free(p->path);
    *p = (struct partial){0};
}
