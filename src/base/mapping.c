/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/lostpages.h"
#include "base/mem.h"
#include "base/thread.h"

/* Large enough that the system calls do not matter, small enough that two readers with all their
 * windows stay well under 48 MiB. */
enum { WINDOW_BYTES = 2 << 20 };
enum { ASK_AHEAD = 4 }; /* windows asked of the disk before they are reached */

static void advise(const struct mapping *m, uint64_t window, int advice)
{
    const uint64_t begin = window * WINDOW_BYTES;
    if (begin >= m->n || m->fd < 0)
        return;
    const size_t n = m->n - begin < WINDOW_BYTES ? m->n - begin : WINDOW_BYTES;
    (void)madvise((void *)(m->p + begin), n, advice); /* advice: refused is slower, not wrong */
}

enum {
    BEHIND_MAX = 4,  /* windows to let go that the thread may have waiting */
    READ_AHEAD = 16, /* windows the thread reads before they are reached */
    READ_ON = 16,    /* windows it reads after one that was not there, whether they are or not */
    TOUCH_AHEAD = 2, /* windows mapped before they are reached */
    TOUCHED_MAX = MAPPING_WINDOWS + TOUCH_AHEAD,
    NOWHERE_BYTES = 128 * 1024,
    NOWHERES = WINDOW_BYTES / NOWHERE_BYTES, /* all of them are one, which stays in the cache */
};

#define NO_WINDOW UINT64_MAX

struct mapping_ahead {
    const struct mapping *m;
    bool forget;
    struct thread thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    pthread_cond_t was_read;
    uint64_t read, read_end;   /* windows to read */
    uint64_t reading;          /* the one that is being read, or NO_WINDOW */
    uint64_t touch, touch_end; /* windows to map; they are read first */
    struct mapping_kept behind[BEHIND_MAX];
    unsigned n_behind;
    bool stop;

    char *nowhere;                 /* by the thread alone: what it reads goes there */
    unsigned read_on;              /* windows still to be read on */
    uint64_t touched[TOUCHED_MAX]; /* what it mapped last */
    uint64_t n_touched;
};

