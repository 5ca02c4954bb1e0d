/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/judge.h"

#include "unit.h"

#define VOTER(id, leader_, term_, reads_)                                                          \
    {                                                                                              \
        .answered = true, .member_id = (id), .leader = (leader_), .term = (term_),                 \
        .index = 100000, .applied = 100000, .reads = (reads_)                                      \
    }
#define LEARNER(id, applied_)                                                                      \
    {                                                                                              \
        .answered = true, .member_id = (id), .leader = 1, .term = 5, .learner = true,              \
        .applied = (applied_)                                                                      \
    }

static const struct {
    const char *name;
    struct etcd_witness w[5];
    size_t n, voters;
    bool quorum;
    uint64_t leader;
    size_t healthy;
    bool learners_ready;
} rows[] = {
    {"a zeroed world has no quorum", {{0}}, 3, 3, false, 0, 0, false},
    {"all well",
     {VOTER(1, 1, 5, true), VOTER(2, 1, 5, true), VOTER(3, 1, 5, true)},
     3,
     3,
     true,
     1,
     3,
     false},
    {"one down", {VOTER(1, 1, 5, true), VOTER(2, 1, 5, true)}, 3, 3, true, 1, 2, false},
    {"two down: the last one cannot read", {VOTER(1, 0, 6, false)}, 3, 3, false, 0, 0, false},
    {"answers of a minority prove nothing", {VOTER(1, 1, 5, true)}, 3, 3, false, 0, 1, false},
    {"nobody told how many there are",
     {VOTER(1, 1, 5, true), VOTER(2, 1, 5, true)},
     2,
     0,
     false,
     0,
     2,
     false},
    {"two leaders: the newer term without a majority",
     {VOTER(1, 1, 5, true), VOTER(2, 1, 5, true), VOTER(3, 3, 6, true)},
     3,
     3,
     false,
     0,
     3,
     false},
    {"the newer term with a majority",
     {VOTER(1, 1, 5, false), VOTER(2, 3, 6, true), VOTER(3, 3, 6, true)},
     3,
     3,
     true,
     3,
     2,
     false},
    {"an election is on",
     {VOTER(1, 0, 7, false), VOTER(2, 0, 7, false), VOTER(3, 0, 7, false)},
     3,
     3,
     false,
     0,
     0,
     false},
    {"learners do not count",
     {VOTER(1, 1, 5, true), LEARNER(2, 1), LEARNER(3, 1)},
     3,
     3,
     false,
     0,
     1,
     false},
    {"a learner close behind", {VOTER(1, 1, 5, true), LEARNER(2, 99500)}, 2, 1, true, 1, 1, true},
    {"a learner far behind, within nine tenths",
     {VOTER(1, 1, 5, true), LEARNER(2, 95000)},
     2,
     1,
     true,
     1,
     1,
     false},
    {"a learner that has nothing", {VOTER(1, 1, 5, true), LEARNER(2, 0)}, 2, 1, true, 1, 1, false},
    {"one learner of two is ready",
     {VOTER(1, 1, 5, true), LEARNER(2, 100000), LEARNER(3, 10)},
     3,
     1,
     true,
     1,
     1,
     false},
    {"two addresses of one voter",
     {VOTER(1, 1, 5, true), VOTER(1, 1, 5, true)},
     2,
     3,
     false,
     0,
     1,
     false},
    {"a single voter", {VOTER(1, 1, 1, true)}, 1, 1, true, 1, 1, false},
};

static void answers_together_make_a_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct etcd_verdict v = etcd_judge(rows[i].w, rows[i].n, rows[i].voters);
        if (v.quorum != rows[i].quorum || v.leader != rows[i].leader ||
            v.healthy != rows[i].healthy || v.learners_ready != rows[i].learners_ready)
            fail_msg("%s: quorum %d leader %lu healthy %zu learners %d", rows[i].name, v.quorum,
                     (unsigned long)v.leader, v.healthy, v.learners_ready);
    }
}

static void lag_is_unknown_without_leader_or_answer(void **state)
{
    (void)state;
    struct etcd_witness w[3] = {VOTER(1, 1, 5, true), VOTER(2, 1, 5, true), {0}};
    w[1].applied = 99990;
    struct etcd_verdict v = etcd_judge(w, 3, 3);
    assert_int_equal(etcd_lag(w, 3, 0, &v), 0);
    assert_int_equal(etcd_lag(w, 3, 1, &v), 10);
    assert_int_equal(etcd_lag(w, 3, 2, &v), -1);
    w[0].answered = false;
    v = etcd_judge(w, 3, 3);
    assert_int_equal(etcd_lag(w, 3, 1, &v), -1);
}

static void no_verdict_of_quorum_without_a_majority_of_reads(void **state)
{
    (void)state;
    uint64_t seed = 42;
    for (int round = 0; round < 20000; round++) {
        struct etcd_witness w[5] = {0};
        const size_t voters = 1 + test_below(&seed, 5);
        size_t reads = 0;
        for (size_t i = 0; i < voters; i++) {
            w[i] = (struct etcd_witness){
                .answered = test_below(&seed, 4) > 0,
                .member_id = i + 1,
                .leader = test_below(&seed, 3),
                .term = 1 + test_below(&seed, 2),
                .learner = test_below(&seed, 6) == 0,
                .reads = test_below(&seed, 3) > 0,
            };
            reads += w[i].answered && !w[i].learner && w[i].reads ? 1 : 0;
        }
        const struct etcd_verdict v = etcd_judge(w, voters, voters);
        if (v.quorum && (reads < voters / 2 + 1 || v.leader == 0))
            fail_msg("round %d", round);
    }
}

TEST_MAIN(TEST(answers_together_make_a_verdict), TEST(lag_is_unknown_without_leader_or_answer),
          TEST(no_verdict_of_quorum_without_a_majority_of_reads))
