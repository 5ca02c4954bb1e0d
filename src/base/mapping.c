/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Large enough that the system calls do not matter, small enough that two readers with all their
 * windows stay well under 48 MiB. */
static const uint64_t window_bytes = UINT64_C(2) << 20;
enum { READ_AHEAD = 4 }; /* windows asked of the disk before they are reached */

static int map_all(struct mapping *m, const char *path, struct err *e)
{
    struct stat st;
    if (fstat(m->fd, &st) < 0)
        return err_set_errno(e, errno, "stat %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, 0, "%s: not a regular file", path);
    m->n = (size_t)st.st_size;
    if (m->n == 0)
        return 0;
    void *p = mmap(NULL, m->n, PROT_READ, MAP_SHARED, m->fd, 0);
    if (p == MAP_FAILED)
        return err_set_errno(e, errno, "map %s", path);
    m->p = p;
    return 0;
}

int mapping_open(struct mapping *m, const char *path, enum mapping_lock lock, struct err *e)
{
    const bool alone = lock == MAPPING_EXCLUSIVE;
    *m = (struct mapping){.fd = open(path, (alone ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK)};
    if (m->fd < 0)
        return err_set_errno(e, errno, "open %s", path);
    if (flock(m->fd, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB) < 0) {
        const int why = errno;
        mapping_done(m);
        return why == EWOULDBLOCK
                   ? err_set(e, ERR_CONFLICT, why, "%s: in use by another process", path)
                   : err_set_errno(e, why, "lock %s", path);
    }
    if (map_all(m, path, e) < 0) {
        mapping_done(m);
        return -1;
    }
    return 0;
}

void mapping_done(struct mapping *m)
{
    if (!m)
        return;
    if (m->p)
        (void)munmap((void *)m->p, m->n);
    if (m->fd >= 0)
        (void)close(m->fd);
    *m = (struct mapping){.fd = -1};
}

struct mapping_window mapping_window_of(const struct mapping *m)
{
    return (struct mapping_window){.m = m};
}

static void advise(const struct mapping *m, uint64_t window, int advice)
{
    const uint64_t begin = window * window_bytes;
    if (begin >= m->n)
        return;
    const size_t n = m->n - begin < window_bytes ? m->n - begin : window_bytes;
    (void)madvise((void *)(m->p + begin), n, advice); /* advice: refused is slower, not wrong */
}

void mapping_reach(struct mapping_window *w, uint64_t offset)
{
    const uint64_t window = offset / window_bytes;
    for (unsigned i = 0; i < w->filled; i++)
        if (w->kept[i] == window)
            return;
    const bool first = w->filled == 0;
    const bool onward =
        first || window == w->kept[(w->at + MAPPING_WINDOWS - 1) % MAPPING_WINDOWS] + 1;
    if (w->filled == MAPPING_WINDOWS)
        advise(w->m, w->kept[w->at], MADV_DONTNEED);
    else
        w->filled++;
    w->kept[w->at] = window;
    w->at = (w->at + 1) % MAPPING_WINDOWS;
    if (!onward)
        return;
    /* Reading in order: ask the disk for what comes, and map this window at a stroke. */
    for (uint64_t next = first ? 1 : READ_AHEAD; next <= READ_AHEAD; next++)
        advise(w->m, window + next, MADV_WILLNEED);
#ifdef MADV_POPULATE_READ
    advise(w->m, window, MADV_POPULATE_READ);
#endif
}
