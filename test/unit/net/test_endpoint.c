/* SPDX-License-Identifier: Apache-2.0 */
#include "net/endpoint.h"

#include "unit.h"

static const struct {
    const char *text;
    bool tls_default;
    bool tls;
    const char *host, *port, *path, *authority;
} good[] = {
    {"http://10.0.0.4:2379", true, false, "10.0.0.4", "2379", NULL, "10.0.0.4:2379"},
    {"https://db.example:1", false, true, "db.example", "1", NULL, "db.example:1"},
    {"https://db.example:65535/", false, true, "db.example", "65535", NULL, "db.example:65535"},
    {"http://[::1]:2379", false, false, "::1", "2379", NULL, "[::1]:2379"},
    {"[fe80::1%eth0]:80", true, true, "fe80::1%eth0", "80", NULL, "[fe80::1%eth0]:80"},
    {"[::1]", false, false, "::1", "2379", NULL, "[::1]:2379"},
    {"localhost", false, false, "localhost", "2379", NULL, "localhost:2379"},
    {"localhost:99", true, true, "localhost", "99", NULL, "localhost:99"},
    {"unix:///run/etcd.sock", true, false, NULL, NULL, "/run/etcd.sock", "localhost"},
    {"unixs://@abstract", false, true, NULL, NULL, "@abstract", "localhost"},
};

static void endpoints_are_read_as_people_write_them(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        struct err e = {0};
        AUTO(endpoint_done) struct endpoint ep = {0};
        assert_ok(endpoint_parse(str_c(good[i].text), good[i].tls_default, &ep, &e));
        assert_int_equal(ep.tls, good[i].tls);
        assert_string_equal(ep.authority, good[i].authority);
        assert_int_equal(ep.path == NULL, good[i].path == NULL);
        if (good[i].path) {
            assert_string_equal(ep.path, good[i].path);
            continue;
        }
        assert_string_equal(ep.host, good[i].host);
        assert_string_equal(ep.port, good[i].port);
    }
}

static void nonsense_is_refused_and_quoted(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",          "http://",      "http://:2379", "http://a:0",         "http://a:65536",
        "http://a:", "http://a:b",   "http://a b:1", "ftp://a:1",          "http://a:1/path",
        "::1",       "[::1",         "[::1]x",       "[name]:1",           "http://u:p@h:1",
        "a,b",       "http://a?x=1", "unix://",      "http://[1.2.3.4]:1", "a\r\nx: y",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e;
        struct endpoint ep = {0};
        assert_err(endpoint_parse(str_c(bad[i]), false, &ep, &e), ERR_INVALID, "endpoint \"");
        assert_null(ep.authority);
    }
    struct err e;
    struct endpoint ep = {0};
    assert_err(endpoint_parse(STR("a\0b:1"), false, &ep, &e), ERR_INVALID, "NUL");
    char longer[200];
    memset(longer, 'x', sizeof(longer));
    memcpy(longer, "unix:///", 8);
    longer[199] = '\0';
    assert_err(endpoint_parse(str_c(longer), false, &ep, &e), ERR_INVALID, "socket path");
}

static void an_address_is_told_from_a_name(void **state)
{
    (void)state;
    assert_true(host_is_address("127.0.0.1"));
    assert_true(host_is_address("::1"));
    assert_true(host_is_address("fe80::1%lo"));
    assert_false(host_is_address("127.0.0.1.example"));
    assert_false(host_is_address("localhost"));
    assert_false(host_is_address("1.2.3.4%lo"));
}

TEST_MAIN(TEST(endpoints_are_read_as_people_write_them), TEST(nonsense_is_refused_and_quoted),
          TEST(an_address_is_told_from_a_name))
