/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/source.h"

#include "unit.h"

#define MEMBER(id, leader_, term_, applied_)                                                       \
    {                                                                                              \
        .answered = true, .member_id = (id), .leader = (leader_), .term = (term_),                 \
        .index = (applied_), .applied = (applied_)                                                 \
    }
#define LEARNER(id, leader_, term_, applied_)                                                      \
    {                                                                                              \
        .answered = true, .member_id = (id), .leader = (leader_), .term = (term_),                 \
        .index = (applied_), .applied = (applied_), .learner = true                                \
    }
#define NONE 9

static const struct {
    const char *name;
    struct etcd_witness w[3];
    size_t n;
    size_t chosen; /* NONE: none of them */
} rows[] = {
    {"of a zeroed world nothing is saved", {{0}}, 3, NONE},
    {"a single member leads itself", {MEMBER(1, 1, 5, 100)}, 1, 0},
    {"a single member without a leader", {MEMBER(1, 0, 5, 100)}, 1, NONE},
    {"a learner that is asked alone", {LEARNER(1, 2, 5, 100)}, 1, 0},
    {"a follower rather than the leader", {MEMBER(1, 1, 5, 100), MEMBER(2, 1, 5, 100)}, 2, 1},
    {"the leader if nobody else answers", {{0}, MEMBER(2, 2, 5, 100)}, 2, 1},
    {"a member without a leader is no follower",
     {MEMBER(1, 0, 5, 100), MEMBER(2, 2, 5, 100)},
     2,
     1},
    {"terms counted up alone prove nothing",
     {MEMBER(1, 0, 90, 100), MEMBER(2, 2, 5, 100), MEMBER(3, 2, 5, 100)},
     3,
     2},
    {"a follower of an older term", {MEMBER(1, 3, 4, 100), MEMBER(2, 2, 5, 100)}, 2, 1},
    {"a learner does not count", {LEARNER(1, 2, 5, 100), MEMBER(2, 2, 5, 100)}, 2, 1},
    {"learners only", {LEARNER(1, 3, 5, 100), LEARNER(2, 3, 5, 100)}, 2, NONE},
    {"a follower far behind", {MEMBER(1, 2, 5, 4999), MEMBER(2, 2, 5, 10000)}, 2, 1},
    {"a follower close behind", {MEMBER(1, 2, 5, 5000), MEMBER(2, 2, 5, 10000)}, 2, 0},
    {"the follower that has applied most",
     {MEMBER(1, 3, 5, 90), MEMBER(2, 3, 5, 91), MEMBER(3, 3, 5, 100)},
     3,
     1},
    {"the first of equals", {MEMBER(1, 3, 5, 90), MEMBER(2, 3, 5, 90), MEMBER(3, 3, 5, 100)}, 3, 0},
};

static void the_member_to_save_from_is_in_touch_and_up_to_date(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const size_t want = rows[i].chosen == NONE ? rows[i].n : rows[i].chosen;
        const size_t got = etcd_source_choose(rows[i].w, rows[i].n);
        if (got != want)
            fail_msg("%s: %zu instead of %zu", rows[i].name, got, want);
    }
}

static void what_speaks_against_a_member_is_named(void **state)
{
    (void)state;
    const struct etcd_witness w[] = {{0},
                                     MEMBER(1, 0, 5, 100000),
                                     MEMBER(2, 5, 4, 100000),
                                     LEARNER(3, 5, 5, 100000),
                                     MEMBER(4, 5, 5, 90000),
                                     MEMBER(5, 5, 5, 100000)};
    for (size_t i = 0; i < COUNT_OF(w); i++)
        assert_int_equal(etcd_source_of(w, COUNT_OF(w), i), i);
    assert_string_equal(etcd_source_name(ETCD_SOURCE_NO_LEADER), "sees no leader");
}

TEST_MAIN(TEST(the_member_to_save_from_is_in_touch_and_up_to_date),
          TEST(what_speaks_against_a_member_is_named))
