/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <stdio.h>

#include "unit.h"

static int values[64];

static void keys_are_bytes_and_are_copied(void **state)
{
    (void)state;
    AUTO(map_done) struct map m = {0};
    assert_null(map_get(&m, STR("a")));
    assert_null(map_del(&m, STR("a")));
    char key[] = "a\0b";
    assert_null(map_put(&m, (struct str){key, 3}, &values[1]));
    key[2] = 'X';
    assert_ptr_equal(map_get(&m, STR("a\0b")), &values[1]);
    assert_null(map_get(&m, STR("a")));
    assert_ptr_equal(map_put(&m, STR("a\0b"), &values[2]), &values[1]);
    assert_int_equal(m.n, 1);
    assert_null(map_put(&m, (struct str){0}, &values[3])); /* the empty key is a key */
    assert_ptr_equal(map_get(&m, STR("")), &values[3]);
}

/* Against a plain array, with enough churn that deletion has to close every kind of gap. */
static void it_agrees_with_an_array_under_random_churn(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t rnd = seed;
        AUTO(map_done) struct map m = {0};
        void *model[COUNT_OF(values)] = {0};
        size_t held = 0;
        for (int step = 0; step < 2000; step++) {
            const size_t i = test_below(&rnd, COUNT_OF(values));
            char text[16];
            (void)snprintf(text, sizeof(text), "key-%zu", i);
            const struct str key = str_c(text);
            void *was = model[i];
            if (test_below(&rnd, 100) < 50) {
                if (map_put(&m, key, &values[step % 64]) != was)
                    fail_msg("seed %lu step %d: put", (unsigned long)seed, step);
                model[i] = &values[step % 64];
                held += was == NULL;
            } else {
                if (map_del(&m, key) != was)
                    fail_msg("seed %lu step %d: del", (unsigned long)seed, step);
                model[i] = NULL;
                held -= was != NULL;
            }
            assert_int_equal(m.n, held);
        }
        for (size_t i = 0; i < COUNT_OF(values); i++) {
            char text[16];
            (void)snprintf(text, sizeof(text), "key-%zu", i);
            assert_ptr_equal(map_get(&m, str_c(text)), model[i]);
        }
    }
}

static void a_walk_sees_each_key_once(void **state)
{
    (void)state;
    AUTO(map_done) struct map m = {0};
    bool seen[COUNT_OF(values)] = {0};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char text[16];
        (void)snprintf(text, sizeof(text), "%zu", i);
        map_put(&m, str_c(text), &values[i]);
    }
    struct str key;
    void *value = NULL;
    size_t n = 0;
    for (size_t at = 0; map_next(&m, &at, &key, &value); n++) {
        uint64_t i = 0;
        assert_true(str_u64(key, &i) && i < COUNT_OF(values));
        assert_ptr_equal(value, &values[i]);
        assert_false(seen[i]);
        seen[i] = true;
    }
    assert_int_equal(n, COUNT_OF(values));
}

TEST_MAIN(TEST(keys_are_bytes_and_are_copied), TEST(it_agrees_with_an_array_under_random_churn),
          TEST(a_walk_sees_each_key_once))
