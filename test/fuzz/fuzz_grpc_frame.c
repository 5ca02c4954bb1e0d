/* SPDX-License-Identifier: Apache-2.0
 * However a stream is cut into pieces, the same messages come out, and no more window is given
 * back than bytes came in. */
#include <string.h>

#include "fuzz.h"
#include "net/grpc_frame.h"

enum { MESSAGE_MAX = 4096 };

/* Sum over the messages, and how the stream ended: 0 or the error code. */
struct seen {
    uint64_t sum;
    size_t messages;
    int end;
};

static struct seen run(const uint8_t *data, size_t size, size_t piece, bool lazy)
{
    struct seen s = {0};
    struct err e = {0};
    struct grpc_frames f;
    struct str message;
    size_t given = 0;
    grpc_frames_init(&f, MESSAGE_MAX);
    for (size_t at = 0; at < size && s.end == 0; at += piece) {
        grpc_frames_add(&f, data + at, size - at < piece ? size - at : piece);
        given += grpc_frames_credit(&f);
        FUZZ_CHECK(given <= at + piece);
        int got = 0;
        const bool last = at + piece >= size;
        while ((!lazy || last) && (got = grpc_frames_peek(&f, &message, &e)) > 0) {
            FUZZ_CHECK(message.n <= MESSAGE_MAX);
            for (size_t i = 0; i < message.n; i++)
                s.sum = s.sum * 31 + (unsigned char)message.p[i];
            s.messages++;
            grpc_frames_pop(&f);
            given += grpc_frames_credit(&f);
        }
        if (got < 0)
            s.end = (int)e.code;
    }
    if (s.end == 0)
        FUZZ_CHECK(given == size);
    grpc_frames_done(&f);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct seen whole = run(data, size, size + 1, false);
    for (size_t piece = 1; piece < 64; piece = piece * 3 + 1) {
        const struct seen again = run(data, size, piece, false);
        FUZZ_CHECK(whole.sum == again.sum && whole.messages == again.messages &&
                   whole.end == again.end);
    }
    const struct seen late = run(data, size, 7, true);
    FUZZ_CHECK(late.messages == whole.messages && late.end == whole.end);
    return 0;
}
