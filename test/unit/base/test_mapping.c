/* SPDX-License-Identifier: Apache-2.0 */
#include "base/mapping.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "unit.h"

static char dir[] = "/tmp/raftsman-mapping-XXXXXX";
static char *path;

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    path = xasprintf("%s/file", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    free(path);
    return rmdir(dir);
}

static void reads_back_in_any_order(bool look_ahead)
{
    struct err e = {0};
    enum { SIZE = 40 << 20 };
    char *bytes = xmalloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (char)(i * 31 >> 7);
    assert_ok(file_write_durable(path, (struct str){bytes, SIZE}, 0600, &e));
    struct mapping m;
    assert_ok(mapping_open(&m, path, MAPPING_SHARED, &e));
    assert_int_equal(m.n, SIZE);
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
    struct mapping m, second;
    assert_ok(file_write_durable(path, STR("x"), 0600, &e));
    auto_close int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    assert_err(mapping_open(&m, path, MAPPING_SHARED, &e), ERR_CONFLICT, "in use");
    assert_int_equal(flock(fd, LOCK_UN), 0);
    assert_ok(mapping_open(&m, path, MAPPING_SHARED, &e));
    assert_ok(mapping_open(&second, path, MAPPING_SHARED, &e)); /* readers do not disturb */
    assert_err(mapping_open(&second, path, MAPPING_EXCLUSIVE, &e), ERR_CONFLICT, "in use");
    mapping_done(&m);
}

static void odd_files(void **state)
{
    (void)state;
    struct err e = {0};
    struct mapping m;
    assert_err(mapping_open(&m, "/no/such", MAPPING_SHARED, &e), ERR_NOT_FOUND, "/no/such");
    assert_err(mapping_open(&m, dir, MAPPING_SHARED, &e), ERR_INVALID, "not a regular file");
    assert_ok(file_write_durable(path, STR(""), 0600, &e));
    assert_ok(mapping_open(&m, path, MAPPING_SHARED, &e));
    assert_true(m.n == 0 && m.p == NULL);
    mapping_done(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_of_many_windows_reads_back_in_any_order),
        TEST(with_somebody_who_looks_ahead_too),
        TEST(a_file_in_use_is_refused),
        TEST(odd_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
