/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/arrival.h"

static int await(void *arg, uint64_t offset, uint64_t bytes, struct err *e)
{
    struct arrival *a = arg;
    if (offset >= a->rest)
        return 0;
    const uint64_t need = offset + bytes < a->rest ? offset + bytes : a->rest;
    if (atomic_load(&a->at) >= need)
        return 0;
    MUTEX_HOLD(&a->lock);
    while (atomic_load(&a->at) < need && !a->given_up)
        cond_wait_ms(&a->moved, &a->lock, -1);
    return atomic_load(&a->at) >= need
               ? 0
               : err_set(e, ERR_CANCELED, 0, "the file was not written to its end");
}

void arrival_init(struct arrival *a, uint64_t at, uint64_t rest)
{
    *a = (struct arrival){.bolt = {a, await}, .at = at, .rest = rest};
    (void)pthread_mutex_init(&a->lock, NULL); /* cannot fail without attributes */
    cond_init(&a->moved);
}

void arrival_done(struct arrival *a)
{
    (void)pthread_cond_destroy(&a->moved);
    (void)pthread_mutex_destroy(&a->lock);
}

void arrival_move(struct arrival *a, uint64_t at)
{
    MUTEX_HOLD(&a->lock);
    atomic_store(&a->at, at);
    (void)pthread_cond_broadcast(&a->moved);
}

void arrival_give_up(struct arrival *a)
{
    MUTEX_HOLD(&a->lock);
    a->given_up = true;
    (void)pthread_cond_broadcast(&a->moved);
}
