/* SPDX-License-Identifier: Apache-2.0
 * The server and our own client against each other. */
#include "net/server.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "base/metric.h"
#include "net/http.h"
#include "unit.h"

static int fine(void *arg, struct err *e)
{
    (void)arg;
    (void)e;
    return 0;
}

static int broken(void *arg, struct err *e)
{
    return *(bool *)arg ? err_set(e, ERR_NOT_READY, 0, "still listing") : 0;
}

static int ask(struct server *s, const char *method, const char *path, struct http_response *out)
{
    struct err e = {0};
    const struct ctx all = ctx_root(&clock_real, NULL);
    const struct ctx ctx = ctx_with_timeout(&all, 5000);
    AUTO(http_client_free_auto) struct http_client *c = NULL;
    auto_free char *url = xasprintf("http://127.0.0.1:%d%s", server_port(s), path);
    const struct http_request req = {.method = method, .url = url, .proxy = ""};
    assert_ok(http_client_new(&clock_real, &c, &e));
    http_response_done(out);
    assert_ok(http_do(&ctx, c, &req, out, &e));
    return out->status;
}

static void checks_and_metrics_are_served(void **state)
{
    (void)state;
    struct err e = {0};
    bool listing = true;
    AUTO(metrics_free_auto) struct metrics *metrics = metrics_new();
    const struct server_check v[] = {{"queue", fine, NULL}, {"watches", broken, &listing}};
    struct server_checks checks = {v, COUNT_OF(v)}, none = {0};
    const struct server_route routes[] = {{"/healthz", server_answer_checks, &none},
                                          {"/readyz", server_answer_checks, &checks},
                                          {"/metrics", server_answer_metrics, metrics}};
    struct server *s = NULL;
    AUTO(http_response_done) struct http_response r = {0};
    assert_ok(server_start("127.0.0.1:0", routes, COUNT_OF(routes), &s, &e));

    assert_int_equal(ask(s, "GET", "/healthz", &r), 200);
    assert_string_equal(buf_cstr(&r.body), "ok");
    assert_int_equal(ask(s, "GET", "/readyz", &r), 503);
    assert_string_equal(buf_cstr(&r.body), "[+]queue ok\n[-]watches: still listing\nnot ready\n");
    listing = false;
    assert_int_equal(ask(s, "GET", "/readyz", &r), 200);
    assert_string_equal(buf_cstr(&r.body), "ok");
    assert_int_equal(ask(s, "GET", "/readyz?verbose", &r), 200);
    assert_string_equal(buf_cstr(&r.body), "[+]queue ok\n[+]watches ok\nok");
    assert_int_equal(ask(s, "GET", "/metrics", &r), 200);
    assert_non_null(strstr(buf_cstr(&r.body), "# TYPE"));
    assert_non_null(strstr(r.content_type, "version=0.0.4"));
    assert_int_equal(ask(s, "HEAD", "/healthz", &r), 200);
    assert_int_equal(ask(s, "GET", "/", &r), 404);
    assert_int_equal(ask(s, "DELETE", "/healthz", &r), 405);
    server_stop(s);
    server_stop(NULL);
}

static void addresses_are_checked(void **state)
{
    (void)state;
    struct err e = {0};
    struct server *s = NULL, *second = NULL;
    const struct server_route route = {"/", server_answer_checks, &(struct server_checks){0}};
    static const char *const bad[] = {"",
                                      "8080",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:99999",
                                      "no such host:80",
                                      "1.2.3.4.5:80"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_err(server_start(bad[i], &route, 1, &s, &e), ERR_INVALID, "http server");
    assert_ok(server_start("127.0.0.1:0", &route, 1, &s, &e));
    auto_free char *taken = xasprintf("127.0.0.1:%d", server_port(s));
    assert_err(server_start(taken, &route, 1, &second, &e), ERR_UNAVAILABLE, taken);
    server_stop(s);
    assert_ok(server_start(":0", &route, 1, &s, &e));
    server_stop(s);
}

int main(void)
{
    struct err e = {0};
    if (http_setup(&e) < 0) {
        print_error("%s\n", e.text);
        return 1;
    }
    const struct CMUnitTest tests[] = {TEST(checks_and_metrics_are_served),
                                       TEST(addresses_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
