/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/health.h"

#include <stdio.h>

#include "base/mem.h"
#include "unit.h"

static struct question ask_three(void)
{
    struct question q = {.cluster_id = 7, .n = 3};
    for (size_t i = 0; i < q.n; i++) {
        (void)snprintf(q.members[i].url, HEALTH_URL_MAX, "http://10.0.0.%zu:2379", i + 1);
        q.members[i].peer_url = xasprintf("http://m%zu:2380", i);
    }
    return q;
}

static const char *const urls[] = {"http://m0:2380", "http://m1:2380", "http://m2:2380",
                                   "http://other:2380"};
static const struct etcd_member list[] = {
    {.id = 10, .peer_urls = &urls[0], .n_peer_urls = 1},
    {.id = 11, .peer_urls = &urls[1], .n_peer_urls = 1, .learner = true},
    {.id = 13, .peer_urls = &urls[3], .n_peer_urls = 1},
};

static struct etcd_probe_answer answered(uint64_t id)
{
    return (struct etcd_probe_answer){
        .outcome = ETCD_PROBE_ANSWERED,
        .status = {.header = {.cluster_id = 7, .member_id = id},
                   .leader = 10,
                   .raft_term = 3,
                   .db_size_bytes = 4096,
                   .version = "3.6.11"},
        .read = {.known = ETCD_FACT_YES},
        .has_members = {.known = ETCD_FACT_YES},
        .members = {.v = list, .n = COUNT_OF(list)},
    };
}

static void nobody_to_ask_is_unknown(void **state)
{
    (void)state;
    struct question q = ask_three();
    for (size_t i = 0; i < q.n; i++)
        q.members[i].url[0] = '\0';
    struct etcd_probe_target targets[OBSERVED_MEMBERS_MAX];
    struct health h;
    assert_int_equal(question_targets(&q, targets), 0);
    health_read(&q, NULL, &h);
    assert_int_equal(h.quorum, UNKNOWN);
    assert_int_equal(h.n, 3);
    assert_int_equal(h.members[2].outcome, ETCD_PROBE_UNKNOWN);
    question_done(&q);
}

static void answers_are_told_apart_by_whom_was_asked(void **state)
{
    (void)state;
    struct question q = ask_three();
    q.members[1].url[0] = '\0'; /* has no address yet */
    struct etcd_probe_target targets[OBSERVED_MEMBERS_MAX];
    assert_int_equal(question_targets(&q, targets), 2);
    assert_string_equal(targets[1].endpoint.url, "http://10.0.0.3:2379");
    assert_int_equal(targets[1].cluster_id, 7);
    struct etcd_probe_answer answers[2] = {answered(10)};
    answers[1].outcome = ETCD_PROBE_TIMED_OUT;
    err_set(&answers[1].err, ERR_TIMEOUT, 0, "silence");
    struct health h;
    health_read(&q, answers, &h);
    assert_int_equal(h.quorum, YES);
    assert_int_equal(h.unmanaged, 1); /* http://other:2380 */
    assert_int_equal(h.members[0].listed_id, 10);
    assert_int_equal(h.members[0].id, 10);
    assert_true(h.members[0].read);
    assert_string_equal(h.members[0].version, "3.6.11");
    assert_int_equal(h.members[1].outcome, ETCD_PROBE_UNKNOWN);
    assert_int_equal(h.members[1].listed_id, 11); /* the list knows it though it was not asked */
    assert_true(h.members[1].learner);
    assert_int_equal(h.members[2].outcome, ETCD_PROBE_TIMED_OUT);
    assert_int_equal(h.members[2].listed_id, 0);
    assert_string_equal(h.err.text, "silence");
    question_done(&q);
}

