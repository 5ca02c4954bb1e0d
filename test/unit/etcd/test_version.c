/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/version.h"

#include "unit.h"

static struct etcd_version v(const char *text)
{
    struct err e = {0};
    struct etcd_version out = {0};
    assert_ok(etcd_version_parse(str_c(text), &out, &e));
    return out;
}

static void versions_are_read_in_every_form_they_appear_in(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"3.6.11", "3.6.11"},    {"v3.6.11", "3.6.11"},      {"3.5", "3.5.0"},
        {"3.6.0-rc.1", "3.6.0"}, {"3.7.0+git.abc", "3.7.0"}, {"10.20.30", "10.20.30"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[ETCD_VERSION_TEXT_MAX];
        assert_string_equal(etcd_version_print(v(rows[i].text), text), rows[i].want);
    }
    static const char *const bad[] = {"",     "3",      "3.",     "3.6.",   "x3.6",      "3.6.1x",
                                      "3..6", "3.06.1", " 3.6.1", "3.6.1 ", "3.6.99999", "latest"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct err e;
        struct etcd_version out;
        assert_err(etcd_version_parse(str_c(bad[i]), &out, &e), ERR_INVALID, "no etcd version");
    }
}

static void versions_have_an_order(void **state)
{
    (void)state;
    assert_true(etcd_version_cmp(v("3.5.9"), v("3.5.10")) < 0);
    assert_true(etcd_version_cmp(v("3.6.0"), v("3.5.99")) > 0);
    assert_true(etcd_version_cmp(v("4.0.0"), v("3.9.9")) > 0);
    assert_int_equal(etcd_version_cmp(v("3.6"), v("3.6.0")), 0);
    assert_int_equal(etcd_version_minors(v("3.5.30"), v("3.6.1")), 1);
    assert_int_equal(etcd_version_minors(v("3.7.0"), v("3.5.1")), -2);
}

static int joins(struct etcd_version member, struct etcd_version cluster, struct err *e)
{
    return etcd_join_check(member, cluster, NULL, e);
}

static int joins_on_the_way_to_35(struct etcd_version member, struct etcd_version cluster,
                                  struct err *e)
{
    return etcd_join_check(member, cluster, &(struct etcd_version){3, 5, 35}, e);
}

static const struct {
    const char *name;
    int (*check)(struct etcd_version, struct etcd_version, struct err *);
    const char *from, *to;
    const char *why; /* NULL: allowed */
} rules[] = {
    {"patches go up", etcd_upgrade_check, "3.6.5", "3.6.11", NULL},
    {"and down", etcd_upgrade_check, "3.6.11", "3.6.5", NULL},
    {"one minor", etcd_upgrade_check, "3.6.11", "3.7.0", NULL},
    {"from the last stop", etcd_upgrade_check, "3.5.26", "3.6.11", NULL},
    {"not from before it", etcd_upgrade_check, "3.5.25", "3.6.11", "3.5.26"},
    {"not to one that may not start", etcd_upgrade_check, "3.5.30", "3.6.4", "3.6.5"},
    {"no minor is skipped", etcd_upgrade_check, "3.5.30", "3.7.0", "skipped"},
    {"nor a major", etcd_upgrade_check, "3.7.0", "4.0.0", "skipped"},
    {"no way down", etcd_upgrade_check, "3.6.11", "3.5.30", "downgrade"},
    {"not to one that loses data", etcd_upgrade_check, "3.4.30", "3.5.2", "3.5.3"},
    {"3.4 to 3.5", etcd_upgrade_check, "3.4.30", "3.5.35", NULL},
    {"3.4 to the first that keeps data", etcd_upgrade_check, "3.4.30", "3.5.3", NULL},
    {"3.5 to the first that starts", etcd_upgrade_check, "3.5.26", "3.6.5", NULL},
    {"no patch back to one that loses data", etcd_upgrade_check, "3.5.3", "3.5.0", "3.5.3"},
    {"nor to one that may not start", etcd_upgrade_check, "3.6.11", "3.6.0", "3.6.5"},
    {"a member of the same minor joins", joins, "3.6.5", "3.6.0", NULL},
    {"one above", joins, "3.7.0", "3.6.0", NULL},
    {"two above does not", joins, "3.7.0", "3.5.0", "at most"},
    {"below does not", joins, "3.5.35", "3.6.0", "does not start"},
    {"nor one that loses data", joins, "3.5.2", "3.5.0", "3.5.3"},
    {"nor one that may not start", joins, "3.6.4", "3.5.0", "3.6.5"},
    {"the lower minor joins a downgrade", joins_on_the_way_to_35, "3.5.35", "3.5.0", NULL},
    {"any patch of it", joins_on_the_way_to_35, "3.5.26", "3.5.0", NULL},
    {"the higher one does not", joins_on_the_way_to_35, "3.6.11", "3.5.0", "lower minor"},
    {"one minor down", etcd_downgrade_check, "3.6.0", "3.5.35", NULL},
    {"3.7 to 3.6", etcd_downgrade_check, "3.7.0", "3.6.11", NULL},
    {"to the first of 3.5 that may go up again", etcd_downgrade_check, "3.6.0", "3.5.26", NULL},
    {"not before it", etcd_downgrade_check, "3.6.0", "3.5.25", "3.5.26"},
    {"not to one that loses data either", etcd_downgrade_check, "3.6.0", "3.5.2", "3.5.3"},
    {"nor to one that may not start", etcd_downgrade_check, "3.7.0", "3.6.4", "3.6.5"},
    {"not two", etcd_downgrade_check, "3.7.0", "3.5.0", "exactly one"},
    {"not none", etcd_downgrade_check, "3.6.5", "3.6.4", "exactly one"},
    {"not below 3.5", etcd_downgrade_check, "3.5.0", "3.4.0", "below 3.5"},
};

