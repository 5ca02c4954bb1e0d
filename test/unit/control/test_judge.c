/* SPDX-License-Identifier: Apache-2.0
 * What a person reads: a row per situation, with the reasons of the three conditions and words that
 * must be in the message of the one it is about. */
#include "control/cluster/judge.h"

#include "base/json.h"
#include "control/cluster/engine_internal.h"
#include "kube/condition.h"
#include "unit.h"
#include "worlds.h"

static const struct {
    const char *name;
    struct observed seen;
    /* "status/reason"; NULL: nothing is said, what stood there stays */
    const char *available, *progressing, *degraded;
    const char *type, *words; /* whose message has them */
} rows[] = {
    {"whole", FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b"))), "True/QuorumHealthy",
     "False/Reconciled", "False/QuorumHealthy", "Available", "all 2"},
    {"growing", FORMED(3, MEMBERS(2, VOTER("a"), VOTER("b", .learner = true))),
     "True/QuorumAvailable", "True/ScalingUp", "False/QuorumHealthy", "Progressing", "2 of 3"},
    {"one member ill",
     FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = NO, .pod_ready = NO))),
     "True/QuorumAvailable", "True/WaitingForMembers", "True/MembersUnhealthy", "Progressing",
     "not ready: b"},
    {"and it is named", FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = NO))),
     "True/QuorumHealthy", "True/WaitingForMembers", "True/MembersUnhealthy", "Degraded", "b"},
    {"a slow one is nobody's trouble",
     FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = UNKNOWN))), "True/QuorumHealthy",
     "False/Reconciled", "False/QuorumHealthy", "Available", "all 2"},
    {"an edit waits",
     FORMED(2, .spec_changed = true, MEMBERS(2, VOTER("a"), VOTER("b", .healthy = NO))),
     "True/QuorumHealthy", "True/WaitingForMembers", "True/MembersUnhealthy", "Progressing",
     "adopted after"},
    {"no quorum",
     FORMED(2, .quorum = NO,
            MEMBERS(2, VOTER("a", .listed = UNKNOWN, .healthy = NO),
                    VOTER("b", .listed = UNKNOWN, .healthy = NO, .pod_ready = NO))),
     "False/QuorumLost", "True/QuorumLost", "True/QuorumLost", "Available", "1/2"},
    {"unknown is not unhealthy",
     FORMED(1, .quorum = UNKNOWN, MEMBERS(1, VOTER("a", .listed = UNKNOWN, .healthy = UNKNOWN))),
     NULL, NULL, NULL, NULL, NULL},
    {"everybody gone", FORMED(3, .quorum = UNKNOWN), "False/AllMembersLost", "True/AllMembersLost",
     "True/AllMembersLost", "Available", "snapshot"},
    {"somebody unknown beside the well", FORMED(1, .unmanaged = 1, MEMBERS(1, VOTER("a"))),
     "True/QuorumHealthy", "True/UnmanagedMember", "False/QuorumHealthy", "Progressing",
     "etcdctl member remove"},
    {"a removal has to wait",
     FORMED(1, MEMBERS(3, VOTER("a"), VOTER("b", .healthy = NO), VOTER("c", .healthy = UNKNOWN))),
     "True/QuorumAvailable", "True/WaitingForQuorum", "True/MembersUnhealthy", "Progressing",
     "b, c"},
    {"a lost volume nobody can make up for",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .pvc = ABSENT, .healthy = NO),
                       VOTER("c", .healthy = UNKNOWN))),
     "True/QuorumHealthy", "True/VolumeLost", "True/MembersUnhealthy", "Progressing",
     "volume of b"},
    {"the last voter deleted", FORMED(0, MEMBERS(1, VOTER("a", .deleting = true))), "False/Paused",
     "True/LastVoterDeleted", "False/Paused", "Progressing", "EtcdMember a"},
    {"paused", FORMED(0, .quorum = NO, MEMBERS(1, VOTER("a", .dormant = true, .listed = UNKNOWN))),
     "False/Paused", "False/Paused", "False/Paused", "Available", "data-a"},
    {"no such name", FORMED(1, .formed = NO, .bad_name = "too long"), "False/InvalidName",
     "False/InvalidName", NULL, "Available", "too long"},
    {"too many", FORMED(40, .crowded = true, .members_known = UNKNOWN, .quorum = UNKNOWN), NULL,
     "True/TooManyMembers", NULL, "Progressing", "at most 15"},
    {"not supported", FORMED(1, .unsupported = "spec.tls"), "False/Unsupported", NULL, NULL,
     "Available", "spec.tls"},
    {"founding", FORMED(1, .formed = NO, MEMBERS(1, {.name = "a", .bootstrap = true})),
     "False/WaitingForSeed", "True/WaitingForSeed", NULL, "Available", "a does not answer"},
    {"somebody else where the seed should be",
     FORMED(1, .formed = NO, .found_id = 7, MEMBERS(1, {.name = "a", .bootstrap = true})),
     "False/ForeignCluster", "True/ForeignCluster", NULL, "Available", "address of a"},
    {"given up before it formed", FORMED(1, .formed = NO, .deadline_s = 900),
     "False/BootstrapFailed", "False/BootstrapFailed", NULL, "Available", "--subresource status"},
    {"given up later", FORMED(3, .deadline_s = 900, MEMBERS(1, VOTER("a"))),
     "False/DeadlineExceeded", "False/DeadlineExceeded", "False/QuorumHealthy", "Available",
     "1 of 3"},
};

