/* SPDX-License-Identifier: Apache-2.0
 * A file written by a thread of its own, while the next pages are made: a bolt_sink with a few
 * buffers, which are filled, written and filled again. */
#pragma once
#include "base/thread.h"
#include "bolt/tree.h"
#include "datadir/outfile.h"

/* What the thread does after each write, of all that lies before `end`. -1 ends the writing. */
struct outqueue_follower {
    void *arg;
    int (*written)(void *arg, uint64_t end, struct err *e);
};

enum { OUTQUEUE_BUFFERS = 8 };

struct outqueue {
    struct outfile *file;
    struct outqueue_follower follower;
    struct thread thread;
    struct outqueue_piece {
        uint8_t *p; /* owned; allocated when first used */
        size_t n;
        uint64_t offset;
    } ring[OUTQUEUE_BUFFERS];

    pthread_mutex_t lock; /* guards what follows, and hands the pieces over */
    pthread_cond_t moved;
    uint64_t given, written; /* pieces so far */
    bool ended, failed;
    struct err err; /* why */
};

/* The file and what the follower points to are borrowed until outqueue_done(). ERR_UNAVAILABLE. */
NODISCARD int outqueue_start(struct outqueue *q, struct outfile *file,
                             const struct outqueue_follower *follower, struct err *e);
/* Ends the thread; what is not written yet is not. Idempotent on a zeroed or started struct. */
void outqueue_done(struct outqueue *q);

/* Waits until everything is written and followed. ERR_IO and what the follower says. */
NODISCARD int outqueue_end(struct outqueue *q, struct err *e);

/* `write` and `buffer` of a bolt_sink whose argument is a struct outqueue. An error may be that of
 * an earlier piece. What lies in no buffer of the queue is written at once, after all before it. */
NODISCARD int outqueue_write(void *outqueue, uint64_t offset, const void *bytes, size_t n,
                             struct err *e);
uint8_t *outqueue_buffer(void *outqueue, size_t n) NONNULL;
