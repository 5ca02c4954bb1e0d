/* SPDX-License-Identifier: Apache-2.0
 * Preloaded into a program, writes down everything it does to files under POWERLOG_ROOT, in
 * order, to the file POWERLOG: what a disk would have to keep, and what a sync has promised. The
 * power cut test replays it (test/rig/powercut.py reads the format). With POWERLOG_NAMED the file
 * system is one that knows no unnamed files; with POWERLOG_FAIL=N its Nth change is an I/O error.
 *
 * A line is JSON. Bytes written are in POWERLOG.data at the offset and length given. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Built with 64-bit offsets, so the names below are those with 64 at their end where libc has two.
 */
#define REAL(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static FILE *log_file, *data_file;
static long long data_at;

static const char *root(void)
{
    const char *r = getenv("POWERLOG_ROOT");
    return r ? r : "/nowhere";
}

/* The path behind a descriptor, or NULL if it is none of ours. */
static const char *path_of(int fd, char out[PATH_MAX])
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, out, PATH_MAX - 1);
    if (n <= 0)
        return NULL;
    out[n] = '\0';
    return strncmp(out, root(), strlen(root())) == 0 ? out : NULL;
}

static const char *path_at(int dir, const char *name, char out[PATH_MAX])
{
    char base[PATH_MAX / 2];
    if (name[0] == '/') {
        (void)snprintf(out, PATH_MAX, "%s", name);
    } else if (dir == AT_FDCWD) {
        if (!getcwd(base, sizeof(base)))
            return NULL;
        (void)snprintf(out, PATH_MAX, "%s/%s", base, name);
    } else {
        char whole[PATH_MAX];
        if (!path_of(dir, whole))
            return NULL;
        (void)snprintf(out, PATH_MAX, "%.*s/%s", PATH_MAX / 2, whole, name);
    }
    return strncmp(out, root(), strlen(root())) == 0 ? out : NULL;
}

static unsigned long long inode(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static void note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *fmt, ...)
{
    (void)pthread_mutex_lock(&lock);
    if (!log_file) {
        char data[PATH_MAX];
        (void)snprintf(data, sizeof(data), "%s.data", getenv("POWERLOG"));
        log_file = fopen(getenv("POWERLOG"), "we");
        data_file = fopen(data, "we");
    }
    va_list ap;
    va_start(ap, fmt);
    (void)vfprintf(log_file, fmt, ap);
    va_end(ap);
    (void)fputc('\n', log_file);
    (void)fflush(log_file);
    (void)fflush(data_file);
    (void)pthread_mutex_unlock(&lock);
}

static long long keep(const void *bytes, size_t n)
{
    if (!data_file)
        note("{\"op\":\"begin\"}");
    (void)pthread_mutex_lock(&lock);
    const long long at = data_at;
    (void)fwrite(bytes, 1, n, data_file);
    data_at += (long long)n;
    (void)pthread_mutex_unlock(&lock);
    return at;
}

/* Whether this change is the one that fails. Removals never do: they are how a failure ends. */
static bool fails(const char *path)
{
    static atomic_long changes;
    const char *which = getenv("POWERLOG_FAIL");
    if (!path || !which || atomic_fetch_add(&changes, 1) + 1 != strtol(which, NULL, 10))
        return false;
    note("{\"op\":\"failed\",\"path\":\"%s\"}", path);
    errno = EIO;
    return true;
}

static bool fails_on(int fd)
{
    char path[PATH_MAX];
    return fails(path_of(fd, path));
}

static bool fails_at(int dir, const char *name)
{
    char path[PATH_MAX];
    return fails(path_at(dir, name, path));
}

int openat(int dir, const char *name, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    char path[PATH_MAX];
    const bool unnamed = (flags & O_TMPFILE) == O_TMPFILE;
    if (unnamed && getenv("POWERLOG_NAMED")) {
        errno = EOPNOTSUPP;
        return -1;
    }
    if ((unnamed || (flags & O_CREAT)) && fails_at(dir, name))
        return -1;
    const int fd = REAL(openat)(dir, name, flags, mode);
    if (fd >= 0 && unnamed && path_of(fd, path))
        note("{\"op\":\"unnamed\",\"ino\":%llu}", inode(fd));
    if (fd >= 0 && (flags & O_CREAT) && path_at(dir, name, path))
        note("{\"op\":\"create\",\"path\":\"%s\",\"ino\":%llu}", path, inode(fd));
    return fd;
}

