/* SPDX-License-Identifier: Apache-2.0
 * Named threads with small stacks and all signals blocked but SIGBUS, which means the thread that
 * gets it: the main thread alone handles the others.
 * Locks are pthread mutexes held by scope. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct thread {
    pthread_t id;
    void (*run)(void *arg);
    void *arg;
    char name[16]; /* the kernel's limit, with its NUL; shown by ps and gdb */
    bool started;
};

/* The struct must stay where it is until thread_join(). ERR_UNAVAILABLE: no more threads. */
NODISCARD int thread_start(struct thread *t, const char *name, void (*run)(void *arg), void *arg,
                           struct err *e);
void thread_join(struct thread *t); /* waits; does nothing if it was not started or was joined */

static inline void mutex_unlock_auto(pthread_mutex_t **m)
{
    (void)pthread_mutex_unlock(*m); /* fails only for a mutex we do not hold */
}

static inline pthread_mutex_t *mutex_lock(pthread_mutex_t *m)
{
    (void)pthread_mutex_lock(m); /* a default mutex fails only when misused */
    return m;
}

#define MUTEX_HOLD_NAME2(line) mutex_held_##line
#define MUTEX_HOLD_NAME(line) MUTEX_HOLD_NAME2(line)
/* Locks until the end of the enclosing block. */
#define MUTEX_HOLD(mutex)                                                                          \
    AUTO(mutex_unlock_auto)                                                                        \
    pthread_mutex_t *MUTEX_HOLD_NAME(__LINE__) __attribute__((unused)) = mutex_lock(mutex)

/* A condition variable whose waits do not care when someone sets the date. */
void cond_init(pthread_cond_t *c);
/* Waits with the mutex held, at most ms (less than 0: until signalled). May wake for no reason. */
void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *m, int64_t ms);
