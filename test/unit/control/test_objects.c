/* SPDX-License-Identifier: Apache-2.0
 * Every object against a golden file, dumped with sorted keys: test/unit/control/golden/.
 * RAFTSMAN_GOLDEN=write writes them anew; read the difference before committing it. */
#include "control/cluster/objects.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "unit.h"

enum { GOLDEN_MAX = 64 * 1024 };

static const struct cluster_ident demo = {.ns = "ns1", .name = "demo", .uid = "3c1b"};

static void assert_golden(const char *name, json_t *take_v)
{
    struct err e = {0};
    json_auto_t *v = take_v;
    auto_free char *got = json_dumps(v, JSON_SORT_KEYS | JSON_INDENT(2));
    auto_buf struct buf path = BUF_INIT(1000), text = BUF_INIT(GOLDEN_MAX),
                        want = BUF_INIT(GOLDEN_MAX);
    buf_addf(&path, "%s/test/unit/control/golden/%s.json", TEST_SOURCE, name);
    buf_addf(&text, "%s\n", got);
    if (getenv("RAFTSMAN_GOLDEN"))
        assert_ok(file_write_durable(buf_cstr(&path), buf_str(&text), 0644, &e));
    const struct ctx ctx = ctx_root(&clock_real, NULL);
    assert_ok(file_read(&ctx, buf_cstr(&path), &want, &e));
    assert_string_equal(buf_cstr(&text), buf_cstr(&want));
}

static json_t *parsed(const char *text)
{
    struct err e = {0};
    json_t *v = NULL;
    assert_ok(jparse(str_c(text), &v, &e));
    return v;
}

/* As the API server stores it: with a UID. */
static json_t *stored_member(const char *target_text, bool bootstrap, const char *initial_cluster)
{
    json_auto_t *target = parsed(target_text);
    struct cluster_ident c = demo;
    c.metadata = jget(target, "additionalMetadata");
    json_t *m =
        object_member(&c, target, "demo-x7k2p", "ns1-demo-3c1b", bootstrap, initial_cluster);
    json_object_set_new(json_object_get(m, "metadata"), "uid", js("77aa"));
    return m;
}

static const char plain_target[] =
    "{\"replicas\":3,\"version\":\"3.6.11\",\"storage\":{\"size\":\"1Gi\",\"medium\":\"\"}}";
static const char rich_target[] =
    "{\"replicas\":3,\"version\":\"3.5.35\",\"storage\":{\"size\":\"8Gi\",\"medium\":\"\","
    "\"storageClassName\":\"\"},\"resources\":{\"limits\":{\"memory\":\"1Gi\"}},"
    "\"affinity\":{\"podAntiAffinity\":{}},\"topologySpreadConstraints\":[{\"maxSkew\":1}],"
    "\"imagePullSecrets\":[{\"name\":\"pull\"}],"
    "\"additionalMetadata\":{\"labels\":{\"team\":\"a\",\"app.kubernetes.io/name\":\"mine\","
    "\"etcd-operator.cozystack.io/cluster\":\"other\"},\"annotations\":{\"note\":\"b\","
    "\"etcd-operator.cozystack.io/x\":\"y\"}},"
    "\"options\":{\"quotaBackendBytes\":0,\"autoCompactionMode\":\"periodic\","
    "\"autoCompactionRetention\":\"1h\",\"snapshotCount\":5000}}";

static void services_and_budget(void **state)
{
    (void)state;
    assert_golden("service-headless", object_headless_service(&demo));
    assert_golden("service-client", object_client_service(&demo));
    assert_golden("pdb", object_pdb(&demo, 2));
}

static void members(void **state)
{
    (void)state;
    assert_golden("member-seed", stored_member(plain_target, true,
                                               "demo-x7k2p=http://demo-x7k2p.demo.ns1.svc:2380"));
    assert_golden("member-rich", stored_member(rich_target, false, ""));
}

static void volumes(void **state)
{
    (void)state;
    json_auto_t *plain = stored_member(plain_target, true, "x");
    json_auto_t *rich = stored_member(rich_target, false, "x");
    assert_golden("pvc-plain", object_pvc(&demo, plain));
    assert_golden("pvc-rich", object_pvc(&demo, rich));
}

static void pods(void **state)
{
    (void)state;
    json_auto_t *seed =
        stored_member(plain_target, true, "demo-x7k2p=http://demo-x7k2p.demo.ns1.svc:2380");
    json_auto_t *rich = stored_member(rich_target, false, "a=http://a,demo-x7k2p=http://b");
    struct pod_input in = {.member = seed, .image_repo = "quay.io/coreos/etcd", .voter = true};
    assert_golden("pod-seed", object_pod(&demo, &in));
    in = (struct pod_input){.member = rich, .image_repo = "example/etcd", .formed = true};
    assert_golden("pod-rich", object_pod(&demo, &in));
}

