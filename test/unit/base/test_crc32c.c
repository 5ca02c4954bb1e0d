/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c.h"

#include "base/attr.h"
#include "base/mem.h"
#include "unit.h"

static void known_values(void **state)
{
    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c_portable(0, "123456789", 9), 0xE3069283);
    assert_int_equal(crc32c(0, "key", 3), 0x40A4756D); /* where every HashKV begins */
    assert_int_equal(crc32c(0, "", 0), 0);
}

/* n bytes that follow from the seed; to be freed. */
static unsigned char *random_bytes(uint64_t *seed, size_t n)
{
    unsigned char *bytes = xmalloc(n);
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)test_next(seed);
    return bytes;
}

static void pieces_add_up_and_both_ways_agree(void **state)
{
    (void)state;
    enum { BYTES = 300 };
    uint64_t seed = 42;
    auto_free unsigned char *bytes = random_bytes(&seed, BYTES);
    for (size_t n = 0; n < BYTES; n++) {
        const size_t cut = test_below(&seed, n + 1);
        const uint32_t whole = crc32c(7, bytes, n);
        assert_int_equal(whole, crc32c_portable(7, bytes, n));
        assert_int_equal(whole, crc32c(crc32c(7, bytes, cut), bytes + cut, n - cut));
    }
}

static void checksums_join_as_if_computed_in_one_go(void **state)
{
    (void)state;
    enum { BYTES = 70000 };
    uint64_t seed = 44;
    auto_free unsigned char *bytes = random_bytes(&seed, BYTES);
    for (int round = 0; round < 500; round++) {
        const size_t n = test_below(&seed, round < 100 ? 10 : BYTES),
                     cut = test_below(&seed, n + 1);
        const uint32_t a = crc32c(0, bytes, cut), b = crc32c(0, bytes + cut, n - cut);
        assert_int_equal(crc32c_join(a, b, n - cut), crc32c(0, bytes, n));
    }
    assert_int_equal(crc32c_join(7, 0, 0), 7);
}

/* Long enough for lanes side by side, at every distance from a whole number of them. */
static void long_inputs_agree_too(void **state)
{
    (void)state;
    enum { BYTES = 7000 };
    uint64_t seed = 43;
    auto_free unsigned char *bytes = random_bytes(&seed, BYTES);
    for (size_t n = 3000; n < BYTES; n++)
        assert_int_equal(crc32c(7, bytes, n), crc32c_portable(7, bytes, n));
    for (size_t skipped = 0; skipped < 16; skipped++)
        assert_int_equal(crc32c(7, bytes + skipped, BYTES - skipped),
                         crc32c_portable(7, bytes + skipped, BYTES - skipped));
}

TEST_MAIN(TEST(known_values), TEST(pieces_add_up_and_both_ways_agree),
          TEST(checksums_join_as_if_computed_in_one_go), TEST(long_inputs_agree_too))
