/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/outqueue.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "scratch.h"
#include "unit.h"

enum { PIECE = 64 * 1024, PIECES = 40 };

static struct outfile file;

/* Asks whether what is said to be written lies in the file. */
struct follower {
    uint64_t end;
    size_t calls, fail_at; /* 0: never */
};

static int follow(void *arg, uint64_t end, struct err *e)
{
    struct follower *f = arg;
    uint8_t last = 0;
    if (end != f->end + PIECE || pread(file.fd, &last, 1, (off_t)end - 1) != 1 ||
        last != (uint8_t)(end / PIECE))
        return err_set(e, ERR_BUG, 0, "not written: %llu", (unsigned long long)end);
    f->end = end;
    return ++f->calls == f->fail_at ? err_set(e, ERR_CORRUPT, 0, "not what was meant") : 0;
}

static int set_up(void **state)
{
    (void)signal(SIGXFSZ, SIG_IGN);
    return scratch_set_up(state);
}

static int create(void **state)
{
    (void)state;
    struct err e = {0};
    auto_close int dir_fd = open(scratch_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return outfile_create(&file, dir_fd, scratch_dir, "f", 0600, 0, &e);
}

static int discard(void **state)
{
    (void)state;
    const int rc = unlink(file.path);
    outfile_done(&file);
    return rc;
}

/* Pieces full of their number, from 1. Stops where the queue says no. */
static int put_pieces(struct outqueue *q, struct err *e)
{
    for (uint64_t i = 0; i < PIECES; i++) {
        uint8_t *p = outqueue_buffer(q, PIECE);
        memset(p, (int)(i + 1), PIECE);
        if (outqueue_write(q, i * PIECE, p, PIECE, e) < 0)
            return -1;
    }
    return 0;
}

static void pieces_are_written_in_order_and_followed(void **state)
{
    (void)state;
    AUTO(outqueue_done) struct outqueue q = {0};
    struct err e = {0};
    struct follower f = {0};
    uint8_t head[4] = {0};
    assert_ok(outqueue_start(&q, &file, &(struct outqueue_follower){&f, follow}, &e));
    assert_ok(put_pieces(&q, &e));
    assert_ok(outqueue_write(&q, 0, "head", 4, &e)); /* over the first, which is written by now */
    assert_int_equal(f.calls, PIECES);
    assert_ok(outqueue_end(&q, &e));
    assert_int_equal(pread(file.fd, head, sizeof(head), 0), sizeof(head));
    assert_memory_equal(head, "head", 4);
}

static void what_the_follower_says_ends_the_writing(void **state)
{
    (void)state;
    for (size_t at = 1; at <= PIECES; at += 13) {
        AUTO(outqueue_done) struct outqueue q = {0};
        struct err e = {0};
        struct follower f = {.fail_at = at};
        assert_ok(outqueue_start(&q, &file, &(struct outqueue_follower){&f, follow}, &e));
        (void)!put_pieces(&q, &e); /* it may have got to the end before */
        assert_err(outqueue_end(&q, &e), ERR_CORRUPT, "not what was meant");
        assert_err(outqueue_write(&q, 0, "head", 4, &e), ERR_CORRUPT, "not what was meant");
        assert_int_equal(f.calls, at);
    }
}

static void a_write_that_fails_comes_back_and_names_the_file(void **state)
{
    (void)state;
    AUTO(outqueue_done) struct outqueue q = {0};
    struct err e = {0};
    struct follower f = {0};
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = PIECES / 2 * PIECE;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_ok(outqueue_start(&q, &file, &(struct outqueue_follower){&f, follow}, &e));
    (void)!put_pieces(&q, &e);
    (void)!outqueue_end(&q, &e);
    limit.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_err(outqueue_end(&q, &e), ERR_TOO_BIG, file.path);
    assert_int_equal(f.calls, PIECES / 2);
}

static void one_that_is_given_up_waits_for_nobody(void **state)
{
    (void)state;
    struct outqueue q = {0};
    struct err e = {0};
    struct follower f = {0};
    outqueue_done(&q);
    assert_ok(outqueue_start(&q, &file, &(struct outqueue_follower){&f, follow}, &e));
    memset(outqueue_buffer(&q, PIECE), 1, PIECE);
    outqueue_done(&q);
    outqueue_done(&q);
    assert_int_equal(f.calls, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_are_written_in_order_and_followed, create, discard),
        cmocka_unit_test_setup_teardown(what_the_follower_says_ends_the_writing, create, discard),
        cmocka_unit_test_setup_teardown(a_write_that_fails_comes_back_and_names_the_file, create,
                                        discard),
        cmocka_unit_test_setup_teardown(one_that_is_given_up_waits_for_nobody, create, discard),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_tear_down);
}
