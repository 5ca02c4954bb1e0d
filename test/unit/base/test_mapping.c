/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/thread.h"
#include "scratch.h"
#include "unit.h"

static void reads_back_in_any_order(bool look_ahead)
{
    struct err e = {0};
    enum { SIZE = 40 << 20 };
    char *bytes = xmalloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 31 >> 7);
    assert_ok(file_write_durable(scratch_file, (struct str){bytes, SIZE}, 0600, &e));
    struct mapping m;
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    assert_int_equal(m.n, SIZE);
    assert_int_equal(posix_fadvise(m.fd, 0, 0, POSIX_FADV_DONTNEED), 0); /* it is on the disk */
    if (look_ahead)
        mapping_look_ahead(&m, MAPPING_FORGET);
    struct mapping_window onward = mapping_window_of(&m), around = mapping_window_of(&m);
    uint64_t seed = 1;
    for (size_t at = 0; at < SIZE; at += 4096) {
        const size_t other = test_below(&seed, SIZE - 4096);
        mapping_reach(&onward, at);
        assert_memory_equal(m.p + at, bytes + at, 4096);
        mapping_reach(&around, other);
        assert_memory_equal(m.p + other, bytes + other, 4096);
    }
    mapping_done(&m);
    mapping_done(&m);
    free(bytes);
}

static void a_file_of_many_windows_reads_back_in_any_order(void **state)
{
    (void)state;
    reads_back_in_any_order(false);
}

static void with_somebody_who_looks_ahead_too(void **state)
{
    (void)state;
    reads_back_in_any_order(true);
}

static void a_file_in_use_is_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct mapping m, second, alone;
    assert_ok(file_write_durable(scratch_file, STR("x"), 0600, &e));
    auto_close int fd = open(scratch_file, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_err(mapping_open(&m, scratch_file, MAPPING_SHARED, &e), ERR_CONFLICT, "in use");
    assert_int_equal(flock(fd, LOCK_UN), 0);
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    assert_ok(mapping_open(&second, scratch_file, MAPPING_SHARED, &e)); /* readers do not disturb */
    assert_err(mapping_open(&alone, scratch_file, MAPPING_EXCLUSIVE, &e), ERR_CONFLICT, "in use");
    mapping_done(&m);
    mapping_done(&second);
}

static void odd_files(void **state)
{
    (void)state;
    struct err e = {0};
    struct mapping m;
    assert_err(mapping_open(&m, "/no/such", MAPPING_SHARED, &e), ERR_NOT_FOUND, "/no/such");
    assert_err(mapping_open(&m, scratch_dir, MAPPING_SHARED, &e), ERR_INVALID,
               "not a regular file");
    assert_ok(file_write_durable(scratch_file, STR(""), 0600, &e));
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    assert_true(m.n == 0 && m.p == NULL);
    mapping_done(&m);
}

enum { CUT_SIZE = 8 << 20, CUT_AT = 1234567 };

struct reader {
    const struct mapping *m;
    uint64_t sum;
};

static void read_all(void *arg)
{
    struct reader *r = arg;
    for (size_t i = 0; i < r->m->n; i++)
        r->sum += r->m->p[i];
}

static void write_ones(void)
{
    struct err e = {0};
    auto_free char *bytes = xmalloc(CUT_SIZE);
    memset(bytes, 1, CUT_SIZE);
    assert_ok(file_write_durable(scratch_file, (struct str){bytes, CUT_SIZE}, 0600, &e));
}

