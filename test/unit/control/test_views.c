/* SPDX-License-Identifier: Apache-2.0
 * What the engine keeps of a watched object, and that odd objects are taken as they are. */
#include "control/cluster/views.h"

#include "base/json.h"
#include "control/cluster/engine_internal.h"
#include "unit.h"

static const struct view *made(const struct view_kind *kind, struct intern *strings,
                               const char *text)
{
    struct err e = {0};
    json_auto_t *object = NULL;
    struct view *v = NULL;
    assert_ok(jparse(str_c(text), &object, &e));
    assert_ok(view_make(kind, object, strings, &v, &e));
    return v;
}

#define META(extra)                                                                                \
    "\"metadata\":{\"name\":\"demo-a\",\"namespace\":\"ns\",\"resourceVersion\":\"7\","            \
    "\"uid\":\"00000000-0000-0000-0000-00000000000a\","                                            \
    "\"creationTimestamp\":\"2026-01-02T03:04:05Z\","                                              \
    "\"labels\":{\"etcd-operator.cozystack.io/cluster\":\"demo\"}" extra "}"
#define OWNED                                                                                      \
    ",\"ownerReferences\":[{\"uid\":\"00000000-0000-0000-0000-00000000000b\"},"                    \
    "{\"controller\":true,\"uid\":\"00000000-0000-0000-0000-00000000000c\"}]"

static void a_member_is_projected(void **state)
{
    (void)state;
    struct intern *strings = intern_new();
    const struct view *v =
        made(&view_members, strings,
             "{" META(OWNED ",\"finalizers\":[\"x\",\"etcd-operator.cozystack.io/"
                            "member-cleanup\"]") ","
                                                 "\"spec\":{\"bootstrap\":true,"
                                                 "\"initialCluster\":\"a=http://a\"},"
                                                 "\"status\":{\"memberID\":\"00cafe0000000001\","
                                                 "\"isVoter\":true,\"version\":\"3.6.11\","
                                                 "\"pvcUID\":\"00000000-0000-0000-0000-"
                                                 "00000000000d\","
                                                 "\"conditions\":[{\"type\":\"Ready\",\"status\":"
                                                 "\"True\",\"reason\":\"PodReady\"}]}}");
    const struct member_view *m = (const struct member_view *)v;
    assert_string_equal(istr_text(v->owner), "ns/demo");
    assert_true(m->bootstrap && m->finalizer && m->voter);
    assert_false(m->pending || m->dormant || m->deleting);
    assert_true(m->member_id == 0x00cafe0000000001ULL);
    assert_int_equal(m->owner_uid[15], 0x0c); /* the controller, not the first owner */
    assert_int_equal(m->pvc_uid[15], 0x0d);
    assert_true(uid_is_zero(m->pod_uid));
    assert_string_equal(istr_text(m->ready), "PodReady");
    assert_int_equal(m->created_s, 1767323045);
    view_unref(v);
    intern_free(strings);
}

static void an_empty_member_is_pending_and_knows_nothing(void **state)
{
    (void)state;
    struct intern *strings = intern_new();
    const struct view *v =
        made(&view_members, strings,
             "{" META("") ",\"spec\":{\"initialCluster\":\"\"},"
                          "\"status\":{\"memberID\":\"not hex\",\"podUID\":\"short\"}}");
    const struct member_view *m = (const struct member_view *)v;
    assert_true(m->pending && m->member_id == 0 && uid_is_zero(m->pod_uid));
    assert_true(uid_is_zero(m->owner_uid) && m->is_ready == UNKNOWN && !m->ready);
    view_unref(v);
    intern_free(strings);
}

