/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/target.h"

#include "base/json.h"
#include "unit.h"

static json_t *cluster(const char *spec, const char *observed)
{
    struct err e = {0};
    json_t *a = NULL, *b = NULL;
    assert_ok(jparse(str_c(spec), &a, &e));
    assert_ok(jparse(str_c(observed), &b, &e));
    return JOBJ(J("spec", a), J("status", JOBJ(J("observed", b))));
}

static void differences_are_of_meaning_not_of_spelling(void **state)
{
    (void)state;
    static const struct {
        const char *name, *spec, *observed;
        bool want;
    } rows[] = {
        {"equal", "{\"replicas\":3,\"version\":\"3.6.11\",\"storage\":{\"size\":\"1Gi\"}}",
         "{\"replicas\":3,\"version\":\"3.6.11\",\"storage\":{\"size\":\"1Gi\"}}", false},
        {"replicas", "{\"replicas\":5}", "{\"replicas\":3}", true},
        {"version", "{\"version\":\"3.6.12\"}", "{\"version\":\"3.6.11\"}", true},
        {"the same size written otherwise", "{\"storage\":{\"size\":\"1Gi\"}}",
         "{\"storage\":{\"size\":\"1024Mi\"}}", false},
        {"a larger size", "{\"storage\":{\"size\":\"2Gi\"}}", "{\"storage\":{\"size\":\"1Gi\"}}",
         true},
        {"an absent medium is the empty one", "{\"storage\":{\"size\":\"1Gi\",\"medium\":\"\"}}",
         "{\"storage\":{\"size\":\"1Gi\"}}", false},
        {"the class is not compared", "{\"storage\":{\"size\":\"1Gi\",\"storageClassName\":\"x\"}}",
         "{\"storage\":{\"size\":\"1Gi\"}}", false},
        {"an empty map is an absent one", "{\"resources\":{}}", "{}", false},
        {"resources", "{\"resources\":{\"limits\":{\"cpu\":\"1\"}}}", "{}", true},
        {"options removed", "{}", "{\"options\":{\"snapshotCount\":5}}", true},
        {"the deadline is not part of it", "{\"progressDeadlineSeconds\":5}", "{}", false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        json_auto_t *c = cluster(rows[i].spec, rows[i].observed);
        if (target_differs(c) != rows[i].want)
            fail_msg("%s", rows[i].name);
    }
}

static void a_latched_target_does_not_differ(void **state)
{
    (void)state;
    json_auto_t *c = cluster("{\"replicas\":3,\"version\":\"3.6.11\",\"storage\":{\"size\":\"1Gi\","
                             "\"storageClassName\":\"fast\"},\"options\":{\"snapshotCount\":5},"
                             "\"tls\":{},\"progressDeadlineSeconds\":600}",
                             "{}");
    assert_true(target_differs(c));
    json_t *target = target_of(c);
    assert_null(jget(target, "tls"));
    assert_null(jget(target, "progressDeadlineSeconds"));
    assert_string_equal(jstr(target, "storage.storageClassName", ""), "fast");
    json_object_set_new(json_object_get(c, "status"), "observed", target);
    assert_false(target_differs(c));
}

TEST_MAIN(TEST(differences_are_of_meaning_not_of_spelling), TEST(a_latched_target_does_not_differ))