static const char *flag_of(const json_t *pod, const char *flag)
{
    size_t i = 0;
    const json_t *word = NULL;
    json_array_foreach(jget(pod, "spec.containers.0.command"), i,
                       word) if (strncmp(json_string_value(word), flag, strlen(flag)) ==
                                 0) return json_string_value(word) +
        strlen(flag);
    return "";
}

/* The rule that keeps an empty disk from coming back under an old identity. */
static void only_a_seed_that_never_was_may_found_a_cluster(void **state)
{
    (void)state;
    static const struct {
        bool bootstrap, known, formed;
        const char *want_state;
        bool alone;
    } rows[] = {
        {true, false, false, "new", false},       {true, false, true, "existing", false},
        {true, true, false, "existing", true},    {true, true, true, "existing", true},
        {false, false, false, "existing", false}, {false, true, true, "existing", true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_auto_t *m = stored_member(plain_target, rows[i].bootstrap, "all=http://all");
        if (rows[i].known)
            json_object_set_new(m, "status", JOBJ(J("memberID", js("00cafe0000000001"))));
        const struct pod_input in = {.member = m, .image_repo = "r", .formed = rows[i].formed};
        json_auto_t *pod = object_pod(&demo, &in);
        assert_string_equal(flag_of(pod, "--initial-cluster-state="), rows[i].want_state);
        assert_string_equal(flag_of(pod, "--initial-cluster="),
                            rows[i].alone ? "demo-x7k2p=http://demo-x7k2p.demo.ns1.svc:2380"
                                          : "all=http://all");
    }
}

static void adopted_members_keep_their_service_and_directory(void **state)
{
    (void)state;
    static const struct {
        const char *subpath, *want;
    } rows[] = {
        {"default.etcd", "/var/lib/etcd/default.etcd"},
        {"../etc", "/var/lib/etcd"},
        {"a/b", "/var/lib/etcd"},
        {".hidden", "/var/lib/etcd"},
        {"", "/var/lib/etcd"},
        {"a..b", "/var/lib/etcd"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_auto_t *m = stored_member(plain_target, false, "x");
        json_object_set_new(
            json_object_get(m, "metadata"), "annotations",
            JOBJ(J("etcd-operator.cozystack.io/headless-service-name", js("demo-headless")),
                 J("etcd-operator.cozystack.io/data-dir-subpath", js(rows[i].subpath))));
        const struct pod_input in = {.member = m, .image_repo = "r", .formed = true};
        json_auto_t *pod = object_pod(&demo, &in);
        assert_string_equal(flag_of(pod, "--data-dir="), rows[i].want);
        assert_string_equal(jstr(pod, "spec.subdomain", ""), "demo-headless");
        assert_string_equal(flag_of(pod, "--initial-advertise-peer-urls="),
                            "http://demo-x7k2p.demo-headless.ns1.svc:2380");
    }
}

static void the_budget_holds_the_larger_quorum(void **state)
{
    (void)state;
    static const struct {
        size_t voters;
        int want, min;
    } rows[] = {
        {1, 1, 1}, {2, 2, 2}, {3, 3, 2}, {4, 4, 3}, {5, 5, 3}, {7, 7, 4}, {3, 5, 3},
        {2, 5, 3}, {4, 5, 3}, {6, 7, 4}, {5, 7, 4}, {4, 7, 4}, {5, 3, 3}, {4, 3, 3},
        {1, 3, 2}, {2, 3, 2}, {3, 0, 2}, {0, 0, 0}, {0, 3, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(object_pdb_min_available(rows[i].voters, rows[i].want), rows[i].min);
}

static void a_service_is_repaired_in_what_is_ours_and_nothing_else(void **state)
{
    (void)state;
    json_auto_t *want = object_headless_service(&demo);
    json_auto_t *same = json_deep_copy(want);
    assert_null(object_service_repair(want, same));

    /* As a server stores it, with somebody's additions. */
    json_auto_t *there =
        parsed("{\"metadata\":{\"labels\":{\"theirs\":\"1\"}},\"spec\":{\"clusterIP\":\"None\","
               "\"selector\":{\"etcd-operator.cozystack.io/cluster\":\"demo\",\"app\":\"x\"},"
               "\"ports\":[{\"name\":\"client\",\"port\":1,\"protocol\":\"TCP\",\"targetPort\":1,"
               "\"nodePort\":30001},{\"name\":\"more\",\"port\":9}]}}");
    assert_golden("service-repair", object_service_repair(want, there));
}

int main(void)
{
    json_setup();
    const struct CMUnitTest tests[] = {
        TEST(services_and_budget),
        TEST(members),
        TEST(volumes),
        TEST(pods),
        TEST(only_a_seed_that_never_was_may_found_a_cluster),
        TEST(adopted_members_keep_their_service_and_directory),
        TEST(the_budget_holds_the_larger_quorum),
        TEST(a_service_is_repaired_in_what_is_ours_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
