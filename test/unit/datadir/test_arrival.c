/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/arrival.h"

#include "unit.h"

enum { REST = 1000000, STEP = 1000 };

static void what_is_there_is_not_waited_for(void **state)
{
    (void)state;
    static const struct {
        uint64_t offset, bytes;
        bool there;
    } rows[] = {
        {0, 1, true},         {0, STEP, true},      {STEP - 1, 1, true},  {STEP, 1, false},
        {0, STEP + 1, false}, {STEP - 1, 2, false}, {REST - 1, 1, false}, {REST - 1, 2, false},
        {REST, 1, true},      {REST + 5, 9, true},  {0, REST + 1, false},
    };
    struct arrival a;
    arrival_init(&a, STEP, REST);
    arrival_give_up(&a); /* nobody moves it: waiting would be for ever */
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        const int rc = a.bolt.await(a.bolt.arg, rows[i].offset, rows[i].bytes, &e);
        if ((rc == 0) != rows[i].there || (rc < 0 && e.code != ERR_CANCELED))
            fail_msg("%llu + %llu: %d \"%s\"", (unsigned long long)rows[i].offset,
                     (unsigned long long)rows[i].bytes, rc, e.text);
    }
    struct err e = {0};
    arrival_move(&a, REST);
    assert_ok(a.bolt.await(a.bolt.arg, 0, REST + 1, &e)); /* given up or not: it is there */
    arrival_done(&a);
}

struct writer {
    struct arrival *arrival;
    uint64_t written, until; /* the first is read only where the arrival says so */
};

static void write_steps(void *arg)
{
    struct writer *w = arg;
    while (w->written < w->until) {
        w->written += STEP;
        arrival_move(w->arrival, w->written);
    }
    arrival_give_up(w->arrival);
}

static void a_reader_goes_as_far_as_the_writer(void **state)
{
    (void)state;
    static const uint64_t ends[] = {REST, REST / 2, 0};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        struct err e = {0};
        struct arrival a;
        struct thread thread = {0};
        struct writer w = {&a, 0, ends[i]};
        arrival_init(&a, 0, REST);
        assert_ok(thread_start(&thread, "writer", write_steps, &w, &e));
        uint64_t at = 0;
        while (at < REST && a.bolt.await(a.bolt.arg, at, 7, &e) == 0) {
            assert_true(atomic_load(&a.at) >= (at + 7 < REST ? at + 7 : REST));
            at += 7;
        }
        thread_join(&thread);
        assert_int_equal(at, (ends[i] + (ends[i] == REST ? 6 : 0)) / 7 * 7);
        if (ends[i] < REST)
            assert_err(a.bolt.await(a.bolt.arg, at, 7, &e), ERR_CANCELED, "not written to its end");
        arrival_done(&a);
    }
}

TEST_MAIN(TEST(what_is_there_is_not_waited_for), TEST(a_reader_goes_as_far_as_the_writer))