static void without_a_list_there_is_no_quorum(void **state)
{
    (void)state;
    struct question q = ask_three();
    struct etcd_probe_answer answers[3] = {answered(10), answered(11), answered(12)};
    for (size_t i = 0; i < 3; i++) {
        answers[i].has_members.known = ETCD_FACT_NO;
        answers[i].read.known = ETCD_FACT_NO;
    }
    struct health h;
    health_read(&q, answers, &h);
    assert_int_equal(h.quorum, NO);
    assert_false(h.members[0].read);
    question_done(&q);
}

static void a_learner_reads_nothing_and_is_well(void **state)
{
    (void)state;
    struct question q = ask_three();
    struct etcd_probe_answer answers[3] = {answered(10), answered(11), answered(12)};
    answers[1].status.learner = true;
    answers[1].read.known = ETCD_FACT_NO;
    struct health h;
    health_read(&q, answers, &h);
    assert_true(h.members[1].learner && h.members[1].feels_learner && !h.members[1].read);
    assert_int_equal(health_verdict(&h.members[1], OURS, YES), YES);
    question_done(&q);
}

static void a_verdict_needs_an_answer(void **state)
{
    (void)state;
    static const struct {
        struct health_member said;
        enum presence pod;
        enum fact pod_ready, want;
    } rows[] = {
        {{.outcome = ETCD_PROBE_UNKNOWN}, ABSENT, NO, NO},
        {{.outcome = ETCD_PROBE_UNKNOWN}, OURS, YES, UNKNOWN},
        {{.outcome = ETCD_PROBE_ANSWERED, .leader = 1, .read = true}, OURS, NO, YES},
        {{.outcome = ETCD_PROBE_ANSWERED, .leader = 0, .read = true}, OURS, YES, NO},
        {{.outcome = ETCD_PROBE_ANSWERED, .leader = 1}, OURS, YES, NO},
        {{.outcome = ETCD_PROBE_ANSWERED, .leader = 1, .learner = true}, OURS, YES, YES},
        /* a voter by the list that takes itself for a learner has read nothing */
        {{.outcome = ETCD_PROBE_ANSWERED, .leader = 1, .feels_learner = true}, OURS, YES, UNKNOWN},
        {{.outcome = ETCD_PROBE_TIMED_OUT}, OURS, YES, UNKNOWN},
        {{.outcome = ETCD_PROBE_TIMED_OUT}, OURS, NO, NO},
        {{.outcome = ETCD_PROBE_REFUSED}, OURS, YES, NO},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (health_verdict(&rows[i].said, rows[i].pod, rows[i].pod_ready) != rows[i].want)
            fail_msg("row %zu", i);
}

static void a_moment_of_silence_proves_nothing(void **state)
{
    (void)state;
    struct health h = {.quorum = NO, .n = 2};
    h.members[0].outcome = ETCD_PROBE_TIMED_OUT;
    assert_int_equal(health_quorum(&h), UNKNOWN); /* the other could not be asked */
    h.silent_ms = HEALTH_SILENCE_MS;
    assert_int_equal(health_quorum(&h), NO);
    h.silent_ms = 0;
    h.members[1].outcome = ETCD_PROBE_REFUSED;
    assert_int_equal(health_quorum(&h), NO);
    h.members[1].outcome = ETCD_PROBE_ANSWERED;
    assert_int_equal(health_quorum(&h), NO);
    h.quorum = YES;
    assert_int_equal(health_quorum(&h), YES);
}

static void what_drifts_makes_no_difference(void **state)
{
    (void)state;
    struct health a = {.quorum = YES, .n = 2}, b;
    a.members[0] = (struct health_member){
        .outcome = ETCD_PROBE_ANSWERED, .id = 1, .leader = 1, .term = 4, .db_bytes = 100};
    b = a;
    b.members[0].db_bytes = 200;
    b.members[0].term = 5;
    assert_true(health_same(&a, &b));
    static const struct {
        size_t offset;
    } counts[] = {
        {offsetof(struct health_member, outcome)},
        {offsetof(struct health_member, read)},
        {offsetof(struct health_member, id)},
        {offsetof(struct health_member, leader)},
        {offsetof(struct health_member, listed_id)},
        {offsetof(struct health_member, learner)},
        {offsetof(struct health_member, version)},
        {offsetof(struct health_member, cluster_id)},
        {offsetof(struct health_member, feels_learner)},
    };
    for (size_t i = 0; i < COUNT_OF(counts); i++) {
        b = a;
        ((char *)&b.members[1])[counts[i].offset] ^= 1;
        assert_false(health_same(&a, &b));
    }
    b = a;
    b.quorum = NO;
    assert_false(health_same(&a, &b));
    b = a;
    b.unmanaged = 1;
    assert_false(health_same(&a, &b));
}

static void without_a_verdict_the_kubelet_is_believed(void **state)
{
    (void)state;
    static const struct {
        enum fact verdict, pod_ready, before, told;
    } rows[] = {
        {YES, NO, NO, YES},
        {NO, YES, YES, NO},
        {UNKNOWN, YES, YES, YES},
        {UNKNOWN, YES, NO, YES}, /* written before it had started, and promoted a moment ago */
        {UNKNOWN, YES, UNKNOWN, YES},
        {UNKNOWN, NO, YES, YES},
        {UNKNOWN, NO, NO, NO},
        {UNKNOWN, UNKNOWN, YES, YES},
        {UNKNOWN, NO, UNKNOWN, UNKNOWN},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(health_told(rows[i].verdict, rows[i].pod_ready, rows[i].before),
                         rows[i].told);
}

static void who_leads_is_the_word_of_those_that_answer(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct health_member members[3];
        uint64_t leads;
    } rows[] = {
        {"nobody was asked", {{0}}, 0},
        {"none of them follows anybody", {{.term = 9}}, 0},
        {"itself", {{.id = 1, .leader = 1, .term = 2}}, 1},
        {"it is slow itself", {{0}, {.id = 2, .leader = 1, .term = 2}}, 1},
        {"one that was cut off believes in the old one",
         {{.id = 1, .leader = 1, .term = 2},
          {.id = 2, .leader = 3, .term = 3},
          {.id = 3, .leader = 3, .term = 3}},
         3},
        {"the last one as well",
         {{.id = 1, .leader = 3, .term = 3}, {.id = 2, .leader = 2, .term = 2}},
         3},
        {"an election is on, and one does not know yet",
         {{.id = 1, .term = 4}, {.id = 2, .leader = 3, .term = 3}},
         3},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct health h = {.n = COUNT_OF(rows[i].members)};
        memcpy(h.members, rows[i].members, sizeof(rows[i].members));
        if (health_leader(&h) != rows[i].leads)
            fail_msg("%s: %llu", rows[i].name, (unsigned long long)health_leader(&h));
    }
}

static void a_question_is_the_same_only_in_full(void **state)
{
    (void)state;
    struct question a = ask_three(), b = question_copy(&a);
    assert_true(question_same(&a, &b));
    b.members[2].url[7] = '2'; /* a Pod came back under another address */
    assert_false(question_same(&a, &b));
    question_done(&b);
    question_done(&b);
    b = question_copy(&a);
    b.cluster_id = 8;
    assert_false(question_same(&a, &b));
    b.cluster_id = 7;
    b.members[0].peer_url[8] = 'x';
    assert_false(question_same(&a, &b));
    question_done(&a);
    question_done(&b);
}

TEST_MAIN(TEST(nobody_to_ask_is_unknown), TEST(answers_are_told_apart_by_whom_was_asked),
          TEST(without_a_list_there_is_no_quorum), TEST(a_learner_reads_nothing_and_is_well),
          TEST(a_verdict_needs_an_answer), TEST(a_moment_of_silence_proves_nothing),
          TEST(what_drifts_makes_no_difference), TEST(without_a_verdict_the_kubelet_is_believed),
          TEST(who_leads_is_the_word_of_those_that_answer),
          TEST(a_question_is_the_same_only_in_full))
