/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc_frame.h"

#include "base/buf.h"
#include "unit.h"

static void add_message(struct buf *out, const char *text)
{
    char head[GRPC_FRAME_HEAD];
    grpc_frame_head(strlen(text), head);
    buf_add(out, head, sizeof(head));
    buf_add_c(out, text);
}

static void messages_come_out_whole_however_bytes_arrive(void **state)
{
    (void)state;
    auto_buf struct buf stream = BUF_INIT(1 << 20);
    static const char *const texts[] = {"", "a", "hello", "", "world and more of it"};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        add_message(&stream, texts[i]);
    for (size_t piece = 1; piece <= stream.n; piece++) {
        struct err e;
        struct grpc_frames f;
        grpc_frames_init(&f, 100);
        size_t seen = 0;
        for (size_t at = 0; at < stream.n; at += piece) {
            const size_t n = at + piece <= stream.n ? piece : stream.n - at;
            grpc_frames_add(&f, stream.p + at, n);
            struct str message;
            while (grpc_frames_peek(&f, &message, &e) > 0) {
                assert_true(str_eq(message, str_c(texts[seen++])));
                grpc_frames_pop(&f);
            }
        }
        assert_int_equal(seen, COUNT_OF(texts));
        assert_true(grpc_frames_empty(&f));
        grpc_frames_done(&f);
    }
}

static void a_head_that_cannot_be_is_refused_at_once(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        enum err_code code;
        const char *part;
    } rows[] = {
        {"\x01\x00\x00\x00\x01", ERR_CORRUPT, "compressed"},
        {"\x02\x00\x00\x00\x01", ERR_CORRUPT, "unknown flag"},
        {"\xff\x00\x00\x00\x01", ERR_CORRUPT, "unknown flag"},
        {"\x00\x00\x00\x00\x0b", ERR_TOO_BIG, "more than 10"},
        {"\x00\xff\xff\xff\xff", ERR_TOO_BIG, "4294967295"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct grpc_frames f;
        struct str message;
        struct err e = {0};
        grpc_frames_init(&f, 10);
        grpc_frames_add(&f, rows[i].bytes, GRPC_FRAME_HEAD - 1);
        assert_int_equal(grpc_frames_peek(&f, &message, &e), 0);
        grpc_frames_add(&f, rows[i].bytes + GRPC_FRAME_HEAD - 1, 1);
        assert_err(grpc_frames_peek(&f, &message, &e), rows[i].code, rows[i].part);
        assert_int_equal(grpc_frames_credit(&f), 0);
        grpc_frames_done(&f);
    }
}

static void a_waiting_message_holds_back_what_is_behind_it(void **state)
{
    (void)state;
    struct err e;
    struct str message;
    auto_buf struct buf stream = BUF_INIT(1 << 20);
    add_message(&stream, "first");
    const size_t first_n = stream.n;
    add_message(&stream, "second");
    struct grpc_frames f;
    grpc_frames_init(&f, 100);
    grpc_frames_add(&f, stream.p, stream.n);
    assert_int_equal(grpc_frames_credit(&f), first_n);
    assert_int_equal(grpc_frames_credit(&f), 0);
    grpc_frames_add(&f, stream.p, stream.n);
    assert_int_equal(grpc_frames_credit(&f), 0); /* the reader is slow: the sender must wait */
    assert_int_equal(grpc_frames_peek(&f, &message, &e), 1);
    grpc_frames_pop(&f);
    assert_int_equal(grpc_frames_credit(&f), stream.n - first_n);
    for (int i = 0; i < 3; i++)
        grpc_frames_pop(&f);
    assert_int_equal(grpc_frames_credit(&f), stream.n);
    grpc_frames_done(&f);
}

static void a_message_larger_than_any_window_keeps_arriving(void **state)
{
    (void)state;
    struct grpc_frames f;
    char piece[1000] = {0};
    size_t given = 0;
    grpc_frames_init(&f, 1 << 20);
    grpc_frame_head(100 * sizeof(piece) - GRPC_FRAME_HEAD, piece);
    for (int i = 0; i < 100; i++) {
        grpc_frames_add(&f, piece, sizeof(piece));
        given += grpc_frames_credit(&f);
        assert_int_equal(given, (size_t)(i + 1) * sizeof(piece));
        memset(piece, 0, GRPC_FRAME_HEAD);
    }
    grpc_frames_pop(&f);
    assert_true(grpc_frames_empty(&f));
    assert_int_equal(f.cap, 0); /* and its memory does not stay */
    grpc_frames_done(&f);
}

TEST_MAIN(TEST(messages_come_out_whole_however_bytes_arrive),
          TEST(a_head_that_cannot_be_is_refused_at_once),
          TEST(a_waiting_message_holds_back_what_is_behind_it),
          TEST(a_message_larger_than_any_window_keeps_arriving))
