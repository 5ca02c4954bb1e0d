/* SPDX-License-Identifier: Apache-2.0
 * A file that is still being copied, for one who reads it at the same time: who asks for a part
 * that is not there yet waits for it. */
#pragma once
#include <stdatomic.h>

#include "base/thread.h"
#include "bolt/db.h"

struct arrival {
    struct bolt_arrival bolt; /* what a struct bolt of the file is given */
    _Atomic(uint64_t) at;     /* everything before this offset is there */
    uint64_t rest;            /* and everything from this one on */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t moved;
    bool given_up;
};

/* Stays where it is until arrival_done(). What is before `at` and from `rest` on is there. */
void arrival_init(struct arrival *a, uint64_t at, uint64_t rest);
void arrival_done(struct arrival *a); /* after its last reader */

/* From the one that copies, in order: everything before the offset is there, for good. */
void arrival_move(struct arrival *a, uint64_t at);
/* Nothing more will come: who waits is told ERR_CANCELED. Without effect once all is there. */
void arrival_give_up(struct arrival *a);
