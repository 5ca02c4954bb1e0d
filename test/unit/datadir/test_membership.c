/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/membership.h"

#include "unit.h"

static const char three[] =
    "n1=http://127.0.0.1:27801,n2=http://127.0.0.1:27802,n3=http://127.0.0.1:27803";

static void ids_are_those_etcd_computes(void **state)
{
    (void)state;
    static const struct {
        const char *name, *cluster, *token, *urls;
        uint64_t member, cluster_id;
    } rows[] = {
        {"a", "a=http://127.0.0.1:23800", "tok1", "http://127.0.0.1:23800", 0x628ed94ad692e8a1,
         0xddcdf4f4fbba999b},
        {"n1", three, "tok3", "http://127.0.0.1:27801", 0x5843a4ab3b7d7d22, 0x5d64a5a6dc987e73},
        {"n2", three, "tok3", "http://127.0.0.1:27802", 0x88641a5748aa3c97, 0x5d64a5a6dc987e73},
        {"n3", three, "tok3", "http://127.0.0.1:27803", 0x346f0b0468448c0, 0x5d64a5a6dc987e73},
        {"default", "default=http://localhost:2380", "etcd-cluster", "http://localhost:2380",
         0x8e9e05c52164694d, 0xcdf818194e3a8c32},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        AUTO(membership_done) struct membership m = {0};
        assert_ok(
            membership_parse(rows[i].name, rows[i].cluster, rows[i].token, rows[i].urls, &m, &e));
        assert_true(m.members.v[m.local].id == rows[i].member);
        assert_true(m.cluster_id == rows[i].cluster_id);
    }
}

static void the_texts_are_etcds(void **state)
{
    (void)state;
    struct err e = {0};
    AUTO(membership_done) struct membership m = {0};
    assert_ok(membership_parse("n1", three, "tok3", "http://127.0.0.1:27801", &m, &e));
    auto_buf struct buf json = BUF_INIT(1000), conf = BUF_INIT(1000);
    member_json(&m.members.v[0], &json);
    assert_string_equal(
        buf_cstr(&json),
        "{\"id\":236140670371514560,\"peerURLs\":[\"http://127.0.0.1:27803\"],\"name\":\"n3\"}");
    membership_conf_state_json(&m, &conf);
    assert_string_equal(buf_cstr(&conf),
                        "{\"voters\":[236140670371514560,6360108154121714978,9828009249012858007],"
                        "\"auto_leave\":false}");
}

static void names_are_escaped_as_go_does(void **state)
{
    (void)state;
    auto_buf struct buf out = BUF_INIT(1000);
    json_string_like_go(STR("a\"\\<>&\n\x01\xc3\xa9\xff\xe2\x80\xa8"), &out);
    assert_string_equal(buf_cstr(&out), "\"a\\\"\\\\\\u003c\\u003e\\u0026\\n\\u0001\xc3\xa9"
                                        "\\ufffd\\u2028\"");
}

static void what_etcd_refuses_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *cluster, *urls, *says;
    } rows[] = {
        {"x", "a=http://h:1", "http://h:1", "not in --initial-cluster"},
        {"a", "a=http://h:1", "http://h:2", "has no a=http://h:2"},
        {"a", "a=http://h:1,a=http://h:2", "http://h:1", "2 URLs of a, 1 are advertised"},
        {"a", "a=http://h:1,b=http://h:1", "http://h:1", "appears twice"},
        {"a", "a=http://h", "http://h", "needs host and port"},
        {"a", "a=http://h:1/p", "http://h:1/p", "more than host and port"},
        {"a", "a=ftp://h:1", "ftp://h:1", "not an http"},
        {"a", "a=h:1", "h:1", "not an http"},
        {"a", "http://h:1", "http://h:1", "not NAME=URL"},
        {"a", "=http://h:1", "http://h:1", "not NAME=URL"},
        {"a", "a=http://:1", "http://:1", "needs host and port"},
        {"a", "a=http://h:99999", "http://h:99999", "needs host and port"},
        {"a", "", "http://h:1", "not in --initial-cluster"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct membership m = {0};
        assert_err(membership_parse(rows[i].name, rows[i].cluster, "t", rows[i].urls, &m, &e),
                   ERR_INVALID, rows[i].says);
    }
    struct err e = {0};
    AUTO(membership_done) struct membership m = {0};
    assert_ok(membership_parse("a", "a=http://[::1]:2380, a=https://h:1", "t",
                               "https://h:1,http://[::1]:2380", &m, &e));
    assert_string_equal(m.members.v[0].urls.v[0], "http://[::1]:2380");
}

TEST_MAIN(TEST(ids_are_those_etcd_computes), TEST(the_texts_are_etcds),
          TEST(names_are_escaped_as_go_does), TEST(what_etcd_refuses_is_refused))
