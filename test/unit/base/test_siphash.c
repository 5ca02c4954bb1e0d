/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include "unit.h"

static void the_same_key_has_the_same_hash_and_others_do_not(void **state)
{
    (void)state;
    enum { KEYS = 4000 };
    static struct siphash128 seen[KEYS];
    for (uint64_t i = 0; i < KEYS; i++) {
        char key[40];
        memset(key, 'x', sizeof(key));
        memcpy(key + i % 30, &i, sizeof(i));
        const struct str s = {key, 30 + i % 10};
        seen[i] = siphash128(s);
        const struct siphash128 again = siphash128(s);
        assert_true(again.low == seen[i].low && again.high == seen[i].high);
        assert_true(siphash64(s) == siphash64(s));
        for (uint64_t k = 0; k < i; k++)
            assert_false(seen[k].low == seen[i].low || seen[k].high == seen[i].high);
    }
}

static void the_length_counts(void **state)
{
    (void)state;
    assert_true(siphash64(((struct str){"a\0", 2})) != siphash64(STR("a")));
    assert_true(siphash64((struct str){0}) == siphash64(STR("")));
}

TEST_MAIN(TEST(the_same_key_has_the_same_hash_and_others_do_not), TEST(the_length_counts))
