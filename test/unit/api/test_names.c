/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/map.h"
#include "unit.h"

static void a_cluster_is_named_like_a_service(void **state)
{
    (void)state;
    static const char *const good[] = {"a", "prod", "a-1", "etcd-0-main"};
    static const char *const bad[] = {
        "",    "1a",        "-a",
        "a-",  "A",         "a.b",
        "a_b", "a\xc3\xa4", "a123456789012345678901234567890123456789012345678901234567"};
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_null(api_cluster_name_problem(str_c(good[i])));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_non_null(api_cluster_name_problem(str_c(bad[i])));
}

static void a_member_name_depends_on_who_is_there(void **state)
{
    (void)state;
    char a[API_MEMBER_NAME_MAX + 1], b[API_MEMBER_NAME_MAX + 1];
    const char *const none[] = {NULL};
    const char *const two[] = {"u1", "u2"}, *const swapped[] = {"u2", "u1"};
    api_member_name("demo", "uid", none, 0, 0, a);
    api_member_name("demo", "uid", none, 0, 0, b);
    assert_string_equal(a, b); /* a racing creator collides */
    assert_int_equal(strlen(a), strlen("demo-x7k2p"));
    assert_int_equal(strncmp(a, "demo-", 5), 0);
    api_member_name("demo", "another uid", none, 0, 0, b);
    assert_string_not_equal(a, b); /* the same name again is another cluster */
    api_member_name("demo", "uid", none, 0, 1, b);
    assert_string_not_equal(a, b);
    api_member_name("demo", "uid", two, 2, 0, a);
    api_member_name("demo", "uid", swapped, 2, 0, b);
    assert_string_equal(a, b); /* a list has no order */
    api_member_name("demo", "uid", two, 1, 0, b);
    assert_string_not_equal(a, b);
}

static void names_are_spread_evenly(void **state)
{
    (void)state;
    AUTO(map_done) struct map seen = {0};
    size_t collisions = 0;
    for (int i = 0; i < 20000; i++) {
        char uid[16], name[API_MEMBER_NAME_MAX + 1];
        (void)snprintf(uid, sizeof(uid), "%d", i);
        const char *const uids[] = {uid};
        api_member_name("c", "cluster", uids, 1, 0, name);
        collisions += map_put(&seen, str_c(name), &seen) != NULL;
    }
    assert_true(collisions < 40); /* 20,000 of 14 million names: 14 are expected to meet */
}

static void the_longest_cluster_name_still_gives_host_names(void **state)
{
    (void)state;
    char longest[API_CLUSTER_NAME_MAX + 1], name[API_MEMBER_NAME_MAX + 1];
    memset(longest, 'a', API_CLUSTER_NAME_MAX);
    longest[API_CLUSTER_NAME_MAX] = '\0';
    assert_null(api_cluster_name_problem(str_c(longest)));
    api_member_name(longest, "uid", NULL, 0, 0, name);
    assert_int_equal(strlen(name), 62);
    assert_int_equal(strlen(longest) + strlen("-client"), 63);
}

static void urls_name_the_member_and_its_service(void **state)
{
    (void)state;
    auto_buf struct buf url = BUF_INIT(300);
    api_peer_url(&url, "http", "demo-x7k2p", "demo", "ns1");
    assert_string_equal(buf_cstr(&url), "http://demo-x7k2p.demo.ns1.svc:2380");
    buf_reset(&url);
    api_client_url(&url, "https", "demo-x7k2p", "demo", "ns1");
    assert_string_equal(buf_cstr(&url), "https://demo-x7k2p.demo.ns1.svc:2379");
}

TEST_MAIN(TEST(a_cluster_is_named_like_a_service), TEST(a_member_name_depends_on_who_is_there),
          TEST(names_are_spread_evenly), TEST(the_longest_cluster_name_still_gives_host_names),
          TEST(urls_name_the_member_and_its_service))
