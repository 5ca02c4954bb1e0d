/* SPDX-License-Identifier: Apache-2.0
 * The table that test/integration/test_crds.py feeds to a real API server. */
#include "api/validate.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "unit.h"

enum { TABLE_MAX = 1024 * 1024, SAID_MAX = 16 };

static json_t *load(const char *path)
{
    struct err e = {0};
    const struct ctx ctx = ctx_root(&clock_real, NULL);
    auto_buf struct buf text = BUF_INIT(TABLE_MAX);
    json_t *v = NULL;
    assert_ok(file_read(&ctx, path, &text, &e));
    assert_ok(jparse(buf_str(&text), &v, &e));
    return v;
}

static enum api_kind kind_of(const char *name)
{
    for (int kind = API_CLUSTER; kind <= API_DEFRAG; kind++)
        if (strcmp(api_kind_name((enum api_kind)kind), name) == 0)
            return (enum api_kind)kind;
    fail_msg("no kind %s", name);
    return API_CLUSTER;
}

/* The object as the API server hands it to the rules: with the defaults the rules look at. */
static json_t *object_of(enum api_kind kind, const json_t *spec)
{
    if (!spec)
        return NULL;
    json_t *copy = json_deep_copy(spec);
    if (kind == API_CLUSTER || kind == API_MEMBER) {
        json_auto_t *storage = JOBJ(J("size", js("1Gi")), J("medium", js("")));
        json_t *given = json_object_get(copy, "storage");
        if (given)
            json_object_update(storage, given);
        json_object_set(copy, "storage", storage);
    }
    return JOBJ(J("spec", copy));
}

struct said {
    const char *messages[SAID_MAX];
    size_t n;
};

static void collect(void *arg, const char *path, const char *message)
{
    struct said *s = arg;
    assert_non_null(path);
    assert_true(s->n < SAID_MAX);
    s->messages[s->n++] = message;
}

static bool was_said(const struct said *s, const char *message)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->messages[i], message) == 0)
            return true;
    return false;
}

static void the_rules_refuse_what_the_api_server_refuses(void **state)
{
    (void)state;
    json_auto_t *table = load(TEST_SOURCE "/test/api/validation.json");
    size_t index = 0;
    const json_t *row = NULL;
    json_array_foreach(table, index, row)
    {
        const enum api_kind kind = kind_of(jstr(row, "kind", ""));
        json_auto_t *old = object_of(kind, jget(row, "old"));
        json_auto_t *obj = object_of(kind, jget(row, "spec"));
        const json_t *want = jget(row, "refused");
        struct said said = {0};
        const size_t broken = api_validate(kind, old, obj, collect, &said);
        assert_int_equal(broken, said.n);
        size_t at = 0;
        const json_t *message = NULL;
        json_array_foreach(want, at, message)
        {
            if (!was_said(&said, json_string_value(message)))
                fail_msg("%s: nobody said \"%s\"", jstr(row, "name", ""),
                         json_string_value(message));
        }
        if (said.n != json_array_size(want))
            fail_msg("%s: said \"%s\"", jstr(row, "name", ""), said.messages[said.n - 1]);
    }
    assert_true(index > 50);
}

static void what_exists_and_is_not_supported_is_named(void **state)
{
    (void)state;
    json_auto_t *plain = JOBJ(J("spec", JOBJ(J("version", js("3.6.11")))));
    json_auto_t *tls = JOBJ(J("spec", JOBJ(J("tls", JOBJ()))));
    json_auto_t *memory = JOBJ(J("spec", JOBJ(J("storage", JOBJ(J("medium", js("Memory")))))));
    assert_null(api_unsupported(API_CLUSTER, plain));
    assert_string_equal(api_unsupported(API_CLUSTER, tls), "spec.tls");
    assert_string_equal(api_unsupported(API_CLUSTER, memory), "spec.storage.medium=Memory");
    assert_string_equal(api_unsupported(API_SNAPSHOT, plain), "EtcdSnapshot");
    assert_null(api_unsupported(API_MEMBER, tls)); /* members are the operator's own */
}

TEST_MAIN(TEST(the_rules_refuse_what_the_api_server_refuses),
          TEST(what_exists_and_is_not_supported_is_named))
