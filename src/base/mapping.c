/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread.h"

/* Large enough that the system calls do not matter, small enough that two readers with all their
 * windows stay well under 48 MiB. */
static const uint64_t window_bytes = UINT64_C(2) << 20;
enum { READ_AHEAD = 4 }; /* windows asked of the disk before they are reached */

static void advise(const struct mapping *m, uint64_t window, int advice)
{
    const uint64_t begin = window * window_bytes;
    if (begin >= m->n)
        return;
    const size_t n = m->n - begin < window_bytes ? m->n - begin : window_bytes;
    (void)madvise((void *)(m->p + begin), n, advice); /* advice: refused is slower, not wrong */
}

struct mapping_ahead {
    const struct mapping *m;
    struct thread thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    uint64_t next, until; /* windows to touch */
    uint64_t behind;      /* a window to let go */
    bool has_behind, stop;
};

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

static void touch(const struct mapping *m, uint64_t window)
{
    enum { FAULT_BYTES = 64 * 1024 }; /* the kernel maps so much around a page it is asked for */
    const uint64_t begin = window * window_bytes, end = begin + window_bytes;
    for (uint64_t at = begin; at < end && at < m->n; at += FAULT_BYTES)
        (void)*(const volatile uint8_t *)(m->p + at);
}

static void run_ahead(void *arg)
{
    struct mapping_ahead *a = arg;
    for (;;) {
        uint64_t window = 0;
        bool behind = false;
        {
            MUTEX_HOLD(&a->lock);
            while (!a->stop && !a->has_behind && a->next >= a->until)
                cond_wait_ms(&a->wake, &a->lock, -1);
            if (a->stop)
                return;
            behind = a->next >= a->until; /* what is waited for comes first */
            window = behind ? a->behind : a->next++;
            a->has_behind = a->has_behind && !behind;
        }
        if (behind)
            advise(a->m, window, MADV_DONTNEED);
        else
            touch(a->m, window);
    }
}

void mapping_look_ahead(struct mapping *m)
{
    struct err ignored = {0};
    struct mapping_ahead *a = xcalloc(1, sizeof(*a));
    a->m = m;
    (void)pthread_mutex_init(&a->lock, NULL); /* cannot fail without attributes */
    cond_init(&a->wake);
    m->ahead = a;
    (void)!thread_start(&a->thread, "ahead", run_ahead, a, &ignored);
}

static void ahead_free(struct mapping_ahead *a)
{
    if (!a)
        return;
    {
        MUTEX_HOLD(&a->lock);
        a->stop = true;
        (void)pthread_cond_signal(&a->wake);
    }
    thread_join(&a->thread);
    (void)pthread_cond_destroy(&a->wake);
    (void)pthread_mutex_destroy(&a->lock);
    free(a);
}

/* False if it has one to let go already. */
static bool ahead_takes(struct mapping_ahead *a, uint64_t window)
{
    MUTEX_HOLD(&a->lock);
    if (!a->thread.started || a->has_behind)
        return false;
    a->behind = window;
    a->has_behind = true;
    (void)pthread_cond_signal(&a->wake);
    return true;
}

static void ahead_of(struct mapping_ahead *a, uint64_t window)
{
    enum { WINDOWS = 2 }; /* they count as resident: see window_bytes */
    MUTEX_HOLD(&a->lock);
    a->until = window + 1 + WINDOWS;
    if (a->next <= window || a->next > a->until) /* the reader is somewhere else now */
        a->next = window + 1;
    (void)pthread_cond_signal(&a->wake);
}

void mapping_done(struct mapping *m)
{
    if (!m)
        return;
    ahead_free(TAKE(m->ahead));
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

/* Asks the disk for a window, unless its last page is there already: to look costs less. (Of a
 * file that is not ours the kernel says that all is there, and reads ahead by itself.) */
static void read_ahead(const struct mapping *m, uint64_t window)
{
    unsigned char there = 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = (window + 1) * window_bytes;
    if (end > m->n || mincore((void *)(m->p + end - page), page, &there) < 0 || !(there & 1))
        advise(m, window, MADV_WILLNEED);
}

void mapping_reach(struct mapping_window *w, uint64_t offset)
{
    const uint64_t window = offset / window_bytes;
    const bool first = w->filled == 0;
    bool onward = first;
    for (unsigned i = 0; i < w->filled; i++) {
        if (w->kept[i] == window)
            return;
        onward = onward || w->kept[i] + 1 == window; /* with looks elsewhere in between */
    }
    if (w->filled < MAPPING_WINDOWS)
        w->filled++;
    else if (!w->m->ahead || !ahead_takes(w->m->ahead, w->kept[w->at]))
        advise(w->m, w->kept[w->at], MADV_DONTNEED);
    w->kept[w->at] = window;
    w->at = (w->at + 1) % MAPPING_WINDOWS;
    if (!onward)
        return;
    /* Reading in order: ask the disk for what comes. What is there, faults map in passing, and
     * cheaper than an advice to map the window would. */
    for (uint64_t next = first ? 1 : READ_AHEAD; next <= READ_AHEAD; next++)
        read_ahead(w->m, window + next);
    if (w->m->ahead)
        ahead_of(w->m->ahead, window);
}
