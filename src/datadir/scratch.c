/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

enum { HEAP_MAX_BYTES = 1024 * 1024 };

/* Unnamed where the file system can; else removed right away. What is wanted is allocated at once:
 * a full disk must not become a signal in the middle of the work. */
static int open_in(const char *dir, size_t n, struct err *e)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {
        auto_free char *path = xasprintf("%s/raftsman-XXXXXX", dir);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0)
            return err_set_errno(e, errno, "temporary file in %s", dir);
        (void)unlink(path); /* failing leaves an empty name in a temporary folder */
    }
    const int rc = n > 0 ? posix_fallocate(fd, 0, (off_t)n) : 0;
    if (rc == 0)
        return fd;
    (void)close(fd);
    return err_set_errno(e, rc, "temporary file of %zu bytes in %s", n, dir);
}

int scratch_open(const char *beside, size_t n, struct err *e)
{
    const char *dir = getenv("TMPDIR");
    struct err first;
    int fd = open_in(dir && *dir != '\0' ? dir : "/tmp", n, &first);
    if (fd >= 0)
        return fd;
    auto_free char *own = file_dir_of(beside);
    fd = open_in(own, n, e);
    return fd >= 0 ? fd : err_wrap(e, "%s (TMPDIR says where)", first.text);
}

int scratch_init(struct scratch *s, size_t n, const char *beside, struct err *e)
{
    *s = (struct scratch){.n = n, .fd = -1};
    if (n <= HEAP_MAX_BYTES) {
        s->p = xcalloc(n > 0 ? n : 1, 1);
        return 0;
    }
    s->fd = scratch_open(beside, n, e);
    if (s->fd < 0)
        return -1;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (p == MAP_FAILED) {
        err_set_errno(e, errno, "temporary file of %zu bytes", n);
        (void)close(s->fd);
        s->fd = -1;
        return -1;
    }
    s->p = p;
    return 0;
}

void scratch_done(struct scratch *s)
{
    if (!s->p)
        return;
    if (s->fd < 0) {
        free(s->p);
    } else {
        (void)munmap(s->p, s->n);
        (void)close(s->fd);
    }
    s->p = NULL;
}
