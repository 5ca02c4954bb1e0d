/* SPDX-License-Identifier: Apache-2.0
 * gRPC's framing inside a stream: one byte flag, four bytes length, the message. Bytes go in as
 * they arrive, whole messages come out. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum { GRPC_FRAME_HEAD = 5 };

struct grpc_frames {
    char *p;
    size_t at, n, cap;  /* unread bytes are p[at..n) */
    size_t max_message; /* a longer one is refused when its head is seen */
    size_t owed;        /* bytes the reader has not yet given back to flow control */
};

void grpc_frames_init(struct grpc_frames *f, size_t max_message);
void grpc_frames_done(struct grpc_frames *f); /* wipes: tokens travel here. Idempotent */

void grpc_frames_add(struct grpc_frames *f, const void *bytes, size_t n);

/* 1: *out is the first whole message, borrowed until the next add or pop. 0: none yet.
 * -1: ERR_TOO_BIG the next message is past the ceiling · ERR_CORRUPT compressed, or a flag that
 * does not exist; the stream is of no use any more. */
NODISCARD int grpc_frames_peek(const struct grpc_frames *f, struct str *out, struct err *e);
void grpc_frames_pop(struct grpc_frames *f);
bool grpc_frames_empty(const struct grpc_frames *f); /* not even a part of a message */

/* How many bytes may be given back to the sender's window now. A message that is still arriving
 * is given back at once: a message larger than the window could never arrive otherwise. What
 * comes behind a whole message waits until the reader took it, so that a slow reader holds at
 * most one message and one window. */
size_t grpc_frames_credit(struct grpc_frames *f);

void grpc_frame_head(size_t message_bytes, char out[GRPC_FRAME_HEAD]);