static void check(const char *row, const json_t *conditions, const char *type, const char *want)
{
    const json_t *c = condition_get(conditions, type);
    char got[100] = "";
    if (c)
        (void)snprintf(got, sizeof(got), "%s/%s", jstr(c, "status", ""), jstr(c, "reason", ""));
    if (strcmp(got, want ? want : "") != 0)
        fail_msg("%s: %s is \"%s\", not \"%s\"", row, type, got, want ? want : "");
}

static struct pass pass_of(const struct observed *seen)
{
    static const struct objkey key = {.ns = "ns", .name = "demo"};
    return (struct pass){.key = &key, .seen = *seen, .asked = true};
}

static void each_situation_has_its_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct pass p = pass_of(&rows[i].seen);
        const struct plan plan = cluster_decide(&p.seen, 1000);
        const struct sums n = sum_up(&p);
        json_auto_t *conditions = JARR();
        judge_cluster(&p, &plan, NULL, &n, conditions, 0);
        check(rows[i].name, conditions, "Available", rows[i].available);
        check(rows[i].name, conditions, "Progressing", rows[i].progressing);
        check(rows[i].name, conditions, "Degraded", rows[i].degraded);
        const char *message =
            rows[i].type ? jstr(condition_get(conditions, rows[i].type), "message", "") : "";
        if (rows[i].words && !strstr(message, rows[i].words))
            fail_msg("%s: \"%s\" does not say \"%s\"", rows[i].name, message, rows[i].words);
    }
}

static void a_failure_is_shown_in_its_own_words(void **state)
{
    (void)state;
    const struct observed whole = FORMED(1, MEMBERS(1, VOTER("a")));
    const struct pass p = pass_of(&whole);
    const struct plan plan = cluster_decide(&p.seen, 1000);
    const struct sums n = sum_up(&p);
    struct err e = {0};
    (void)err_set(&e, ERR_EXISTS, 0, "Pod a is in the way");
    json_auto_t *conditions = JARR();
    judge_cluster(&p, &plan, &e, &n, conditions, 0);
    check("failed", conditions, "Progressing", "True/Retrying");
    assert_string_equal(jstr(condition_get(conditions, "Progressing"), "message", ""),
                        "Pod a is in the way");
}

static void a_seed_that_stays_silent_is_unreachable(void **state)
{
    (void)state;
    const struct observed founding =
        FORMED(1, .formed = NO, MEMBERS(1, {.name = "a", .bootstrap = true}));
    struct pass p = pass_of(&founding);
    p.health.stable_ms = 60000;
    (void)err_set(&p.health.err, ERR_UNAVAILABLE, 0, "10.0.0.1:2379: connection refused");
    const struct plan plan = cluster_decide(&p.seen, 1000);
    const struct sums n = sum_up(&p);
    json_auto_t *conditions = JARR();
    judge_cluster(&p, &plan, NULL, &n, conditions, 0);
    check("silent", conditions, "Available", "False/ClusterUnreachable");
    assert_non_null(strstr(jstr(condition_get(conditions, "Available"), "message", ""), "refused"));
}

static void a_cluster_that_wakes_has_lost_nothing(void **state)
{
    (void)state;
    const struct observed waking = FORMED(
        1, .quorum = NO, MEMBERS(1, VOTER("a", .listed = UNKNOWN, .healthy = NO, .pod_ready = NO)));
    struct pass p = pass_of(&waking);
    const struct plan plan = cluster_decide(&p.seen, 1000);
    const struct sums n = sum_up(&p);
    static const char *const before[] = {"Paused", "Resuming", "QuorumHealthy"};
    for (size_t i = 0; i < COUNT_OF(before); i++) {
        json_auto_t *cluster = JOBJ(
            J("status",
              JOBJ(J("conditions", JARR(JOBJ(J("type", js("Available")), J("status", js("False")),
                                             J("reason", js(before[i]))))))));
        json_auto_t *conditions = JARR();
        p.cluster = cluster;
        judge_cluster(&p, &plan, NULL, &n, conditions, 0);
        const bool woken = i < 2;
        check(before[i], conditions, "Available", woken ? "False/Resuming" : "False/QuorumLost");
        check(before[i], conditions, "Progressing", woken ? "True/Resuming" : "True/QuorumLost");
        check(before[i], conditions, "Degraded", woken ? NULL : "True/QuorumLost");
    }
}

int main(void)
{
    json_setup();
    const struct CMUnitTest tests[] = {
        TEST(each_situation_has_its_words),
        TEST(a_failure_is_shown_in_its_own_words),
        TEST(a_seed_that_stays_silent_is_unreachable),
        TEST(a_cluster_that_wakes_has_lost_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
