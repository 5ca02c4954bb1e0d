/* SPDX-License-Identifier: Apache-2.0
 * Against a server of a few lines that misbehaves as told. */
#include "net/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "unit.h"

static const struct ctx *root(void)
{
    static struct log_sink sink;
    static struct log lg;
    static struct ctx ctx;
    if (!ctx.clock) {
        log_sink_init(&sink, 2, LOG_TEXT, LOG_ERROR, &clock_real);
        lg = (struct log){.sink = &sink};
        ctx = ctx_root(&clock_real, &lg);
    }
    return &ctx;
}

/* --- The server --- */

struct server {
    int fd;
    char url[64];
    struct thread thread;
    atomic_int requests;                                /* read whole */
    bool (*serve)(struct server *s, int conn, int nth); /* nth request; false: close it */
};

/* Header and body of one request, as far as Content-Length says. */
static bool read_request(int conn)
{
    char text[65536] = {0};
    size_t n = 0;
    for (;;) {
        const char *end = strstr(text, "\r\n\r\n");
        if (end) {
            const char *length = strcasestr(text, "content-length:");
            const size_t body = length ? (size_t)atol(length + 15) : 0;
            if (n >= (size_t)(end - text) + 4 + body)
                return true;
        }
        const ssize_t got = read(conn, text + n, sizeof(text) - 1 - n);
        if (got <= 0)
            return false;
        n += (size_t)got;
    }
}

static void serve_all(void *arg)
{
    struct server *s = arg;
    for (;;) {
        const int conn = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC);
        if (conn < 0)
            return;
        while (read_request(conn))
            if (!s->serve(s, conn, atomic_fetch_add(&s->requests, 1) + 1))
                break;
        close(conn);
    }
}

static void server_start(struct server *s, bool (*serve)(struct server *s, int conn, int nth))
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    struct err e = {0};
    *s = (struct server){.serve = serve};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(listen(s->fd, 8), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &n), 0);
    (void)snprintf(s->url, sizeof(s->url), "http://127.0.0.1:%d/x?secret=y", ntohs(at.sin_port));
    assert_ok(thread_start(&s->thread, "server", serve_all, s, &e));
}

static void server_stop(struct server *s)
{
    shutdown(s->fd, SHUT_RDWR);
    thread_join(&s->thread);
    close(s->fd);
}

static void say(int conn, const char *text)
{
    ssize_t ignored = write(conn, text, strlen(text));
    (void)ignored;
}

static bool good(struct server *s, int conn, int nth)
{
    (void)s;
    (void)nth;
    say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nhi");
    return true;
}

/* Reads the second request of the connection whole and hangs up. */
static bool dies_at_second(struct server *s, int conn, int nth)
{
    if (nth == 2)
        return false;
    return good(s, conn, nth);
}

static bool silent(struct server *s, int conn, int nth)
{
    (void)s;
    (void)nth;
    char c;
    while (read(conn, &c, 1) > 0)
        ;
    return false;
}

/* --- The client --- */

struct fixture {
    struct server server;
    struct http_client *client;
    struct http_response resp;
};

static void begin(struct fixture *f, bool (*serve)(struct server *s, int conn, int nth))
{
    struct err e = {0};
    *f = (struct fixture){0};
    server_start(&f->server, serve);
    assert_ok(http_client_new(&clock_real, &f->client, &e));
}

static void end(struct fixture *f)
{
    http_response_done(&f->resp);
    http_client_free(f->client);
    server_stop(&f->server);
}

static int get(struct fixture *f, const struct ctx *ctx, struct err *e)
{
    http_response_done(&f->resp);
    const struct http_request req = {.method = "GET", .url = f->server.url};
    return http_do(ctx, f->client, &req, &f->resp, e);
}

static int post(struct fixture *f, const struct ctx *ctx, struct err *e)
{
    http_response_done(&f->resp);
    const struct http_request req = {
        .method = "POST", .url = f->server.url, .body = STR("{\"a\":1}"), .mutating = true};
    return http_do(ctx, f->client, &req, &f->resp, e);
}

