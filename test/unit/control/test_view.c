/* SPDX-License-Identifier: Apache-2.0 */
#include "control/runtime/view.h"

#include <malloc.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/thread.h"
#include "unit.h"

struct item_view {
    struct view head;
    const struct istr *node;
    int64_t value;
};

static int project(const json_t *object, struct intern *strings, struct view *out, struct err *e)
{
    struct item_view *v = (struct item_view *)out;
    v->value = jint(object, "spec.value", 0);
    v->node = intern(strings, str_c(jstr(object, "spec.node", "")));
    if (v->value < 0)
        return err_set(e, ERR_INVALID, 0, "spec.value is negative");
    const char *owner = jlabel(object, "owner");
    if (owner)
        out->owner = intern(strings, str_c(owner));
    return 0;
}

static void done(struct view *v)
{
    istr_unref(((struct item_view *)v)->node);
}

static const struct view_kind kind = {
    .kube = &kube_pods, .size = sizeof(struct item_view), .project = project, .done = done};

static struct view *make(struct intern *strings, const char *name, const char *owner, int64_t value)
{
    struct err e = {0};
    struct view *v = NULL;
    json_auto_t *object =
        JOBJ(J("metadata",
               JOBJ(J("name", js(name)), J("namespace", js("ns")), J("resourceVersion", js("12")),
                    J("uid", js("01234567-89ab-cdef-0123-456789ABCDEF")),
                    J_IF(owner, "labels", JOBJ(J("owner", js(owner)))))),
             J("spec", JOBJ(J("value", ji(value)), J("node", js("node-1")))));
    assert_ok(view_make(&kind, object, strings, &v, &e));
    return v;
}

static void put(struct view_set *s, unsigned int source, struct view *v)
{
    struct view_change c = {0};
    view_put(s, source, v, &c);
    view_change_done(&c);
}

static void a_view_is_found_and_replaced(void **state)
{
    (void)state;
    struct intern *strings = intern_new();
    struct view_set *s = view_set_new(&kind);
    struct view_change c = {0};
    view_put(s, 0, make(strings, "a", "ns/x", 1), &c);
    assert_null(c.before);
    assert_non_null(c.now);
    view_change_done(&c);
    const struct view *old = view_get(s, "ns", "a");
    assert_int_equal(old->version, 12);
    assert_int_equal(old->uid[15], 0xef);

    view_put(s, 0, make(strings, "a", "ns/y", 2), &c);
    assert_ptr_equal(c.before, old);
    view_change_done(&c);
    assert_int_equal(((const struct item_view *)old)->value, 1); /* whole for whoever holds it */
    view_unref(old);

    AUTO(views_done) struct views of_x = {0}, of_y = {0};
    view_list_owner(s, "ns/x", &of_x);
    view_list_owner(s, "ns/y", &of_y);
    assert_int_equal(of_x.list.n, 0);
    assert_int_equal(of_y.list.n, 1);
    views_done(&of_y);

    view_del(s, "ns", "a", &c);
    assert_non_null(c.before);
    assert_null(c.now);
    view_change_done(&c);
    assert_null(view_get(s, "ns", "a"));
    assert_int_equal(view_count(s), 0);
    view_set_free(s);
    assert_int_equal(intern_count(strings), 0);
    intern_free(strings);
}

static void what_a_list_does_not_name_is_gone(void **state)
{
    (void)state;
    struct intern *strings = intern_new();
    struct view_set *s = view_set_new(&kind);
    char name[16];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        put(s, i % 2 ? 1 : 0, make(strings, name, "ns/x", i));
    }
    view_sync_begin(s, 1);
    for (int i = 1; i < 1000; i += 4) { /* half of those of source 1 */
        (void)snprintf(name, sizeof(name), "n%d", i);
        put(s, 1, make(strings, name, "ns/x", i));
    }
    struct view_change c = {0};
    size_t gone = 0;
    while (view_sweep(s, 1, &c)) {
        assert_int_equal(((const struct item_view *)c.before)->value % 4, 3);
        view_change_done(&c);
        gone++;
    }
    assert_int_equal(gone, 250);
    assert_int_equal(view_count(s), 750);
    assert_false(view_sweep(s, 1, &c));
    view_set_free(s);
    intern_free(strings);
}

static void count_one(void *arg, const char *key, const char *why)
{
    assert_string_equal(key, "ns/a");
    assert_string_equal(why, "too deep");
    ++*(int *)arg;
}