static int map_all(struct mapping *m, const char *path, struct err *e)
{
    struct stat st;
    if (fstat(m->fd, &st) < 0)
        return err_set_errno(e, errno, "stat %s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(e, ERR_INVALID, 0, "%s: not a regular file", path);
    m->n = (size_t)st.st_size;
    m->changed = st.st_mtim;
    if (m->n == 0)
        return 0;
    void *p = mmap(NULL, m->n, PROT_READ, MAP_SHARED, m->fd, 0);
    if (p == MAP_FAILED)
        return err_set_errno(e, errno, "map %s", path);
    m->p = p;
    return lostpages_watch(p, m->n, &m->lost, e);
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

/* Whether its last page is. (Of a file that is not ours the kernel says that all is there.) */
static bool is_there(const struct mapping *m, uint64_t window)
{
    unsigned char there = 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = (window + 1) * WINDOW_BYTES;
    return end <= m->n && mincore((void *)(m->p + end - page), page, &there) == 0 && (there & 1);
}

/* Asks the disk for a window, and does not wait. */
static void read_ahead(const struct mapping *m, uint64_t window)
{
    if (!is_there(m, window))
        advise(m, window, MADV_WILLNEED);
}

static void touch_window(const struct mapping *m, uint64_t window)
{
    enum { FAULT_BYTES = 64 * 1024 }; /* the kernel maps so much around a page it is asked for */
    const uint64_t begin = window * WINDOW_BYTES;
    for (uint64_t at = begin; at < begin + WINDOW_BYTES && at < m->n; at += FAULT_BYTES)
        (void)*(const volatile uint8_t *)(m->p + at);
}

/* What the page cache forgets must have been passed: a window that was only looked into, as one
 * full of branches is, will be looked into again. */
static void let_go(const struct mapping *m, const struct mapping_kept *k, bool forget)
{
    advise(m, k->window, MADV_DONTNEED);
    if (forget && k->onward)
        (void)posix_fadvise(m->fd, (off_t)(k->window * WINDOW_BYTES), (off_t)WINDOW_BYTES,
                            POSIX_FADV_DONTNEED);
}

/* What was mapped for the reader is let go also if he went elsewhere, or was past it before it was
 * mapped. Where he reads in order he has left it by then. */
static void touch_ahead(struct mapping_ahead *a, uint64_t window)
{
    uint64_t *slot = &a->touched[a->n_touched % TOUCHED_MAX];
    touch_window(a->m, window);
    if (a->n_touched >= TOUCHED_MAX)
        advise(a->m, *slot, MADV_DONTNEED);
    *slot = window;
    a->n_touched++;
}

/* By reading it, in order and for nothing: the page cache then keeps the file in large pieces, and
 * finds by itself how far ahead it should be of the disk. An advice gets it page by page, at
 * several times the cost of the copying. It is one call, because where the kernel reads little
 * ahead of its own accord, as it does by default, it asks the disk for as much as a call wants.
 * What the page cache read ahead is there, and is read all the same: that is how it learns to go
 * on. Only a file that was there from the first is not. */
static void read_through(struct mapping_ahead *a, uint64_t window)
{
    const uint64_t begin = window * WINDOW_BYTES;
    if (!is_there(a->m, window))
        a->read_on = READ_ON;
    else if (a->read_on == 0)
        return;
    else
        a->read_on--;
    if (!a->nowhere)
        a->nowhere = xmalloc(NOWHERE_BYTES);
    struct iovec into[NOWHERES];
    for (size_t i = 0; i < NOWHERES; i++)
        into[i] = (struct iovec){a->nowhere, NOWHERE_BYTES};
    (void)!preadv(a->m->fd, into, NOWHERES, (off_t)begin); /* who reads it next says why */
}

/* What is waited for comes first. */
enum errand { ERRAND_NONE, ERRAND_READ, ERRAND_TOUCH, ERRAND_LET_GO, ERRAND_STOP };

static enum errand next_errand(struct mapping_ahead *a, struct mapping_kept *out)
{
    if (a->stop)
        return ERRAND_STOP;
    if (a->read < a->read_end) {
        out->window = a->reading = a->read++;
        return ERRAND_READ;
    }
    if (a->touch < a->touch_end) {
        out->window = a->touch++;
        return ERRAND_TOUCH;
    }
    if (a->n_behind == 0)
        return ERRAND_NONE;
    *out = a->behind[--a->n_behind];
    return ERRAND_LET_GO;
}

static void read_and_tell(struct mapping_ahead *a, uint64_t window)
{
    read_through(a, window);
    MUTEX_HOLD(&a->lock);
    a->reading = NO_WINDOW;
    (void)pthread_cond_signal(&a->was_read);
}

static void run_ahead(void *arg)
{
    struct mapping_ahead *a = arg;
    for (;;) {
        struct mapping_kept at = {0};
        enum errand errand = ERRAND_NONE;
        {
            MUTEX_HOLD(&a->lock);
            while ((errand = next_errand(a, &at)) == ERRAND_NONE)
                cond_wait_ms(&a->wake, &a->lock, -1);
        }
        if (errand == ERRAND_STOP)
            return;
        if (errand == ERRAND_READ)
            read_and_tell(a, at.window);
        else if (errand == ERRAND_TOUCH)
            touch_ahead(a, at.window);
        else
            let_go(a->m, &at, a->forget);
    }
}

void mapping_look_ahead(struct mapping *m, enum mapping_behind behind)
{
    struct err ignored = {0};
    struct mapping_ahead *a = xcalloc(1, sizeof(*a));
    a->m = m;
    a->forget = behind == MAPPING_FORGET;
    a->reading = NO_WINDOW;
    a->read_end = READ_AHEAD; /* he begins at the front, but looks some things up before */
    (void)pthread_mutex_init(&a->lock, NULL); /* cannot fail without attributes */
    cond_init(&a->wake);
    cond_init(&a->was_read);
    m->ahead = a;
    if (thread_start(&a->thread, "ahead", run_ahead, a, &ignored) == 0)
        (void)madvise((void *)m->p, m->n, MADV_RANDOM); /* enter_led() says why */
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
    (void)pthread_cond_destroy(&a->was_read);
    (void)pthread_mutex_destroy(&a->lock);
    free(a->nowhere);
    free(a);
}

/* False if it has too many already. */
static bool ahead_takes(struct mapping_ahead *a, const struct mapping_kept *k)
{
    MUTEX_HOLD(&a->lock);
    if (!a->thread.started || a->n_behind == BEHIND_MAX)
        return false;
    a->behind[a->n_behind++] = *k;
    (void)pthread_cond_signal(&a->wake);
    return true;
}

/* From what was done before on, unless the reader is somewhere else now. */
static void go_on_from(uint64_t first, uint64_t end, uint64_t lag, uint64_t *next,
                       uint64_t *next_end)
{
    *next_end = end;
    if (*next + lag < first || *next > end)
        *next = first;
}

static bool will_be_read(const struct mapping_ahead *a, uint64_t window)
{
    return (a->read <= window && window < a->read_end) || a->reading == window;
}

/* Who comes to what is about to be read waits for it, and for the window behind it, into which a
 * value that begins in this one may reach: a page that he would ask for himself is read out of
 * order, and the kernel does not see a file read in order any more. For its sake too the thread
 * leaves nothing out when the reader, who found pages there, is a little past it. */
static void ahead_of(struct mapping_ahead *a, uint64_t window)
{
    MUTEX_HOLD(&a->lock);
    go_on_from(window, window + 1 + READ_AHEAD, READ_AHEAD, &a->read, &a->read_end);
    go_on_from(window + 1, window + 1 + TOUCH_AHEAD, 0, &a->touch, &a->touch_end);
    (void)pthread_cond_signal(&a->wake);
    while (will_be_read(a, window + 1) && !is_there(a->m, window + 1))
        cond_wait_ms(&a->was_read, &a->lock, -1);
}

void mapping_done(struct mapping *m)
{
    if (!m)
        return;
    ahead_free(TAKE(m->ahead));
    lostpages_forget(m->lost);
    if (m->p)
        (void)munmap((void *)m->p, m->n);
    if (m->fd >= 0)
        (void)close(m->fd);
    *m = (struct mapping){.fd = -1};
}

/* The length is asked too: the rest of a page that is cut in the middle reads as zeros, and what
 * the kernel reads for us, as a write from the mapping does, is no fault. */
int mapping_check(const struct mapping *m, struct err *e)
{
    struct stat st;
    if (!m->lost)
        return 0;
    uint64_t lost = lostpages_first(m->lost);
    if (fstat(m->fd, &st) < 0)
        return err_set_errno(e, errno, "stat");
    if ((uint64_t)st.st_size < m->n && (uint64_t)st.st_size < lost)
        lost = (uint64_t)st.st_size;
    return lost == LOSTPAGES_NONE ? 0
                                  : err_set(e, ERR_IO, 0,
                                            "cannot be read at offset %" PRIu64
                                            ": it was cut short or the disk failed",
                                            lost);
}

int mapping_check_unchanged(const struct mapping *m, struct err *e)
{
    struct stat st;
    if (fstat(m->fd, &st) < 0)
        return err_set_errno(e, errno, "stat");
    if ((uint64_t)st.st_size == m->n && st.st_mtim.tv_sec == m->changed.tv_sec &&
        st.st_mtim.tv_nsec == m->changed.tv_nsec)
        return 0;
    return err_set(e, ERR_CONFLICT, 0, "the file changes while it is read");
}

/* How often this thread had to wait for a page itself. */
static long waits_so_far(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_majflt : 0;
}

struct mapping_window mapping_window_of(const struct mapping *m)
{
    return (struct mapping_window){.m = m, .waits = waits_so_far()};
}

static void leave(const struct mapping *m, const struct mapping_kept *k)
{
    if (!m->ahead || !ahead_takes(m->ahead, k))
        let_go(m, k, m->ahead && m->ahead->forget);
}

/* A page that is not there makes the kernel read megabytes around it, in single pages, and forget
 * how the thread reads the file, which then comes in small pieces too until it is trusted again. So
 * the kernel is told that the mapping is read at random, and a window that is looked into, as for a
 * branch far away from its leaves, is asked for as a whole. That serves neither who looks
 * everywhere, as in a file that is not in the order of its tree, nor who finds pages gone again
 * that were read for him, where memory is short: for him the kernel is to read what lies around. */
static void enter_led(struct mapping_window *w, uint64_t window, bool onward)
{
    enum { LOOKS = 16, IN_ORDER_FOR_A_LOOK = 4, WAITS_IN_A_WINDOW = 16 };
    const long waits = waits_so_far();
    const bool lost = waits - w->waits > WAITS_IN_A_WINDOW;
    w->waits = waits;
    if (onward) {
        w->in_order++;
        ahead_of(w->m->ahead, window);
    } else {
        w->looks++;
        if (!w->everywhere)
            advise(w->m, window, MADV_WILLNEED);
    }
    if (!w->everywhere && (lost || w->looks > LOOKS + w->in_order / IN_ORDER_FOR_A_LOOK)) {
        w->everywhere = true;
        (void)madvise((void *)w->m->p, w->m->n, MADV_NORMAL);
    }
}

/* Asks the disk for what comes. What is there, faults map in passing, and cheaper than an advice to
 * map the window would. */
static void enter_alone(struct mapping_window *w, uint64_t window, bool first)
{
    for (uint64_t next = first ? 1 : ASK_AHEAD; next <= ASK_AHEAD; next++)
        read_ahead(w->m, window + next);
}

void mapping_reach(struct mapping_window *w, uint64_t offset)
{
    const uint64_t window = offset / WINDOW_BYTES;
    const bool first = w->filled == 0;
    bool onward = first && window == 0; /* elsewhere he looks something up */
    for (unsigned i = 0; i < w->filled; i++) {
        if (w->kept[i].window == window)
            return;
        onward = onward || w->kept[i].window + 1 == window; /* with looks elsewhere in between */
    }
    if (w->filled < MAPPING_WINDOWS)
        w->filled++;
    else
        leave(w->m, &w->kept[w->at]);
    w->kept[w->at] = (struct mapping_kept){window, onward};
    w->at = (w->at + 1) % MAPPING_WINDOWS;
    if (w->only_behind)
        return;
    if (w->m->ahead && w->m->ahead->thread.started)
        enter_led(w, window, onward);
    else if (onward)
        enter_alone(w, window, first);
}