static void an_answer_is_collected(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, good);
    assert_ok(get(&f, root(), &e));
    assert_int_equal(f.resp.status, 200);
    assert_string_equal(buf_cstr(&f.resp.body), "hi");
    assert_string_equal(f.resp.content_type, "text/plain");
    assert_ok(post(&f, root(), &e));
    assert_int_equal(f.resp.status, 200);
    end(&f);
}

static void a_proxy_of_the_environment_is_used(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, good);
    /* Nobody listens at the address asked for: an answer comes from the proxy. */
    const struct http_request req = {.method = "GET", .url = "http://127.0.0.1:1/"};
    *strstr(f.server.url, "/x?") = '\0';
    (void)setenv("http_proxy", f.server.url, 1);
    assert_ok(http_do(root(), f.client, &req, &f.resp, &e));
    assert_int_equal(f.resp.status, 200);
    http_response_done(&f.resp);
    (void)setenv("no_proxy", "127.0.0.1", 1);
    assert_err(http_do(root(), f.client, &req, &f.resp, &e), ERR_UNAVAILABLE, "127.0.0.1:1");
    (void)unsetenv("no_proxy");
    (void)unsetenv("http_proxy");
    end(&f);
}

static void a_read_on_a_dead_kept_connection_is_repeated(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, dies_at_second);
    assert_ok(get(&f, root(), &e));
    assert_ok(get(&f, root(), &e));
    assert_int_equal(atomic_load(&f.server.requests), 3);
    end(&f);
}

static void a_write_is_never_sent_twice(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, dies_at_second);
    assert_ok(post(&f, root(), &e));
    assert_err(post(&f, root(), &e), ERR_OUTCOME_UNKNOWN, "127.0.0.1");
    assert_null(strstr(e.text, "secret"));
    assert_int_equal(atomic_load(&f.server.requests), 2);
    end(&f);
}

static void nobody_there_is_certainly_not_done(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, good);
    server_stop(&f.server);
    assert_err(post(&f, root(), &e), ERR_UNAVAILABLE, "127.0.0.1");
    http_client_free(f.client);
}

static void a_deadline_ends_a_silent_call(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, silent);
    const int64_t began_ms = clock_boot_ms(&clock_real);
    const struct ctx soon = ctx_with_timeout(root(), 100);
    assert_err(get(&f, &soon, &e), ERR_TIMEOUT, "deadline");
    const struct ctx again = ctx_with_timeout(root(), 100);
    assert_err(post(&f, &again, &e), ERR_OUTCOME_UNKNOWN, "sent, no answer");
    assert_true(clock_boot_ms(&clock_real) - began_ms < 2000);
    end(&f);
}

static int refuse(void *arg, struct err *e)
{
    (void)arg;
    return err_set(e, ERR_CANCELED, 0, "the lease is gone");
}

static void a_refusal_at_the_last_moment_sends_nothing(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, good);
    const struct http_request req = {.method = "POST",
                                     .url = f.server.url,
                                     .body = STR("{}"),
                                     .mutating = true,
                                     .may_send = refuse};
    assert_err(http_do(root(), f.client, &req, &f.resp, &e), ERR_CANCELED, "the lease is gone");
    assert_int_equal(atomic_load(&f.server.requests), 0);
    end(&f);
}

static bool large(struct server *s, int conn, int nth)
{
    (void)s;
    (void)nth;
    say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
    char zeros[1001];
    memset(zeros, '0', sizeof(zeros) - 1);
    zeros[1000] = '\0';
    say(conn, zeros);
    return true;
}

static void a_body_has_a_ceiling(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, large);
    struct http_request req = {.method = "GET", .url = f.server.url, .body_max = 999};
    assert_err(http_do(root(), f.client, &req, &f.resp, &e), ERR_TOO_BIG, "999");
    http_response_done(&f.resp);
    req.body_max = 1000;
    assert_ok(http_do(root(), f.client, &req, &f.resp, &e));
    assert_int_equal(f.resp.body.n, 1000);
    end(&f);
}

