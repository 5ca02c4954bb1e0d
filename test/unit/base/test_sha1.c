/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha1.h"

#include "unit.h"

static void known_value(void **state)
{
    (void)state;
    unsigned char sum[SHA1_BYTES];
    sha1_of(STR("abc"), sum);
    const unsigned char want[SHA1_BYTES] = {0xa9, 0x99, 0x3e, 0x36, 0x47, 0x06, 0x81,
                                            0x6a, 0xba, 0x3e, 0x25, 0x71, 0x78, 0x50,
                                            0xc2, 0x6c, 0x9c, 0xd0, 0xd8, 0x9d};
    assert_memory_equal(sum, want, sizeof(want));
    sha1_of((struct str){0}, sum);
    assert_int_equal(sum[0], 0xda);
}

TEST_MAIN(TEST(known_value))
