/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

/* Sanitizers make frames several times larger. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
enum { STACK_BYTES = 2 * 1024 * 1024 };
#else
enum { STACK_BYTES = 256 * 1024 };
#endif

static void *enter(void *arg)
{
    struct thread *t = arg;
    (void)pthread_setname_np(pthread_self(), t->name); /* cosmetic */
    t->run(t->arg);
    return NULL;
}

int thread_start(struct thread *t, const char *name, void (*run)(void *arg), void *arg,
                 struct err *e)
{
    *t = (struct thread){.run = run, .arg = arg};
    (void)snprintf(t->name, sizeof(t->name), "%s", name);

    pthread_attr_t attr;
    int rc = pthread_attr_init(&attr);
    if (rc == 0)
        rc = pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (rc != 0)
        return err_set_errno(e, rc, "thread %s: attributes", name);

    /* A new thread inherits the mask of its creator. Its own faults cannot wait: blocked, they
     * would end the process before any handler. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGBUS);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&t->id, &attr, enter, t);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    if (rc != 0) {
        err_set_errno(e, rc, "start thread %s", name);
        e->code = ERR_UNAVAILABLE;
        return -1;
    }
    t->started = true;
    return 0;
}

void thread_join(struct thread *t)
{
    if (!t || !t->started)
        return;
    (void)pthread_join(t->id, NULL); /* fails only when misused */
    t->started = false;
}

void cond_init(pthread_cond_t *c)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr); /* none of these fails on Linux */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(c, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *m, int64_t ms)
{
    if (ms < 0) {
        (void)pthread_cond_wait(c, m);
        return;
    }
    const int64_t day_ms = INT64_C(24) * 3600 * 1000; /* waking early is allowed */
    if (ms > day_ms)
        ms = day_ms;
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    const int64_t ns = until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    (void)pthread_cond_timedwait(c, m, &until);
}