static bool busy(struct server *s, int conn, int nth)
{
    (void)s;
    (void)nth;
    say(conn, "HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\nRetry-After: 7\r\n\r\nwait");
    return true;
}

static int never(void *arg, struct str piece, struct err *e)
{
    (void)arg;
    (void)piece;
    (void)e;
    fail_msg("an error text is no data");
    return 0;
}

static void an_error_text_is_kept_and_retry_after_read(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, busy);
    const struct http_request req = {.method = "GET", .url = f.server.url, .on_data = never};
    assert_ok(http_do(root(), f.client, &req, &f.resp, &e));
    assert_int_equal(f.resp.status, 429);
    assert_int_equal(f.resp.retry_after_ms, 7000);
    assert_string_equal(buf_cstr(&f.resp.body), "wait");
    end(&f);
}

static bool drips(struct server *s, int conn, int nth)
{
    (void)nth;
    say(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n");
    return silent(s, conn, nth);
}

struct seen {
    char text[64];
    struct err why;
    bool ended;
};

static int take(void *arg, struct str piece, struct err *e)
{
    (void)e;
    struct seen *s = arg;
    (void)strncat(s->text, piece.p, piece.n);
    return 0;
}

static void ended(void *arg, struct http_response *resp, const struct err *why)
{
    struct seen *s = arg;
    assert_int_equal(resp->status, 200);
    s->why = *why;
    s->ended = true;
}

static void a_silent_stream_ends_by_its_idle_limit(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, drips);
    struct seen seen = {0};
    struct http_transfer *t = NULL;
    const struct http_request req = {
        .method = "GET", .url = f.server.url, .on_data = take, .arg = &seen, .idle_ms = 150};
    assert_ok(http_start(f.client, &req, ended, &t, &e));
    const struct ctx soon = ctx_with_timeout(root(), 5000);
    while (!seen.ended)
        assert_ok(http_run(&soon, f.client, -1, &e));
    assert_string_equal(seen.text, "ab");
    assert_int_equal(seen.why.code, ERR_TIMEOUT);
    end(&f);
}

static void a_line_break_in_a_header_is_refused(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, good);
    const struct http_header bad = {"X-A", "a\r\nX-B: b"};
    const struct http_request req = {
        .method = "GET", .url = f.server.url, .headers = &bad, .n_headers = 1};
    assert_err(http_do(root(), f.client, &req, &f.resp, &e), ERR_INVALID, "line break");
    end(&f);
}

static void only_http_is_spoken(void **state)
{
    (void)state;
    struct err e = {0};
    AUTO(http_client_free_auto) struct http_client *c = NULL;
    assert_ok(http_client_new(&clock_real, &c, &e));
    struct http_response resp = {0};
    const struct http_request req = {.method = "GET", .url = "file:///etc/passwd"};
    assert_err(http_do(root(), c, &req, &resp, &e), ERR_INVALID, "");
    http_response_done(&resp);
}

/* --- Cancellation --- */

static void fire_soon(void *arg)
{
    usleep(100 * 1000);
    cancel_fire(arg);
}

/* Milliseconds from the cancellation to the return of the call. */
static int64_t cancelled_after(const char *url, struct err *why)
{
    struct err e = {0};
    struct cancel cancel;
    assert_ok(cancel_init(&cancel, &e));
    const struct ctx ctx = ctx_with_cancel(root(), &cancel);
    struct http_client *c = NULL;
    assert_ok(http_client_new(&clock_real, &c, &e));
    struct thread t = {0};
    const int64_t began_ms = clock_boot_ms(&clock_real);
    assert_ok(thread_start(&t, "canceller", fire_soon, &cancel, &e));
    struct http_response resp = {0};
    const struct http_request req = {.method = "GET", .url = url};
    if (http_do(&ctx, c, &req, &resp, why) == 0)
        err_set(why, ERR_BUG, 0, "the call succeeded");
    http_client_free(c);
    const int64_t took_ms = clock_boot_ms(&clock_real) - began_ms;
    thread_join(&t);
    cancel_done(&cancel);
    return took_ms - 100;
}

