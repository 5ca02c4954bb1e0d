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

static void a_server_name_is_what_a_certificate_can_carry(void **state)
{
    (void)state;
    struct err e;
    char name[255] = {0};
    memset(name, 'x', 253);
    const char *const names[] = {"a", "member.example", "10.0.0.4", "::1", "fe80::1%lo", name};
    for (size_t i = 0; i < COUNT_OF(names); i++)
        assert_ok(server_name_check(names[i], &e));
    name[253] = 'x';
    const char *const bad[] = {"",        "a b",       "a:1",      "[::1]", "a/b",
                               "name%lo", "1.2.3.4:1", "\xc3\xa4", "a\n",   name};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_err(server_name_check(bad[i], &e), ERR_INVALID, "server name \"");
}

static void a_host_is_written_as_an_authority(void **state)
{
    (void)state;
    static const struct {
        const char *host, *want;
    } rows[] = {{"a.example", "a.example:1"},
                {"10.0.0.4", "10.0.0.4:1"},
                {"::1", "[::1]:1"},
                {"fe80::1%lo", "[fe80::1]:1"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_free char *host = host_without_zone(rows[i].host);
        auto_free char *got = host_with_port(host, "1");
        assert_string_equal(got, rows[i].want);
    }
}

TEST_MAIN(TEST(endpoints_are_read_as_people_write_them), TEST(nonsense_is_refused_and_quoted),
          TEST(an_address_is_told_from_a_name), TEST(a_server_name_is_what_a_certificate_can_carry),
          TEST(a_host_is_written_as_an_authority))
