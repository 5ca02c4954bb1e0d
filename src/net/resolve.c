/* SPDX-License-Identifier: Apache-2.0
 * getaddrinfo() cannot be interrupted. The thread that runs it shares a reference-counted struct
 * with the caller; whoever lets go last frees it. The number of such threads is capped, so a dead
 * name server costs a bounded amount of memory. */
#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/endpoint.h"

enum { LOOKUPS_MAX = 32, STACK_BYTES = 256 * 1024 };

static atomic_int lookups;

struct resolve {
    atomic_int refs;
    atomic_bool done;
    int fd; /* eventfd, or -1 when no thread was needed */
    int rc; /* of getaddrinfo; valid once done */
    int rc_errno;
    struct addrinfo *list;
    char *host, *port;
};

static void unref(struct resolve *r)
{
    if (atomic_fetch_sub(&r->refs, 1) > 1)
        return;
    if (r->list)
        freeaddrinfo(r->list);
    if (r->fd >= 0)
        (void)close(r->fd);
    free(r->host);
    free(r->port);
    free(r);
}

static void look_up(struct resolve *r, int flags)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    r->rc = getaddrinfo(r->host, r->port, &hints, &r->list);
    r->rc_errno = errno;
    atomic_store(&r->done, true);
}

static void *run(void *arg)
{
    struct resolve *r = arg;
    look_up(r, AI_ADDRCONFIG);
    const uint64_t one = 1;
    const ssize_t n = write(r->fd, &one, sizeof(one));
    (void)n; /* an empty eventfd takes it */
    atomic_fetch_sub(&lookups, 1);
    unref(r);
    return NULL;
}

/* Detached on purpose: nobody can wait for it within a deadline. */
static int start_thread(struct resolve *r)
{
    pthread_attr_t attr;
    pthread_t id;
    (void)pthread_attr_init(&attr); /* cannot fail on Linux */
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    const int rc = pthread_create(&id, &attr, run, r);
    (void)pthread_attr_destroy(&attr);
    return rc;
}

int resolve_start(const char *host, const char *port, struct resolve **out, struct err *e)
{
    struct resolve *r = xcalloc(1, sizeof(*r));
    *r = (struct resolve){.fd = -1, .host = xstrdup(host), .port = xstrdup(port)};
    atomic_init(&r->refs, 1);
    if (host_is_address(host)) {
        look_up(r, AI_NUMERICHOST);
        *out = r;
        return 0;
    }
    if (atomic_fetch_add(&lookups, 1) >= LOOKUPS_MAX) {
        atomic_fetch_sub(&lookups, 1);
        unref(r);
        return err_set(e, ERR_UNAVAILABLE, EAGAIN, "%s: %d name look-ups are stuck", host,
                       LOOKUPS_MAX);
    }
    r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    atomic_fetch_add(&r->refs, 1);
    const int rc = r->fd < 0 ? errno : start_thread(r);
    if (rc != 0) {
        atomic_fetch_sub(&lookups, 1);
        atomic_store(&r->refs, 1); /* the thread's reference was never taken */
        unref(r);
        err_set_errno(e, rc, "look up %s", host);
        e->code = ERR_UNAVAILABLE;
        return -1;
    }
    *out = r;
    return 0;
}

int resolve_fd(const struct resolve *r)
{
    return atomic_load(&r->done) ? -1 : r->fd;
}

bool resolve_poll(struct resolve *r, const struct addrinfo **out, struct err *e)
{
    if (!atomic_load(&r->done))
        return false;
    *out = r->rc == 0 ? r->list : NULL;
    if (r->rc == EAI_SYSTEM)
        err_set_errno(e, r->rc_errno, "look up %s", r->host);
    else if (r->rc != 0)
        err_set(e, ERR_UNAVAILABLE, 0, "look up %s: %s", r->host, gai_strerror(r->rc));
    if (r->rc != 0)
        e->code = ERR_UNAVAILABLE;
    return true;
}

void resolve_free(struct resolve *r)
{
    if (r)
        unref(r);
}
