/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include "base/buf.h"
#include "unit.h"

static json_t *parsed(const char *text)
{
    struct err e = {0};
    json_t *v = NULL;
    if (jparse(str_c(text), &v, &e) < 0)
        fail_msg("%s: %s", text, e.text);
    return v;
}

static void assert_dump(const json_t *v, const char *want)
{
    struct err e = {0};
    auto_buf struct buf text = BUF_INIT(10000);
    assert_ok(jdump(v, &text, &e));
    assert_string_equal(buf_cstr(&text), want);
}

static void parsing_is_strict_and_says_where(void **state)
{
    (void)state;
    struct err e = {0};
    json_t *v = NULL;
    assert_err(jparse(STR("{\"a\":1,\n\"a\":2}"), &v, &e), ERR_INVALID, "line 2");
    assert_err(jparse(STR("{\"a\":1} x"), &v, &e), ERR_INVALID, "line 1");
    assert_err(jparse(STR("{\"a\":\"\xff\"}"), &v, &e), ERR_INVALID, "unable to decode");
    assert_err(jparse(STR("{\"password\": hunter2}"), &v, &e), ERR_INVALID, "line 1");
    assert_null(strstr(e.text, "hunter2")); /* the input may be a Secret */
    assert_err(jparse(STR(""), &v, &e), ERR_INVALID, "line 1");
    assert_err(jparse((struct str){0}, &v, &e), ERR_INVALID, "line 1");
    assert_err(jparse(STR("99999999999999999999"), &v, &e), ERR_INVALID, "integer");
    char deep[5001];
    memset(deep, '[', 5000);
    deep[5000] = '\0';
    assert_err(jparse(str_c(deep), &v, &e), ERR_INVALID, "depth");
    assert_null(v);
}

static void a_nul_in_a_string_is_legal(void **state)
{
    (void)state;
    json_auto_t *v = parsed("{\"a\":\"x\\u0000y\"}");
    assert_int_equal(json_string_length(jget(v, "a")), 3);
    assert_dump(v, "{\"a\":\"x\\u0000y\"}");
}

static void getters_walk_paths_and_fall_back(void **state)
{
    (void)state;
    json_auto_t *v = parsed("{\"spec\":{\"replicas\":5,\"paused\":true,\"class\":\"fast\","
                            "\"none\":null,\"hosts\":[{\"name\":\"a\"},{\"name\":\"b\"}]}}");
    assert_int_equal(jint(v, "spec.replicas", 3), 5);
    assert_int_equal(jint(v, "spec.absent", 3), 3);
    assert_int_equal(jint(v, "spec.class", 3), 3); /* another type */
    assert_int_equal(jint(v, "spec.none", 3), 3);
    assert_int_equal(jint(NULL, "spec", 3), 3);
    assert_true(jbool(v, "spec.paused", false));
    assert_true(jbool(v, "spec.absent", true));
    assert_string_equal(jstr(v, "spec.class", "slow"), "fast");
    assert_null(jstr(v, "spec.replicas.too.deep", NULL));
    assert_string_equal(jstr(v, "spec.hosts.1.name", ""), "b");
    assert_null(jget(v, "spec.hosts.2"));
    assert_null(jget(v, "spec.hosts.-1"));
    assert_ptr_equal(jget(v, ""), v);
}

static void keys_with_dots_have_their_own_getters(void **state)
{
    (void)state;
    json_auto_t *v = parsed("{\"metadata\":{\"labels\":{\"app.kubernetes.io/name\":\"x\"},"
                            "\"annotations\":{\"a.b/c\":\"y\"}}}");
    assert_string_equal(jlabel(v, "app.kubernetes.io/name"), "x");
    assert_string_equal(jannotation(v, "a.b/c"), "y");
    assert_null(jlabel(v, "a.b/c"));
    assert_null(jlabel(NULL, "x"));
}

static void required_values_are_missed_by_path(void **state)
{
    (void)state;
    struct err e = {0};
    json_auto_t *v = parsed("{\"spec\":{\"version\":\"3.6.11\",\"n\":7,\"real\":1.5}}");
    const char *s = NULL;
    int64_t n = 0;
    json_t *obj = NULL;
    assert_ok(jneed_str(v, "spec.version", &s, &e));
    assert_string_equal(s, "3.6.11");
    assert_ok(jneed_int(v, "spec.n", &n, &e));
    assert_int_equal(n, 7);
    assert_ok(jneed_obj(v, "spec", &obj, &e));
    assert_err(jneed_str(v, "spec.image", &s, &e), ERR_INVALID, "spec.image is missing");
    assert_err(jneed_str(v, "spec.n", &s, &e), ERR_INVALID,
               "spec.n is an integer, expected a string");
    assert_err(jneed_int(v, "spec.real", &n, &e), ERR_INVALID, "spec.real is a number");
    assert_err(jneed_obj(v, "spec.n", &obj, &e), ERR_INVALID, "expected an object");
}

static int built;

static json_t *counted(void)
{
    built++;
    return js("x");
}

static void builders_nest_and_leave_fields_out(void **state)
{
    (void)state;
    const char *class_name = NULL;
    built = 0;
    json_auto_t *v =
        JOBJ(J("kind", js("PersistentVolumeClaim")),
             J("spec", JOBJ(J("accessModes", JARR(js("ReadWriteOnce"), js("x"))),
                            J_IF(class_name, "storageClassName", js(class_name)),
                            J_IF(true, "given", counted()), J_IF(false, "not", counted()),
                            J("resources", JOBJ(J("n", ji(-1)), J("on", jb(true)),
                                                J("empty", JOBJ()), J("list", JARR()))))));
    assert_dump(v, "{\"kind\":\"PersistentVolumeClaim\",\"spec\":{\"accessModes\":"
                   "[\"ReadWriteOnce\",\"x\"],\"given\":\"x\",\"resources\":{\"empty\":{},"
                   "\"list\":[],\"n\":-1,\"on\":true}}}");
    assert_int_equal(built, 1);
}

static void foreign_bytes_become_valid_strings(void **state)
{
    (void)state;
    json_auto_t *v = JARR(jsn((struct str){"a\xff\xc3\xa4\xc3", 5}), jsf("%d-%s", 7, "\xfe"),
                          jsn((struct str){0}));
    assert_string_equal(json_string_value(json_array_get(v, 0)),
                        "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_array_get(v, 1)), "7-\xef\xbf\xbd");
    assert_string_equal(json_string_value(json_array_get(v, 2)), "");
}

static void dumping_is_sorted_and_capped(void **state)
{
    (void)state;
    struct err e = {0};
    json_auto_t *v = parsed("{\"b\":1,\"a\":{\"d\":2,\"c\":[3]}}");
    assert_dump(v, "{\"a\":{\"c\":[3],\"d\":2},\"b\":1}");
    auto_buf struct buf small = BUF_INIT(5);
    assert_err(jdump(v, &small, &e), ERR_TOO_BIG, "more than 5 bytes");
}

int main(void)
{
    json_setup();
    const struct CMUnitTest tests[] = {
        TEST(parsing_is_strict_and_says_where),   TEST(a_nul_in_a_string_is_legal),
        TEST(getters_walk_paths_and_fall_back),   TEST(keys_with_dots_have_their_own_getters),
        TEST(required_values_are_missed_by_path), TEST(builders_nest_and_leave_fields_out),
        TEST(foreign_bytes_become_valid_strings), TEST(dumping_is_sorted_and_capped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
