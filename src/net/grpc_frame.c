/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc_frame.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { FIRST_BYTES = 512, KEEP_BYTES = 64 * 1024 };

void grpc_frames_init(struct grpc_frames *f, size_t max_message)
{
    *f = (struct grpc_frames){.max_message = max_message};
}

void grpc_frames_done(struct grpc_frames *f)
{
    if (f->p)
        explicit_bzero(f->p, f->n);
    free(f->p);
    *f = (struct grpc_frames){.max_message = f->max_message};
}

void grpc_frame_head(size_t message_bytes, char out[GRPC_FRAME_HEAD])
{
    out[0] = 0;
    for (int i = 0; i < 4; i++)
        out[1 + i] = (char)(message_bytes >> (24 - 8 * i) & 0xff);
}

static size_t head_length(const char *p)
{
    const unsigned char *u = (const unsigned char *)p;
    return (size_t)u[1] << 24 | (size_t)u[2] << 16 | (size_t)u[3] << 8 | u[4];
}

static void make_room(struct grpc_frames *f, size_t more)
{
    if (f->at > 0 && (f->n + more > f->cap)) {
        memmove(f->p, f->p + f->at, f->n - f->at);
        f->n -= f->at;
        f->at = 0;
    }
    if (f->n + more <= f->cap)
        return;
    size_t cap = f->cap > 0 ? f->cap : FIRST_BYTES;
    while (cap < f->n + more)
        cap += cap / 2;
    f->p = xrealloc_array(f->p, cap, 1);
    f->cap = cap;
}

void grpc_frames_add(struct grpc_frames *f, const void *bytes, size_t n)
{
    make_room(f, n);
    if (n > 0)
        memcpy(f->p + f->n, bytes, n);
    f->n += n;
    f->owed += n;
}

int grpc_frames_peek(const struct grpc_frames *f, struct str *out, struct err *e)
{
    const size_t have = f->n - f->at;
    if (have < GRPC_FRAME_HEAD)
        return 0;
    const char *head = f->p + f->at;
    if (head[0] != 0)
        return err_set(e, ERR_CORRUPT, 0, "%s",
                       head[0] == 1 ? "compressed message, which nobody asked for"
                                    : "message with an unknown flag");
    const size_t n = head_length(head);
    if (n > f->max_message)
        return err_set(e, ERR_TOO_BIG, 0, "message of %zu bytes, more than %zu", n, f->max_message);
    if (have - GRPC_FRAME_HEAD < n)
        return 0;
    *out = (struct str){head + GRPC_FRAME_HEAD, n};
    return 1;
}

void grpc_frames_pop(struct grpc_frames *f)
{
    struct str message = {0};
    struct err unused;
    if (grpc_frames_peek(f, &message, &unused) <= 0)
        return;
    f->at += GRPC_FRAME_HEAD + message.n;
    if (f->at < f->n)
        return;
    f->at = f->n = 0;
    if (f->cap > KEEP_BYTES) { /* one large answer must not be held for ever */
        free(f->p);
        f->p = NULL;
        f->cap = 0;
    }
}

bool grpc_frames_empty(const struct grpc_frames *f)
{
    return f->at == f->n;
}

size_t grpc_frames_credit(struct grpc_frames *f)
{
    struct str message = {0};
    struct err unused;
    size_t held = 0; /* bytes behind a message that waits for its reader */
    const int whole = grpc_frames_peek(f, &message, &unused);
    if (whole < 0)
        return 0;
    if (whole > 0)
        held = f->n - f->at - GRPC_FRAME_HEAD - message.n;
    const size_t give = f->owed > held ? f->owed - held : 0;
    f->owed -= give;
    return give;
}
