/* SPDX-License-Identifier: Apache-2.0
 * A server that breaks the stream anywhere, repeats what it must and cuts responses into
 * fragments anywhere: what comes out is every event once, in order. */
#include "etcd/watch_position.h"

#include "base/attr.h"
#include "unit.h"

static void a_repeated_revision_is_dropped_and_the_next_is_not(void **state)
{
    (void)state;
    struct watch_position p = {.next = 5};
    assert_int_equal(watch_position_event(&p, 4), WATCH_DROP);
    assert_int_equal(watch_position_event(&p, 5), WATCH_DELIVER);
    assert_int_equal(watch_position_event(&p, 5), WATCH_DELIVER); /* a transaction */
    watch_position_response(&p, false);
    assert_int_equal(p.next, 6);
    assert_int_equal(watch_position_event(&p, 5), WATCH_DROP);
    assert_int_equal(watch_position_event(&p, 9), WATCH_DELIVER);
    assert_int_equal(watch_position_event(&p, 8), WATCH_DISORDER);
}

static void inside_fragments_a_broken_stream_resumes_inside_the_revision(void **state)
{
    (void)state;
    struct watch_position p = {.next = 5};
    assert_int_equal(watch_position_event(&p, 7), WATCH_DELIVER);
    assert_int_equal(watch_position_event(&p, 7), WATCH_DELIVER);
    watch_position_response(&p, true);
    assert_int_equal(p.next, 7);
    watch_position_resume(&p);
    assert_int_equal(watch_position_event(&p, 7), WATCH_DROP);
    watch_position_resume(&p); /* broken again before the rest came */
    assert_int_equal(watch_position_event(&p, 7), WATCH_DROP);
    assert_int_equal(watch_position_event(&p, 7), WATCH_DROP);
    assert_int_equal(watch_position_event(&p, 7), WATCH_DELIVER);
    watch_position_response(&p, false);
    assert_int_equal(p.next, 8);
}

static void progress_moves_forward_only(void **state)
{
    (void)state;
    struct watch_position p = {.next = 5};
    watch_position_progress(&p, 3);
    assert_int_equal(p.next, 5);
    watch_position_progress(&p, 9);
    assert_int_equal(p.next, 10);
}

enum { EVENTS = 60 };

static void nothing_is_lost_or_repeated_however_the_stream_breaks(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 5000; round++) {
        int64_t revisions[EVENTS];
        int64_t revision = 10;
        for (size_t i = 0; i < EVENTS; i++)
            revisions[i] = revision += test_below(&seed, 3) == 0 ? 0 : 1 + test_below(&seed, 2);
        struct watch_position p = {.next = 1};
        size_t delivered = 0;
        while (delivered < EVENTS) {
            watch_position_resume(&p);
            size_t at = 0;
            while (at < EVENTS && revisions[at] < p.next)
                at++;
            for (bool broken = false; at < EVENTS && !broken;) {
                const size_t end = at + 1 + test_below(&seed, 8);
                for (; at < EVENTS && at < end; at++) {
                    if (watch_position_event(&p, revisions[at]) != WATCH_DELIVER)
                        continue;
                    if (at != delivered++)
                        fail_msg("round %d: event %zu came as %zu", round, at, delivered - 1);
                }
                /* A response may end without being a fragment only between revisions. */
                const bool between = at == EVENTS || revisions[at] != revisions[at - 1];
                watch_position_response(&p, !between || test_below(&seed, 2) == 0);
                broken = test_below(&seed, 5) == 0;
            }
        }
    }
}

TEST_MAIN(TEST(a_repeated_revision_is_dropped_and_the_next_is_not),
          TEST(inside_fragments_a_broken_stream_resumes_inside_the_revision),
          TEST(progress_moves_forward_only),
          TEST(nothing_is_lost_or_repeated_however_the_stream_breaks))
