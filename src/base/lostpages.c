/* SPDX-License-Identifier: Apache-2.0
 * The table is read in a signal handler, so it has a fixed size and no lock. An entry's range is
 * written before its state says that it counts, and a reader that faults in it is one that the
 * owner waits for: it cannot change under the handler. */
#include "base/lostpages.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/thread.h"

enum { WATCHED_MAX = 64 };
enum state { FREE, TAKEN, WATCHED };

struct lostpages {
    atomic_int state;
    _Atomic(uintptr_t) begin, end;
    _Atomic(uint64_t) first;
};

static struct lostpages table[WATCHED_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the writing of what follows */
static struct sigaction before;                          /* what SIGBUS did before us */
static uintptr_t page_bytes;

/* Zeros from the page on to the end: of a file cut short nothing follows, and whatever follows a
 * page that cannot be read is not trusted either. One fault is enough, however much is lost. Other
 * readers may be at these bytes or fault on them too, and find zeros like this one; the kernel is
 * asked directly, because a thread sanitizer takes the library's mmap() for a write they race with.
 */
static bool cover(struct lostpages *l, uintptr_t at)
{
    const uintptr_t page = at & ~(page_bytes - 1), end = atomic_load(&l->end);
    uint64_t none = LOSTPAGES_NONE;
    (void)atomic_compare_exchange_strong(&l->first, &none, page - atomic_load(&l->begin));
    return syscall(SYS_mmap, page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                   -1L, 0L) == (long)page;
}

static bool cover_watched(uintptr_t at)
{
    for (size_t i = 0; i < WATCHED_MAX; i++) {
        struct lostpages *l = &table[i];
        if (atomic_load(&l->state) == WATCHED && at >= atomic_load(&l->begin) &&
            at < atomic_load(&l->end))
            return cover(l, at);
    }
    return false;
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    (void)context;
    const int saved = errno;
    const bool faulted = info->si_code > 0; /* else somebody sent it, and si_addr means nothing */
    if (!faulted || !cover_watched((uintptr_t)info->si_addr)) {
        (void)sigaction(signal, &before, NULL); /* what is not ours happens as without us */
        if (!faulted)
            (void)raise(signal);
    }
    errno = saved;
}

/* Asked with each watch: somebody else may have taken the signal since, as test frameworks do. */
static void install(void)
{
    MUTEX_HOLD(&lock);
    struct sigaction now;
    struct sigaction ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO};
    (void)sigemptyset(&ours.sa_mask);
    (void)sigaction(SIGBUS, NULL, &now); /* these fail only for a bad signal number */
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error)
        return;
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    before = now;
    (void)sigaction(SIGBUS, &ours, NULL);
}

int lostpages_watch(const void *p, size_t n, struct lostpages **out, struct err *e)
{
    install();
    for (size_t i = 0; i < WATCHED_MAX; i++) {
        struct lostpages *l = &table[i];
        int state = FREE;
        if (!atomic_compare_exchange_strong(&l->state, &state, TAKEN))
            continue;
        atomic_store(&l->begin, (uintptr_t)p);
        atomic_store(&l->end, (uintptr_t)p + n);
        atomic_store(&l->first, LOSTPAGES_NONE);
        atomic_store(&l->state, WATCHED);
        *out = l;
        return 0;
    }
    return err_set(e, ERR_UNAVAILABLE, 0, "more than %d files mapped at once", WATCHED_MAX);
}

void lostpages_forget(struct lostpages *l)
{
    if (l)
        atomic_store(&l->state, FREE);
}

uint64_t lostpages_first(const struct lostpages *l)
{
    return atomic_load(&l->first);
}