static void quarantine_takes_the_view_and_keeps_the_key(void **state)
{
    (void)state;
    struct intern *strings = intern_new();
    struct view_set *s = view_set_new(&kind);
    struct view_change c = {0};
    put(s, 0, make(strings, "a", "ns/x", 1));
    view_quarantine(s, 0, "ns", "a", "too deep", &c);
    assert_non_null(c.before);
    view_change_done(&c);
    assert_null(view_get(s, "ns", "a"));
    int n = 0;
    assert_int_equal(view_quarantined(s, count_one, &n), 1);
    assert_int_equal(n, 1);
    put(s, 0, make(strings, "a", "ns/x", 2)); /* repaired */
    assert_int_equal(view_quarantined(s, NULL, NULL), 0);
    assert_int_equal(view_count(s), 1);

    view_quarantine(s, 0, "ns", "a", "again", &c);
    view_change_done(&c);
    view_sync_begin(s, 0);
    while (view_sweep(s, 0, &c)) /* deleted while we were away */
        view_change_done(&c);
    assert_int_equal(view_quarantined(s, NULL, NULL), 0);
    for (int i = 0; i < VIEW_QUARANTINE_MAX + 10; i++) { /* a flood has an end */
        char name[16];
        (void)snprintf(name, sizeof(name), "q%d", i);
        view_quarantine(s, 0, "ns", name, "x", &c);
    }
    assert_int_equal(view_quarantined(s, NULL, NULL), VIEW_QUARANTINE_MAX);
    view_set_free(s);
    intern_free(strings);
}

static void an_object_that_makes_no_view_is_an_error(void **state)
{
    (void)state;
    struct intern *strings = intern_new();
    struct err e = {0};
    struct view *v = NULL;
    json_auto_t *nameless = JOBJ(J("metadata", JOBJ(J("resourceVersion", js("1")))));
    assert_err(view_make(&kind, nameless, strings, &v, &e), ERR_INVALID, "metadata.name");
    json_auto_t *bad = JOBJ(J("metadata", JOBJ(J("name", js("a")), J("resourceVersion", js("1")))),
                            J("spec", JOBJ(J("value", ji(-1)))));
    assert_err(view_make(&kind, bad, strings, &v, &e), ERR_INVALID, "negative");
    assert_int_equal(intern_count(strings), 0);
    intern_free(strings);
}

/* --- Readers beside the writer --- */

struct shared {
    struct view_set *s;
    atomic_bool stop;
};

static void read_all(void *arg)
{
    struct shared *sh = arg;
    while (!atomic_load(&sh->stop)) {
        AUTO(views_done) struct views some = {0};
        view_list_owner(sh->s, "ns/x", &some);
        for (size_t i = 0; i < some.list.n; i++)
            assert_string_equal(((const struct item_view *)some.list.v[i])->node->text, "node-1");
        const struct view *v = view_get(sh->s, "ns", "n1");
        view_unref(v);
    }
}

static void readers_need_not_wait_for_the_writer_to_end(void **state)
{
    (void)state;
    struct err e = {0};
    struct intern *strings = intern_new();
    struct shared sh = {.s = view_set_new(&kind)};
    struct thread readers[2];
    for (size_t i = 0; i < COUNT_OF(readers); i++)
        assert_ok(thread_start(&readers[i], "reader", read_all, &sh, &e));
    for (int round = 0; round < 3000; round++) {
        char name[16];
        struct view_change c = {0};
        (void)snprintf(name, sizeof(name), "n%d", round % 10);
        put(sh.s, 0, make(strings, name, round % 3 ? "ns/x" : "ns/y", round));
        if (round % 7 == 0)
            view_del(sh.s, "ns", name, &c);
        view_change_done(&c);
    }
    atomic_store(&sh.stop, true);
    for (size_t i = 0; i < COUNT_OF(readers); i++)
        thread_join(&readers[i]);
    view_set_free(sh.s);
    assert_int_equal(intern_count(strings), 0);
    intern_free(strings);
}

/* A cluster of three members has about 14 objects; the design allows 12 KiB for their views. */
static void a_cluster_costs_little(void **state)
{
    (void)state;
    enum { CLUSTERS = 2000, OBJECTS = 14 };
    struct intern *strings = intern_new();
    struct view_set *s = view_set_new(&kind);
    const size_t before = mallinfo2().uordblks;
    for (int c = 0; c < CLUSTERS; c++) {
        char owner[64], name[80];
        (void)snprintf(owner, sizeof(owner), "ns/some-ordinary-cluster-name-%d", c);
        for (int i = 0; i < OBJECTS; i++) {
            (void)snprintf(name, sizeof(name), "some-ordinary-cluster-name-%d-x7k2p-%d", c, i);
            put(s, 0, make(strings, name, owner, i));
        }
    }
    const size_t used = mallinfo2().uordblks - before;
    print_message("# %zu bytes per cluster\n", used / CLUSTERS);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(used / CLUSTERS <= 12 * 1024 / 2); /* half: real views hold more fields */
#endif
    view_set_free(s);
    intern_free(strings);
}

TEST_MAIN(TEST(a_view_is_found_and_replaced), TEST(what_a_list_does_not_name_is_gone),
          TEST(quarantine_takes_the_view_and_keeps_the_key),
          TEST(an_object_that_makes_no_view_is_an_error),
          TEST(readers_need_not_wait_for_the_writer_to_end), TEST(a_cluster_costs_little))
