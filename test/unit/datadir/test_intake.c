/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/intake.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "scratch.h"
#include "unit.h"

enum { PIECE = INTAKE_PIECE_BYTES, PAGE = 4096 };

/* Random bytes, on the disk. */
static char *write_file(size_t n)
{
    uint64_t seed = n;
    struct err e = {0};
    char *bytes = xmalloc(n + 1);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (char)test_next(&seed);
    assert_ok(file_write_durable(scratch_file, (struct str){bytes, n}, 0600, &e));
    return bytes;
}

/* Of any content: an intake does not look into it. */
static struct dbfile opened(void)
{
    struct err e = {0};
    struct dbfile f = {.path = xstrdup(scratch_file)};
    assert_ok(mapping_open(&f.map, scratch_file, MAPPING_SHARED, &e));
    f.n = f.map.n;
    return f;
}

static void every_byte_comes_once_and_in_order(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, PIECE - 1, PIECE, PIECE + 1, 20 * (size_t)PIECE + 4711};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct err e = {0};
        const size_t n = sizes[i];
        auto_free char *bytes = write_file(n + 100);
        AUTO(dbfile_done) struct dbfile f = opened();
        AUTO(intake_done) struct intake in = {0};
        intake_begin(&in, &f, n);
        size_t at = 0;
        for (struct str piece = {"", 1}; piece.n > 0; at += piece.n) {
            assert_ok(intake_next(&in, &piece, &e));
            assert_true(piece.n <= n - at && piece.n <= PIECE);
            assert_memory_equal(piece.p, bytes + at, piece.n);
        }
        assert_int_equal(at, n);
        intake_done(&in);
    }
}

static void a_file_that_is_cut_short_says_so(void **state)
{
    (void)state;
    struct err e = {0};
    free(write_file(4 * (size_t)PIECE));
    AUTO(dbfile_done) struct dbfile f = opened();
    AUTO(intake_done) struct intake in = {0};
    struct str piece;
    intake_begin(&in, &f, f.n);
    assert_ok(intake_next(&in, &piece, &e));
    assert_int_equal(truncate(scratch_file, PIECE + 100), 0);
    assert_err(intake_next(&in, &piece, &e), ERR_IO, "cut short");
}

static size_t cached_pages(const struct mapping *m, uint64_t offset, size_t pages)
{
    size_t n = 0;
    auto_free unsigned char *there = xcalloc(1, pages);
    assert_int_equal(mincore((void *)(m->p + offset), pages * PAGE, there), 0);
    for (size_t i = 0; i < pages; i++)
        n += there[i] & 1;
    return n;
}

static void what_was_read_leaves_the_page_cache(void **state)
{
    (void)state;
    struct err e = {0};
    const size_t forgotten = 16 << 20;
    free(write_file(forgotten + PIECE));
    AUTO(dbfile_done) struct dbfile f = opened();
    assert_int_equal(cached_pages(&f.map, 0, forgotten / PAGE), forgotten / PAGE);
    AUTO(intake_done) struct intake in = {0};
    intake_begin(&in, &f, f.n);
    for (struct str piece = {"", 1}; piece.n > 0;)
        assert_ok(intake_next(&in, &piece, &e));
    assert_true(cached_pages(&f.map, 0, forgotten / PAGE) < forgotten / PAGE / 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_byte_comes_once_and_in_order),
        TEST(a_file_that_is_cut_short_says_so),
        TEST(what_was_read_leaves_the_page_cache),
    };
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
