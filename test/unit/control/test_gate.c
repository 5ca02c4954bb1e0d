/* SPDX-License-Identifier: Apache-2.0
 * Nobody is removed unless the voters that remain hold quorum and know whom they follow. */
#include "control/cluster/gate.h"

#include "control/cluster/decide.h"
#include "control/cluster/health.h"
#include "unit.h"
#include "worlds.h"

static const struct {
    const char *name;
    struct observed seen; /* the target is its first member */
    const char *reason;   /* NULL: it may go */
} rows[] = {
    {"one of three, two answer", FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b"), VOTER("c"))), NULL},
    {"one of three, one answers",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b"), VOTER("c", .healthy = UNKNOWN))),
     "WaitingForQuorum"},
    {"what the target says of itself does not count",
     FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b", .healthy = NO), VOTER("c", .healthy = NO))),
     "WaitingForQuorum"},
    {"one of five, three answer",
     FORMED(5, MEMBERS(5, VOTER("a", .healthy = NO), VOTER("b"), VOTER("c"), VOTER("d"),
                       VOTER("e", .healthy = NO))),
     NULL},
    {"one of four, two answer",
     FORMED(4, MEMBERS(4, VOTER("a"), VOTER("b"), VOTER("c"), VOTER("d", .healthy = NO))), NULL},
    {"one of four, one answers",
     FORMED(4, MEMBERS(4, VOTER("a"), VOTER("b"), VOTER("c", .healthy = NO),
                       VOTER("d", .healthy = NO))),
     "WaitingForQuorum"},
    {"one of two", FORMED(2, MEMBERS(2, VOTER("a"), VOTER("b"))), NULL},
    {"the last one", FORMED(1, MEMBERS(1, VOTER("a"))), "WaitingForQuorum"},
    {"a learner, beside voters that hold quorum",
     FORMED(1, MEMBERS(2, VOTER("a", .learner = true), VOTER("b"))), NULL},
    {"a learner, beside voters that do not",
     FORMED(2, MEMBERS(3, VOTER("a", .learner = true), VOTER("b"), VOTER("c", .healthy = NO))),
     "WaitingForQuorum"},
    {"a learner that answers is no voter",
     FORMED(3, MEMBERS(4, VOTER("a"), VOTER("b"), VOTER("c", .healthy = NO),
                       VOTER("d", .learner = true))),
     "WaitingForQuorum"},
    {"a member nobody manages may vote and is not asked",
     FORMED(3, .unmanaged = 2, MEMBERS(3, VOTER("a"), VOTER("b"), VOTER("c"))), "WaitingForQuorum"},
    {"without a linearizable read",
     FORMED(3, .quorum = NO, MEMBERS(3, VOTER("a"), VOTER("b"), VOTER("c"))), "QuorumLost"},
    {"of unknown standing",
     FORMED(3, MEMBERS(3, VOTER("a", .listed = UNKNOWN), VOTER("b"), VOTER("c"))), "QuorumLost"},
};

static struct health agreed(size_t n)
{
    struct health h = {.n = n};
    for (size_t i = 0; i < n; i++)
        h.members[i] = (struct health_member){.leader = 7, .term = 3};
    return h;
}

static void each_rule_refuses_or_lets_go(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct health h = agreed(rows[i].seen.n_members);
        const struct tally t = gate_count(&rows[i].seen, &h, 0);
        char text[GATE_TEXT_MAX];
        const char *reason = gate_refusal(&rows[i].seen, &t, 0, text);
        if (!reason != !rows[i].reason || (reason && strcmp(reason, rows[i].reason) != 0))
            fail_msg("%s: %s", rows[i].name, reason ? reason : "may go");
    }
}

static void who_follows_different_leaders_or_terms_disagrees(void **state)
{
    (void)state;
    const struct observed three = FORMED(3, MEMBERS(3, VOTER("a"), VOTER("b"), VOTER("c")));
    struct health h = agreed(3);
    h.members[0].leader = 8; /* the target's own opinion is not asked for */
    assert_false(gate_count(&three, &h, 0).disagree);
    h.members[2].leader = 8;
    assert_true(gate_count(&three, &h, 0).disagree);
    h.members[2].leader = 7;
    h.members[2].term = 4;
    assert_true(gate_count(&three, &h, 0).disagree);
    char text[GATE_TEXT_MAX];
    const struct tally t = gate_count(&three, &h, 0);
    assert_string_equal(gate_refusal(&three, &t, 0, text), "LeaderChanging");
}

static void the_successor_is_a_healthy_voter_other_than_the_target(void **state)
{
    (void)state;
    const struct observed s =
        FORMED(3, MEMBERS(4, VOTER("a"), VOTER("b"), VOTER("c", .healthy = NO),
                          VOTER("d", .learner = true)));
    const struct health h = agreed(4);
    assert_int_equal(gate_count(&s, &h, 0).successor, 1);
    assert_int_equal(gate_count(&s, &h, 1).successor, 0);
    const struct observed alone = FORMED(1, MEMBERS(1, VOTER("a")));
    assert_int_equal(gate_count(&alone, &h, 0).successor, PLAN_NO_MEMBER);
}

TEST_MAIN(TEST(each_rule_refuses_or_lets_go),
          TEST(who_follows_different_leaders_or_terms_disagrees),
          TEST(the_successor_is_a_healthy_voter_other_than_the_target))
