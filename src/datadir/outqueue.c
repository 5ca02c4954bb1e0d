/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/outqueue.h"

#include <stdlib.h>

#include "base/mem.h"

static struct outqueue_piece *piece_at(struct outqueue *q, uint64_t number)
{
    return &q->ring[number % OUTQUEUE_BUFFERS];
}

static int write_piece(struct outqueue *q, const struct outqueue_piece *piece, struct err *e)
{
    if (outfile_sink(q->file, piece->offset, piece->p, piece->n, e) < 0)
        return -1;
    return q->follower.written(q->follower.arg, piece->offset + piece->n, e);
}

/* After a failure pieces are still taken, so that nobody waits for a buffer. */
static void run(void *arg)
{
    struct outqueue *q = arg;
    MUTEX_HOLD(&q->lock);
    for (;;) {
        while (q->written == q->given && !q->ended)
            cond_wait_ms(&q->moved, &q->lock, -1);
        if (q->written == q->given)
            return;
        if (!q->failed) {
            struct err err = {0};
            const struct outqueue_piece *piece = piece_at(q, q->written);
            (void)pthread_mutex_unlock(&q->lock);
            const int rc = write_piece(q, piece, &err);
            (void)pthread_mutex_lock(&q->lock);
            if (rc < 0) {
                q->failed = true;
                q->err = err;
            }
        }
        q->written++;
        (void)pthread_cond_broadcast(&q->moved);
    }
}

int outqueue_start(struct outqueue *q, struct outfile *file,
                   const struct outqueue_follower *follower, struct err *e)
{
    *q = (struct outqueue){.file = file, .follower = *follower};
    (void)pthread_mutex_init(&q->lock, NULL); /* cannot fail without attributes */
    cond_init(&q->moved);
    return thread_start(&q->thread, "write", run, q, e);
}

static void end(struct outqueue *q, bool drop)
{
    {
        MUTEX_HOLD(&q->lock);
        q->ended = true;
        q->failed = q->failed || drop;
        (void)pthread_cond_broadcast(&q->moved);
    }
    thread_join(&q->thread);
}

void outqueue_done(struct outqueue *q)
{
    if (!q->file)
        return;
    end(q, true);
    for (size_t i = 0; i < OUTQUEUE_BUFFERS; i++)
        free(TAKE(q->ring[i].p));
    (void)pthread_cond_destroy(&q->moved);
    (void)pthread_mutex_destroy(&q->lock);
    q->file = NULL;
}

int outqueue_end(struct outqueue *q, struct err *e)
{
    end(q, false);
    if (q->failed)
        *e = q->err;
    return q->failed ? -1 : 0;
}

uint8_t *outqueue_buffer(void *outqueue, size_t n)
{
    struct outqueue *q = outqueue;
    MUTEX_HOLD(&q->lock);
    while (q->given - q->written == OUTQUEUE_BUFFERS)
        cond_wait_ms(&q->moved, &q->lock, -1);
    struct outqueue_piece *piece = piece_at(q, q->given);
    if (!piece->p)
        piece->p = xmalloc(n);
    return piece->p;
}

int outqueue_write(void *outqueue, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    struct outqueue *q = outqueue;
    MUTEX_HOLD(&q->lock);
    struct outqueue_piece *piece = piece_at(q, q->given);
    const bool ours = bytes == piece->p;
    if (ours) {
        piece->n = n;
        piece->offset = offset;
        q->given++;
        (void)pthread_cond_broadcast(&q->moved);
    }
    while (!ours && q->written < q->given)
        cond_wait_ms(&q->moved, &q->lock, -1);
    if (q->failed) {
        *e = q->err;
        return -1;
    }
    return ours ? 0 : outfile_sink(q->file, offset, bytes, n, e);
}