static void note_write(int fd, const void *bytes, ssize_t n, long long offset)
{
    char path[PATH_MAX];
    if (n > 0 && path_of(fd, path)) {
        const long long at = keep(bytes, (size_t)n);
        note("{\"op\":\"write\",\"ino\":%llu,\"offset\":%lld,\"n\":%zd,\"data\":%lld}", inode(fd),
             offset, n, at);
    }
}

ssize_t write(int fd, const void *bytes, size_t n)
{
    const long long offset = lseek(fd, 0, SEEK_CUR);
    const ssize_t put = fails_on(fd) ? -1 : REAL(write)(fd, bytes, n);
    note_write(fd, bytes, put, offset);
    return put;
}

ssize_t pwrite(int fd, const void *bytes, size_t n, off_t offset)
{
    const ssize_t put = fails_on(fd) ? -1 : REAL(pwrite)(fd, bytes, n, offset);
    note_write(fd, bytes, put, offset);
    return put;
}

int ftruncate(int fd, off_t length)
{
    char path[PATH_MAX];
    const int rc = fails_on(fd) ? -1 : REAL(ftruncate)(fd, length);
    if (rc == 0 && path_of(fd, path))
        note("{\"op\":\"truncate\",\"ino\":%llu,\"n\":%lld}", inode(fd), (long long)length);
    return rc;
}

int fallocate(int fd, int mode, off_t offset, off_t n)
{
    char path[PATH_MAX];
    const int rc = fails_on(fd) ? -1 : REAL(fallocate)(fd, mode, offset, n);
    if (rc == 0 && path_of(fd, path))
        note("{\"op\":\"grow\",\"ino\":%llu,\"n\":%lld}", inode(fd), (long long)(offset + n));
    return rc;
}

int fsync(int fd)
{
    char path[PATH_MAX];
    const int rc = fails_on(fd) ? -1 : REAL(fsync)(fd);
    if (rc == 0 && path_of(fd, path))
        note("{\"op\":\"sync\",\"path\":\"%s\",\"ino\":%llu}", path, inode(fd));
    return rc;
}

int mkdirat(int dir, const char *name, mode_t mode)
{
    char path[PATH_MAX];
    const int rc = fails_at(dir, name) ? -1 : REAL(mkdirat)(dir, name, mode);
    if (rc == 0 && path_at(dir, name, path))
        note("{\"op\":\"mkdir\",\"path\":\"%s\"}", path);
    return rc;
}

int mkdir(const char *name, mode_t mode)
{
    return mkdirat(AT_FDCWD, name, mode);
}

int unlinkat(int dir, const char *name, int flags)
{
    char path[PATH_MAX];
    const char *ours = path_at(dir, name, path);
    const int rc = REAL(unlinkat)(dir, name, flags);
    if (rc == 0 && ours)
        note("{\"op\":\"%s\",\"path\":\"%s\"}", (flags & AT_REMOVEDIR) ? "rmdir" : "unlink", path);
    return rc;
}

int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags)
{
    char path[PATH_MAX];
    struct stat st;
    const int rc = fails_at(to_dir, to) ? -1 : REAL(linkat)(from_dir, from, to_dir, to, flags);
    if (rc == 0 && path_at(to_dir, to, path) && stat(path, &st) == 0)
        note("{\"op\":\"link\",\"path\":\"%s\",\"ino\":%llu}", path, (unsigned long long)st.st_ino);
    return rc;
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    char a[PATH_MAX], b[PATH_MAX];
    const char *ours = path_at(from_dir, from, a);
    const int rc = fails_at(to_dir, to) ? -1 : REAL(renameat2)(from_dir, from, to_dir, to, flags);
    if (rc == 0 && ours && path_at(to_dir, to, b))
        note("{\"op\":\"rename\",\"path\":\"%s\",\"to\":\"%s\"}", a, b);
    return rc;
}

int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    return renameat2(from_dir, from, to_dir, to, 0);
}