static void a_file_cut_short_under_its_readers_reads_as_zeros_and_is_an_error(void **state)
{
    (void)state;
    struct err e = {0};
    write_ones();
    struct mapping m, other;
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    assert_ok(mapping_open(&other, scratch_file, MAPPING_SHARED, &e));
    mapping_look_ahead(&m, MAPPING_REMEMBER);
    assert_ok(mapping_check(&m, &e));
    assert_int_equal(truncate(scratch_file, CUT_AT), 0);
    struct reader here = {.m = &m}, threads[2] = {{.m = &m}, {.m = &m}};
    struct thread t[2];
    struct mapping_window w = mapping_window_of(&m);
    mapping_reach(&w, 0); /* so that the one who looks ahead finds nothing either */
    for (size_t i = 0; i < COUNT_OF(t); i++)
        assert_ok(thread_start(&t[i], "reader", read_all, &threads[i], &e));
    read_all(&here);
    for (size_t i = 0; i < COUNT_OF(t); i++) {
        thread_join(&t[i]);
        assert_int_equal(threads[i].sum, CUT_AT);
    }
    assert_int_equal(here.sum, CUT_AT);
    assert_err(mapping_check(&m, &e), ERR_IO, "cannot be read at offset 1234567");

    /* It stays lost, although the file is as long again; who has read nothing there, has not. */
    assert_int_equal(truncate(scratch_file, CUT_SIZE), 0);
    assert_err(mapping_check(&m, &e), ERR_IO, "cut short or the disk failed");
    assert_ok(mapping_check(&other, &e));
    mapping_done(&m);
    mapping_done(&other);
}

static void a_file_cut_inside_its_last_page_is_an_error_too(void **state)
{
    (void)state;
    struct err e = {0};
    write_ones();
    struct mapping m;
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    assert_int_equal(truncate(scratch_file, CUT_SIZE - 1), 0);
    struct reader r = {.m = &m};
    read_all(&r); /* no fault: the rest of a page is zeros */
    assert_err(mapping_check(&m, &e), ERR_IO, "at offset 8388607");
    mapping_done(&m);
}

/* Whether the first page of a window is in our page table: mincore() would ask the page cache. */
static bool is_mapped(const struct mapping *m, uint64_t window)
{
    uint64_t entry = 0;
    auto_close int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    const uintptr_t page = ((uintptr_t)m->p + window * (2 << 20)) / 4096;
    assert_int_equal(pread(fd, &entry, sizeof(entry), (off_t)(page * sizeof(entry))),
                     sizeof(entry));
    return entry >> 63;
}

/* Each time two windows in order, so that two more are mapped, and then somewhere else. */
static void what_was_mapped_for_a_reader_who_went_elsewhere_is_let_go(void **state)
{
    (void)state;
    enum { TIMES = 20, WINDOWS = 4 * TIMES };
    struct err e = {0};
    struct mapping m;
    write_ones();
    assert_int_equal(truncate(scratch_file, (off_t)WINDOWS << 21), 0);
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    mapping_look_ahead(&m, MAPPING_REMEMBER);
    struct mapping_window w = mapping_window_of(&m);
    for (uint64_t i = 0; i < TIMES; i++) {
        mapping_reach(&w, (4 * i) << 21);
        mapping_reach(&w, (4 * i + 1) << 21);
        for (int tries = 0; tries < 5000 && !is_mapped(&m, 4 * i + 3); tries++)
            (void)usleep(1000);
        assert_true(is_mapped(&m, 4 * i + 3));
    }
    size_t mapped = 0;
    for (uint64_t i = 0; i < WINDOWS; i++)
        mapped += is_mapped(&m, i);
    assert_in_range(mapped, 1, 7); /* six, and one whose turn it is */
    mapping_done(&m);
}

