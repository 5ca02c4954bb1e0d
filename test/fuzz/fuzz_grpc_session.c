/* SPDX-License-Identifier: Apache-2.0
 * A whole connection fed with whatever a server might send, in pieces: frames, HPACK, trailers,
 * resets, GOAWAY. Every call ends in exactly one verdict, and memory stays within the windows. */
#include "base/clock.h"
#include "fuzz.h"
#include "net/grpc_internal.h"

static void drain(struct grpc_conn *c)
{
    const uint8_t *bytes = NULL;
    while (nghttp2_session_mem_send(c->session, &bytes) > 0)
        ;
}

static struct grpc_call *start(struct grpc_conn *c, bool mutating, bool last)
{
    struct err e;
    struct grpc_call *call =
        grpc_call_new(c, &(struct grpc_call_options){
                             .path = "/a.B/C", .mutating = mutating, .max_message_bytes = 1 << 16});
    FUZZ_CHECK(grpc_call_send(call, STR("hello"), last, &e) == 0);
    return call;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct err e = {0};
    struct grpc_conn *c = NULL;
    const size_t piece = 1 + data[0] * 8U;
    FUZZ_CHECK(grpc_conn_new(&clock_real,
                             &(struct grpc_conn_options){.url = STR("http://127.0.0.1:1")}, &c,
                             &e) == 0);
    struct grpc_call *calls[] = {start(c, true, true), start(c, false, true),
                                 start(c, false, false)};
    drain(c);
    for (size_t at = 1; at < size; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        if (grpc_conn_feed(c, data + at, n, &e) < 0)
            break;
        struct str message;
        bool over = false;
        while (grpc_call_peek(calls[2], &message, &over, &e) > 0)
            grpc_call_pop(calls[2]);
        drain(c);
    }
    grpc_conn_free(c);
    for (size_t i = 0; i < COUNT_OF(calls); i++) {
        struct str message;
        struct err why = {0};
        FUZZ_CHECK(calls[i]->over && calls[i]->rx.cap <= GRPC_STREAM_WINDOW * 2 + (1 << 17));
        const int got = grpc_unary_ready(calls[i], &message, &why);
        FUZZ_CHECK(got != 0);
        FUZZ_CHECK(got > 0 || why.code != ERR_NONE);
        FUZZ_CHECK(got > 0 || i == 0 || why.code != ERR_OUTCOME_UNKNOWN);
        grpc_call_free(calls[i]);
    }
    return 0;
}