static void cancellation_returns_at_once(void **state)
{
    (void)state;
    struct fixture f;
    struct err e = {0};
    begin(&f, silent);
    const int64_t late_ms = cancelled_after(f.server.url, &e);
    assert_int_equal(e.code, ERR_CANCELED);
    assert_true(late_ms <= 50);
    end(&f);
}

static void put_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return; /* checked by what follows */
    say(fd, text);
    close(fd);
}

/* A world with its own network and its own name server, which listens and never answers. */
static bool enter_black_hole(void)
{
    char map[64];
    const unsigned int uid = getuid(), gid = getgid();
    if (unshare((uid != 0 ? CLONE_NEWUSER : 0) | CLONE_NEWNET | CLONE_NEWNS) < 0)
        return false;
    if (uid != 0) {
        put_file("/proc/self/setgroups", "deny");
        (void)snprintf(map, sizeof(map), "0 %u 1", uid);
        put_file("/proc/self/uid_map", map);
        (void)snprintf(map, sizeof(map), "0 %u 1", gid);
        put_file("/proc/self/gid_map", map);
    }
    struct ifreq up = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(53), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* stays open */
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &up) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        return false;
    char path[] = "/tmp/resolv-XXXXXX";
    const int conf = mkstemp(path);
    if (conf < 0)
        return false;
    say(conf, "nameserver 127.0.0.1\noptions timeout:30 attempts:5\n");
    close(conf);
    const bool mounted = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                         mount(path, "/etc/resolv.conf", NULL, MS_BIND, NULL) == 0;
    unlink(path);
    return mounted;
}

static void cancellation_does_not_wait_for_a_name_server(void **state)
{
    (void)state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* alone in its namespaces */
        struct err e = {0};
        if (!enter_black_hole())
            _exit(99);
        const int64_t late_ms = cancelled_after("https://kubernetes.example.test:6443/", &e);
        (void)fprintf(stderr, "# returned %lld ms after cancellation: %s\n", (long long)late_ms,
                      e.text);
        _exit(e.code != ERR_CANCELED ? 98 : late_ms > 50 ? 97 : 0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void escaping_leaves_only_unreserved_characters(void **state)
{
    (void)state;
    auto_buf struct buf out = BUF_INIT(100);
    http_escape(&out, STR("aZ09-._~/ ?&=%\xc3\xa4"));
    assert_string_equal(buf_cstr(&out), "aZ09-._~%2F%20%3F%26%3D%25%C3%A4");
}

int main(void)
{
    struct err e = {0};
    if (http_setup(&e) < 0) {
        print_error("%s\n", e.text);
        return 1;
    }
    (void)unsetenv("http_proxy");
    (void)unsetenv("https_proxy");
    (void)unsetenv("HTTPS_PROXY");
    (void)unsetenv("ALL_PROXY");
    (void)unsetenv("all_proxy");
    (void)unsetenv("no_proxy");
    (void)unsetenv("NO_PROXY");
    const struct CMUnitTest tests[] = {
        /* The first: nothing else runs yet when it forks. */
        TEST(cancellation_does_not_wait_for_a_name_server),
        TEST(cancellation_returns_at_once),
        TEST(an_answer_is_collected),
        TEST(a_proxy_of_the_environment_is_used),
        TEST(a_read_on_a_dead_kept_connection_is_repeated),
        TEST(a_write_is_never_sent_twice),
        TEST(nobody_there_is_certainly_not_done),
        TEST(a_deadline_ends_a_silent_call),
        TEST(a_refusal_at_the_last_moment_sends_nothing),
        TEST(a_body_has_a_ceiling),
        TEST(an_error_text_is_kept_and_retry_after_read),
        TEST(a_silent_stream_ends_by_its_idle_limit),
        TEST(a_line_break_in_a_header_is_refused),
        TEST(only_http_is_spoken),
        TEST(escaping_leaves_only_unreserved_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
