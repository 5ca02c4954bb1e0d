/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "scratch.h"
#include "unit.h"

static bool unnamed_files = true;

/* Stands before libc's: also a file system without unnamed files must do. */
int openat(int at, const char *name, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    if ((flags & O_TMPFILE) == O_TMPFILE && !unnamed_files) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, at, name, flags, mode);
}

static struct ctx ctx;

static int set_up(void **state)
{
    ctx = ctx_root(&clock_real, NULL);
    return scratch_set_up(state);
}

static int with_names(void **state)
{
    (void)state;
    unnamed_files = false;
    return 0;
}

static int without_names(void **state)
{
    (void)state;
    unnamed_files = true;
    return 0;
}

static size_t entries(void)
{
    size_t n = 0;
    DIR *d = opendir(scratch_dir);
    for (const struct dirent *entry = NULL; d && (entry = readdir(d));)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    (void)closedir(d);
    return n;
}

static char *in_dir(const char *name)
{
    return xasprintf("%s/%s", scratch_dir, name);
}

static void assert_content(const char *path, const char *want)
{
    struct err e = {0};
    auto_buf struct buf got = BUF_INIT(1000);
    assert_ok(file_read(&ctx, path, &got, &e));
    assert_string_equal(buf_cstr(&got), want);
}

static void written_bytes_read_back_and_replace_the_old(void **state)
{
    (void)state;
    struct err e = {0};
    auto_free char *path = in_dir("a");
    assert_ok(file_write_durable(path, STR("one"), 0640, &e));
    assert_ok(file_write_durable(path, STR("two"), 0600, &e));
    assert_content(path, "two");
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(entries(), 1);
    assert_int_equal(unlink(path), 0);
}

static void an_abandoned_write_leaves_the_old_file_and_no_litter(void **state)
{
    (void)state;
    struct err e = {0};
    auto_free char *path = in_dir("kept");
    assert_ok(file_write_durable(path, STR("old"), 0600, &e));
    const size_t before = entries();
    {
        AUTO(file_replace_done) struct file_replace f = {0};
        assert_ok(file_replace_begin(&f, path, 0600, &e));
        assert_ok(file_write_all(f.fd, STR("half of the ne"), &e));
        assert_int_equal(entries(), before + (unnamed_files ? 0 : 1));
    }
    assert_int_equal(entries(), before);
    assert_content(path, "old");
}

static void killed_while_writing(const char *path)
{
    struct err e = {0};
    const pid_t pid = fork();
    if (pid == 0) {
        struct file_replace f = {0};
        if (file_replace_begin(&f, path, 0600, &e) == 0 &&
            file_write_all(f.fd, STR("new"), &e) == 0)
            (void)raise(SIGKILL);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void killed_writers_change_nothing_and_leave_nothing_that_grows(void **state)
{
    (void)state;
    struct err e = {0};
    auto_free char *path = in_dir("killed");
    assert_ok(file_write_durable(path, STR("old"), 0600, &e));
    const size_t before = entries();
    for (int i = 0; i < 3; i++) {
        killed_while_writing(path);
        assert_content(path, "old");
        assert_int_equal(entries(), before + (unnamed_files ? 0 : 1));
    }
    assert_ok(file_write_durable(path, STR("newer"), 0600, &e));
    assert_content(path, "newer");
    assert_int_equal(entries(), before);
}

static void what_a_writer_killed_before_the_rename_left_is_removed(void **state)
{
    (void)state;
    struct err e = {0};
    auto_free char *path = in_dir("renamed"), *left = in_dir(".renamed.tmp");
    assert_ok(file_write_durable(path, STR("old"), 0600, &e));
    const size_t before = entries();
    assert_ok(file_write_durable(left, STR("complete, without its name"), 0600, &e));
    assert_ok(file_write_durable(path, STR("new"), 0600, &e));
    assert_content(path, "new");
    assert_int_equal(entries(), before);
}

static void two_writers_of_one_file_do_not_mix(void **state)
{
    (void)state;
    struct err e = {0};
    auto_free char *path = in_dir("both");
    assert_ok(file_write_durable(path, STR("old"), 0600, &e));
    const size_t before = entries();
    {
        AUTO(file_replace_done) struct file_replace one = {0}, two = {0};
        assert_ok(file_replace_begin(&one, path, 0600, &e));
        assert_ok(file_write_all(one.fd, STR("one"), &e));
        if (unnamed_files) { /* they do not meet: the last one stays */
            assert_ok(file_replace_begin(&two, path, 0600, &e));
            assert_ok(file_write_all(two.fd, STR("two"), &e));
            assert_ok(file_replace_commit(&two, &e));
            assert_content(path, "two");
        } else {
            assert_err(file_replace_begin(&two, path, 0600, &e), ERR_CONFLICT, "another run");
        }
        assert_ok(file_replace_commit(&one, &e));
        auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_int_equal(flock(fd, LOCK_SH | LOCK_NB), 0); /* it is anybody's now */
    }
    assert_content(path, "one");
    assert_int_equal(entries(), before);
}

static void failures_name_the_path(void **state)
{
    (void)state;
    struct err e = {0};
    auto_buf struct buf b = BUF_INIT(10);
    assert_err(file_read(&ctx, "/no/such/file", &b, &e), ERR_NOT_FOUND, "/no/such/file");
    assert_err(file_write_durable("/no/such/dir/x", STR("x"), 0600, &e), ERR_NOT_FOUND,
               "/no/such/dir/x");
    assert_err(file_write_durable("/tmp/", STR("x"), 0600, &e), ERR_INVALID, "/tmp/");
    assert_err(file_read(&ctx, "/tmp", &b, &e), ERR_IO, "/tmp");
}

static void the_ceiling_is_exact(void **state)
{
    (void)state;
    struct err e = {0};
    auto_free char *path = in_dir("ten");
    assert_ok(file_write_durable(path, STR("0123456789"), 0600, &e));
    auto_buf struct buf fits = BUF_INIT(10), small = BUF_INIT(9);
    assert_ok(file_read(&ctx, path, &fits, &e));
    assert_int_equal(fits.n, 10);
    assert_err(file_read(&ctx, path, &small, &e), ERR_TOO_BIG, "more than 9 bytes");
    auto_buf struct buf endless = BUF_INIT(1000);
    assert_err(file_read(&ctx, "/dev/zero", &endless, &e), ERR_TOO_BIG, "/dev/zero");
}

static void a_silent_pipe_ends_at_the_deadline(void **state)
{
    (void)state;
    struct err e = {0};
    auto_free char *path = in_dir("fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    const struct ctx soon = ctx_with_timeout(&ctx, 30);
    auto_buf struct buf b = BUF_INIT(10);
    assert_err(file_read(&soon, path, &b, &e), ERR_TIMEOUT, "fifo");
}

#define BOTH(fn)                                                                                   \
    cmocka_unit_test_setup(fn, without_names),                                                     \
        cmocka_unit_test_setup_teardown(fn, with_names, without_names)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(written_bytes_read_back_and_replace_the_old),
        BOTH(an_abandoned_write_leaves_the_old_file_and_no_litter),
        BOTH(killed_writers_change_nothing_and_leave_nothing_that_grows),
        BOTH(what_a_writer_killed_before_the_rename_left_is_removed),
        BOTH(two_writers_of_one_file_do_not_mix),
        TEST(failures_name_the_path),
        TEST(the_ceiling_is_exact),
        TEST(a_silent_pipe_ends_at_the_deadline),
    };
    return cmocka_run_group_tests(tests, set_up, scratch_remove_all);
}
