/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/condition.h"

#include "base/mem.h"
#include "unit.h"

enum { T = 1000000 };

static void the_transition_time_moves_with_the_status_alone(void **state)
{
    (void)state;
    json_auto_t *all = json_array();
    struct condition c = {.type = "Ready", .status = "False", .reason = "Starting", .message = "a"};
    assert_true(condition_set(all, &c, 10LL * T));
    assert_string_equal(jstr(all, "0.lastTransitionTime", ""), "1970-01-01T00:00:10Z");
    assert_false(condition_set(all, &c, 20LL * T));

    c.reason = "Waiting";
    c.message = "b";
    c.generation = 3;
    assert_true(condition_set(all, &c, 30LL * T));
    assert_string_equal(jstr(all, "0.lastTransitionTime", ""), "1970-01-01T00:00:10Z");
    assert_int_equal(jint(all, "0.observedGeneration", 0), 3);

    c.status = "True";
    assert_true(condition_set(all, &c, 40LL * T));
    assert_string_equal(jstr(all, "0.lastTransitionTime", ""), "1970-01-01T00:00:40Z");
    assert_true(condition_is_true(all, "Ready"));
    assert_int_equal(json_array_size(all), 1);
}

static void others_stay_as_they_are(void **state)
{
    (void)state;
    json_auto_t *all = JARR(JOBJ(J("type", js("Other")), J("strange", ji(1))));
    const struct condition c = {.type = "Ready", .status = "Unknown", .reason = "X"};
    assert_true(condition_set(all, &c, 0));
    assert_int_equal(jint(all, "0.strange", 0), 1);
    assert_null(condition_get(all, "Absent"));
    assert_false(condition_is_true(all, "Ready"));
}

static void a_long_message_is_cut_at_a_character(void **state)
{
    (void)state;
    json_auto_t *all = json_array();
    char *text = xmalloc(40001);
    for (size_t i = 0; i < 40000; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    text[40000] = '\0';
    text[0] = 'a';
    text[1] = 'a'; /* so that the limit falls inside of a character or not */
    const struct condition c = {.type = "R", .status = "True", .reason = "X", .message = text + 1};
    assert_true(condition_set(all, &c, 0));
    const json_t *message = jget(all, "0.message");
    assert_int_equal(json_string_length(message), CONDITION_MESSAGE_MAX - 1);
    free(text);
}

static void alike_is_what_says_the_same_in_other_words(void **state)
{
    (void)state;
    json_auto_t *a = JARR(), *b = JARR();
    struct condition c = {.type = "Ready", .status = "True", .reason = "X", .message = "one"};
    assert_true(conditions_alike(a, b));
    assert_true(conditions_alike(NULL, b));
    (void)condition_set(a, &c, 0);
    assert_false(conditions_alike(a, b));
    c.message = "two";
    (void)condition_set(b, &c, 5000000);
    assert_true(conditions_alike(a, b));
    c.reason = "Y";
    (void)condition_set(b, &c, 0);
    assert_false(conditions_alike(a, b));
    c.reason = "X";
    c.status = "False";
    (void)condition_set(b, &c, 0);
    assert_false(conditions_alike(a, b));
    c.type = "Other";
    (void)condition_set(a, &c, 0);
    assert_false(conditions_alike(a, b));
}

TEST_MAIN(TEST(the_transition_time_moves_with_the_status_alone), TEST(others_stay_as_they_are),
          TEST(a_long_message_is_cut_at_a_character),
          TEST(alike_is_what_says_the_same_in_other_words))