static void a_pod_without_a_word_of_readiness_is_unknown(void **state)
{
    (void)state;
    static const struct {
        const char *status;
        enum fact want;
    } rows[] = {
        {"{}", UNKNOWN},
        {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}", YES},
        {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"False\"}]}", NO},
        {"{\"conditions\":[{\"type\":\"Ready\",\"status\":\"Unknown\"}]}", UNKNOWN},
        {"{\"conditions\":\"nonsense\"}", UNKNOWN},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct intern *strings = intern_new();
        char text[1000];
        (void)snprintf(text, sizeof(text), "{" META("") ",\"status\":%s}", rows[i].status);
        const struct view *v = made(&view_pods, strings, text);
        assert_int_equal(((const struct pod_view *)v)->ready, rows[i].want);
        view_unref(v);
        intern_free(strings);
    }
}

#define PORT(name, n)                                                                              \
    "{\"name\":\"" name "\",\"port\":" n ",\"protocol\":\"TCP\",\"targetPort\":" n "}"

static void a_service_is_judged_by_what_we_own_of_it(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        bool headless, client;
    } rows[] = {
        {"{\"selector\":{\"etcd-operator.cozystack.io/cluster\":\"demo\"},"
         "\"publishNotReadyAddresses\":true,\"ports\":[" PORT("client", "2379") "," PORT(
             "peer", "2380") "," PORT("extra", "1") "]}",
         true, false},
        {"{\"selector\":{\"etcd-operator.cozystack.io/cluster\":\"demo\"},\"ports\":[" PORT(
             "client", "2379") "]}",
         false, true},
        {"{\"selector\":{\"etcd-operator.cozystack.io/cluster\":\"other\"},\"ports\":[" PORT(
             "client", "2379") "]}",
         false, false},
        {"{\"selector\":{\"etcd-operator.cozystack.io/cluster\":\"demo\",\"x\":\"y\"},\"ports\":"
         "[" PORT("client", "2379") "]}",
         false, false},
        {"{\"selector\":{\"etcd-operator.cozystack.io/cluster\":\"demo\"},\"ports\":[" PORT(
             "client", "2378") "]}",
         false, false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct intern *strings = intern_new();
        char text[2000];
        (void)snprintf(text, sizeof(text), "{" META("") ",\"spec\":%s}", rows[i].spec);
        const struct view *v = made(&view_services, strings, text);
        assert_int_equal(((const struct service_view *)v)->headless_ok, rows[i].headless);
        assert_int_equal(((const struct service_view *)v)->client_ok, rows[i].client);
        view_unref(v);
        intern_free(strings);
    }
}

static void uids_are_whole_or_nothing(void **state)
{
    (void)state;
    unsigned char uid[VIEW_UID_BYTES];
    assert_true(uid_parse("24d4f779-5965-49d2-b525-64a4f521fdac", uid));
    assert_int_equal(uid[0], 0x24);
    assert_int_equal(uid[15], 0xac);
    static const char *const bad[] = {"", "24d4f779", "24d4f779-5965-49d2-b525-64a4f521fdacff",
                                      "zzd4f779-5965-49d2-b525-64a4f521fdac"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(uid_parse(bad[i], uid));
        assert_true(uid_is_zero(uid));
    }
}

/* etcd's own arithmetic: the values it answers with for these URLs and tokens. */
static void the_cluster_id_follows_from_the_founder(void **state)
{
    (void)state;
    assert_true(founding_cluster_id("http://127.0.0.1:23800", "tok1") == 0xddcdf4f4fbba999bULL);
    assert_true(founding_cluster_id("http://localhost:2380", "etcd-cluster") ==
                0xcdf818194e3a8c32ULL);
}

int main(void)
{
    json_setup();
    const struct CMUnitTest tests[] = {
        TEST(a_member_is_projected),
        TEST(an_empty_member_is_pending_and_knows_nothing),
        TEST(a_pod_without_a_word_of_readiness_is_unknown),
        TEST(a_service_is_judged_by_what_we_own_of_it),
        TEST(uids_are_whole_or_nothing),
        TEST(the_cluster_id_follows_from_the_founder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