/* A file that is on the disk and not in memory. */
static struct mapping open_cold(size_t windows)
{
    struct err e = {0};
    struct mapping m;
    auto_free char *bytes = xcalloc(windows, 2 << 20);
    assert_ok(file_write_durable(scratch_file, (struct str){bytes, windows << 21}, 0600, &e));
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    assert_int_equal(posix_fadvise(m.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    return m;
}

static bool is_in_cache(const struct mapping *m, uint64_t offset)
{
    unsigned char there = 0;
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(mincore((void *)(m->p + offset / page * page), page, &there), 0);
    return there & 1;
}

/* What begins in one window may end in the next: the last byte of both is there. */
static void a_reader_in_order_finds_what_he_comes_to_and_what_follows(void **state)
{
    (void)state;
    enum { WINDOWS = 20 };
    struct mapping m = open_cold(WINDOWS);
    mapping_look_ahead(&m, MAPPING_REMEMBER);
    struct mapping_window w = mapping_window_of(&m);
    for (uint64_t i = 0; i < WINDOWS; i++) {
        mapping_reach(&w, i << 21);
        assert_true(is_in_cache(&m, ((i + 1) << 21) - 1));
        assert_true(i + 1 == WINDOWS || is_in_cache(&m, ((i + 2) << 21) - 1));
    }
    mapping_done(&m);
}

/* As the kernel was told: VmFlags of the mapping. */
static bool is_read_at_random(const struct mapping *m)
{
    char line[1024], begin[32];
    bool ours = false, found = false, random = false;
    FILE *f = fopen("/proc/self/smaps", "r");
    assert_non_null(f);
    (void)snprintf(begin, sizeof(begin), "%zx-", (size_t)m->p);
    while (!found && fgets(line, sizeof(line), f)) {
        ours = ours || strncmp(line, begin, strlen(begin)) == 0;
        found = ours && strncmp(line, "VmFlags:", 8) == 0;
        random = found && strstr(line, " rr");
    }
    assert_int_equal(fclose(f), 0);
    assert_true(found);
    return random;
}

static void who_reads_in_order_looks_up_what_he_needs_and_not_what_lies_around(void **state)
{
    (void)state;
    enum { WINDOWS = 100 };
    struct err e = {0};
    struct mapping m;
    write_ones();
    assert_int_equal(truncate(scratch_file, (off_t)WINDOWS << 21), 0);
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    mapping_look_ahead(&m, MAPPING_REMEMBER);
    struct mapping_window w = mapping_window_of(&m);
    for (uint64_t i = 0; i < 4; i++) {
        mapping_reach(&w, i << 21);
        mapping_reach(&w, (90 - 4 * i) << 21);
        assert_int_equal(m.p[(90 - 4 * i) << 21], 0);
        assert_false(is_in_cache(&m, ((90 - 4 * i) << 21) - 1));
        assert_false(is_in_cache(&m, (91 - 4 * i) << 21));
    }
    assert_true(is_read_at_random(&m));
    for (uint64_t i = 0; i < WINDOWS; i++)
        mapping_reach(&w, (i * 37 % WINDOWS) << 21);
    assert_false(is_read_at_random(&m)); /* a file in another order: the kernel helps */
    mapping_done(&m);
}

/* As where memory is short: what was read is gone before it is reached. */
static void who_finds_pages_gone_again_gets_what_lies_around(void **state)
{
    (void)state;
    enum { WINDOWS = 20, PAGES = 64 };
    struct mapping m = open_cold(WINDOWS);
    mapping_look_ahead(&m, MAPPING_REMEMBER);
    struct mapping_window w = mapping_window_of(&m);
    mapping_reach(&w, 0);
    mapping_reach(&w, 1 << 21);
    assert_true(is_read_at_random(&m));
    assert_int_equal(madvise((void *)m.p, m.n, MADV_DONTNEED), 0);
    assert_int_equal(posix_fadvise(m.fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(m.p[(1 << 21) + i * (32 << 10)], 0);
    mapping_reach(&w, 2 << 21);
    assert_false(is_read_at_random(&m));
    mapping_done(&m);
}

/* Of what is not ours, or was sent, the process dies as it would without us. */
static void other_bus_errors_are_not_swallowed(void **state)
{
    (void)state;
    struct err e = {0};
    write_ones();
    for (int sent = 0; sent < 2; sent++) {
        struct mapping m;
        (void)signal(SIGBUS, SIG_DFL); /* not what the test framework or a sanitizer makes of it */
        assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            if (sent)
                (void)raise(SIGBUS);
            const volatile uint8_t *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, m.fd, CUT_SIZE);
            (void)*p;
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
        mapping_done(&m);
    }
}

static void more_files_than_can_be_watched_are_refused(void **state)
{
    (void)state;
    struct err e = {0};
    struct mapping m[65];
    size_t n = 0;
    assert_ok(file_write_durable(scratch_file, STR("x"), 0600, &e));
    while (n < COUNT_OF(m) && mapping_open(&m[n], scratch_file, MAPPING_SHARED, &e) == 0)
        n++;
    assert_int_equal(n, COUNT_OF(m) - 1);
    assert_int_equal(e.code, ERR_UNAVAILABLE);
    for (size_t i = 0; i < n; i++)
        mapping_done(&m[i]);
    assert_ok(mapping_open(&m[0], scratch_file, MAPPING_SHARED, &e)); /* places are given back */
    mapping_done(&m[0]);
}

static uint64_t resident_file_bytes(void)
{
    uint64_t size = 0, resident = 0, shared = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%" SCNu64 " %" SCNu64 " %" SCNu64, &size, &resident, &shared), 3);
    assert_int_equal(fclose(f), 0);
    return shared * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void a_reader_in_no_order_keeps_little_mapped(void **state)
{
    (void)state;
    enum { SIZE = 192 << 20, BOUND = 32 << 20 };
    struct err e = {0};
    struct mapping m;
    assert_ok(file_write_durable(scratch_file, STR("x"), 0600, &e));
    assert_int_equal(truncate(scratch_file, SIZE), 0);
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    struct mapping_window window = mapping_window_of(&m);
    const uint64_t before = resident_file_bytes();
    uint64_t seed = 3, most = 0, sum = 0;
    for (int i = 0; i < 20000; i++) {
        const uint64_t at = test_below(&seed, SIZE - 1) + 1;
        mapping_reach(&window, at);
        sum += m.p[at];
        const uint64_t now = i % 100 == 0 ? resident_file_bytes() : 0;
        most = now > most ? now : most;
    }
    assert_int_equal(sum, 0);
    assert_true(most > before && most - before < BOUND);
    mapping_done(&m);
}

/* Of a file with holes only what was asked for is in memory. */
static void one_that_only_lets_go_asks_for_nothing_ahead(void **state)
{
    (void)state;
    enum { SIZE = 32 << 20, STEP = 1 << 20 };
    struct err e = {0};
    struct mapping m;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_ok(file_write_durable(scratch_file, STR("x"), 0600, &e));
    assert_int_equal(truncate(scratch_file, SIZE), 0);
    assert_ok(mapping_open(&m, scratch_file, MAPPING_SHARED, &e));
    struct mapping_window window = mapping_window_of(&m);
    window.only_behind = true;
    for (uint64_t at = 0; at < SIZE / 2; at += STEP)
        mapping_reach(&window, at);
    for (uint64_t at = SIZE / 2; at < SIZE; at += page) {
        unsigned char there = 0;
        assert_int_equal(mincore((void *)(m.p + at), page, &there), 0);
        assert_int_equal(there & 1, 0);
    }
    mapping_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_of_many_windows_reads_back_in_any_order),
        TEST(with_somebody_who_looks_ahead_too),
        TEST(a_file_in_use_is_refused),
        TEST(odd_files),
        TEST(a_reader_in_no_order_keeps_little_mapped),
        TEST(one_that_only_lets_go_asks_for_nothing_ahead),
        TEST(a_file_cut_short_under_its_readers_reads_as_zeros_and_is_an_error),
        TEST(a_file_cut_inside_its_last_page_is_an_error_too),
        TEST(what_was_mapped_for_a_reader_who_went_elsewhere_is_let_go),
        TEST(a_reader_in_order_finds_what_he_comes_to_and_what_follows),
        TEST(who_finds_pages_gone_again_gets_what_lies_around),
        TEST(who_reads_in_order_looks_up_what_he_needs_and_not_what_lies_around),
        TEST(other_bus_errors_are_not_swallowed),
        TEST(more_files_than_can_be_watched_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_tear_down);
}
