/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include "unit.h"

static void known_values(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c_portable(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, "key", 3), 0x40A4756D); /* where every HashKV begins */
    assert_int_equal(crc32c(0, "", 0), 0);
}

static void pieces_add_up_and_both_ways_agree(void **state)
{
    (void)state;
    uint64_t seed = 42;
    unsigned char bytes[300];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)test_next(&seed);
    for (size_t n = 0; n < sizeof(bytes); n++) {
        const size_t cut = test_below(&seed, n + 1);
        const uint32_t whole = crc32c(7, bytes, n);
        assert_int_equal(whole, crc32c_portable(7, bytes, n));
        assert_int_equal(whole, crc32c(crc32c(7, bytes, cut), bytes + cut, n - cut));
    }
}

TEST_MAIN(TEST(known_values), TEST(pieces_add_up_and_both_ways_agree))