static void what_may_follow_what(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct err e = {0};
        const int rc = rules[i].check(v(rules[i].from), v(rules[i].to), &e);
        if ((rc == 0) != (rules[i].why == NULL) || (rc < 0 && !strstr(e.text, rules[i].why)))
            fail_msg("%s: %s", rules[i].name, rc == 0 ? "allowed" : e.text);
    }
}

static void a_lower_binary_waits_for_the_migration(void **state)
{
    (void)state;
    struct err e;
    assert_err(etcd_downgrade_ready(false, v("3.5"), v("3.6"), &e), ERR_NOT_READY, "not being");
    assert_err(etcd_downgrade_ready(true, v("3.5"), v("3.6"), &e), ERR_NOT_READY, "migrated");
    assert_ok(etcd_downgrade_ready(true, v("3.5"), v("3.5.0"), &e));
}

static void defects_end_with_the_patch_that_fixed_them(void **state)
{
    (void)state;
    assert_true(etcd_version_has_quirk(v("3.5.27"), ETCD_QUIRK_PROMOTE_VIA_LEADER));
    assert_false(etcd_version_has_quirk(v("3.5.28"), ETCD_QUIRK_PROMOTE_VIA_LEADER));
    assert_true(etcd_version_has_quirk(v("3.6.5"), ETCD_QUIRK_PROMOTE_VIA_LEADER));
    assert_false(etcd_version_has_quirk(v("3.6.6"), ETCD_QUIRK_PROMOTE_VIA_LEADER));
    assert_true(etcd_version_has_quirk(v("3.6.11"), ETCD_QUIRK_LEARNER_UPDATE));
    assert_false(etcd_version_has_quirk(v("3.6.0"), ETCD_QUIRK_PROGRESS_OVERTAKES));
    assert_true(etcd_version_has_quirk(v("3.3.1"), ETCD_QUIRK_WATCH_AT_COMPACTION));
    for (int q = 0; q < ETCD_QUIRKS_N; q++)
        assert_false(etcd_version_has_quirk(v("3.7.0"), (enum etcd_quirk)q));
}

TEST_MAIN(TEST(versions_are_read_in_every_form_they_appear_in), TEST(versions_have_an_order),
          TEST(what_may_follow_what), TEST(a_lower_binary_waits_for_the_migration),
          TEST(defects_end_with_the_patch_that_fixed_them))
