/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/prune.h"

#include "base/buf.h"
#include "base/json.h"
#include "unit.h"

static struct prune usual(void)
{
    struct prune p = {0};
    prune_add(&p, "object", "metadata.managedFields");
    prune_add(&p, "object", "spec.containers");
    return p;
}

static void values_at_the_paths_become_null(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"{\"object\":{\"metadata\":{\"managedFields\":[{\"a\":\"]}\"}],\"name\":\"n\"}}}",
         "{\"object\":{\"metadata\":{\"managedFields\":null,\"name\":\"n\"}}}"},
        {"{\"type\":\"A\",\"object\":{\"spec\":{\"containers\":1,\"x\":2}}}\n",
         "{\"type\":\"A\",\"object\":{\"spec\":{\"containers\":null,\"x\":2}}}\n"},
        {"{\"object\":{\"spec\":{\"containers\":-1.5e3}}}",
         "{\"object\":{\"spec\":{\"containers\":null}}}"},
        {" { \"object\" : { \"spec\" : { \"containers\" : \"\\\\\\\"\" } } } ",
         " { \"object\" : { \"spec\" : { \"containers\" : null } } } "},
        /* Elsewhere it is somebody's data. */
        {"{\"object\":{\"spec\":{\"managedFields\":[1]},\"managedFields\":2}}",
         "{\"object\":{\"spec\":{\"managedFields\":[1]},\"managedFields\":2}}"},
        {"{\"object\":[{\"metadata\":{\"managedFields\":[1]}}]}",
         "{\"object\":[{\"metadata\":{\"managedFields\":[1]}}]}"},
        {"{}", "{}"},
    };
    const struct prune p = usual();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_buf struct buf out = BUF_INIT(1000);
        if (!prune_text(&p, str_c(rows[i][0]), &out) || strcmp(buf_cstr(&out), rows[i][1]) != 0)
            fail_msg("%s: %s", rows[i][0], buf_cstr(&out));
    }
}

static void what_is_no_object_is_left_to_the_parser(void **state)
{
    (void)state;
    static const char *const rows[] = {"",
                                       "[]",
                                       "1",
                                       "{",
                                       "{\"a\"",
                                       "{\"a\":",
                                       "{\"a\":1",
                                       "{\"a\":\"",
                                       "{\"object\":{\"spec\":{\"containers\":[}",
                                       "{1:2}",
                                       "{\"a\":1;\"b\":2}",
                                       "{\"a\" 1}",
                                       "{\"a\":}"};
    const struct prune p = usual();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_buf struct buf out = BUF_INIT(1000);
        if (prune_text(&p, str_c(rows[i]), &out))
            fail_msg("%s", rows[i]);
    }
}

/* Random JSON: pruning and parsing is parsing and removing. */
static json_t *random_value(uint64_t *seed, int depth)
{
    static const char *const keys[] = {"object", "metadata",   "managedFields",
                                       "spec",   "containers", "a\\\"b"};
    switch (test_below(seed, depth > 0 ? 6 : 3)) {
    case 0:
        return ji((int64_t)test_below(seed, 100));
    case 1:
        return js("a\"]}\\");
    case 2:
        return jb(true);
    case 3: {
        json_t *list = json_array();
        for (uint64_t n = test_below(seed, 3); n > 0; n--)
            (void)json_array_append_new(list, random_value(seed, depth - 1));
        return list;
    }
    default: {
        json_t *object = json_object();
        for (uint64_t n = test_below(seed, 5); n > 0; n--)
            (void)json_object_set_new(object, keys[test_below(seed, COUNT_OF(keys))],
                                      random_value(seed, depth - 1));
        return object;
    }
    }
}

static void null_at(json_t *root, const char *path, const char *key)
{
    json_t *at = jget(root, path);
    if (json_is_object(at) && json_object_get(at, key))
        (void)json_object_set_new(at, key, json_null());
}

static void pruning_agrees_with_the_parser(void **state)
{
    (void)state;
    const struct prune p = usual();
    uint64_t seed = 7;
    for (int round = 0; round < 20000; round++) {
        struct err e = {0};
        json_auto_t *root = json_object(), *back = NULL;
        (void)json_object_set_new(root, "object", random_value(&seed, 6));
        auto_buf struct buf text = BUF_INIT(1 << 20), out = BUF_INIT(1 << 20);
        assert_ok(jdump(root, &text, &e));
        assert_true(prune_text(&p, buf_str(&text), &out));
        assert_ok(jparse(buf_str(&out), &back, &e));
        null_at(root, "object.metadata", "managedFields");
        null_at(root, "object.spec", "containers");
        if (!json_equal(root, back))
            fail_msg("%s", buf_cstr(&text));
    }
}

TEST_MAIN(TEST(values_at_the_paths_become_null), TEST(what_is_no_object_is_left_to_the_parser),
          TEST(pruning_agrees_with_the_parser))
