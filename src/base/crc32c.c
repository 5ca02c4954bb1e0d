/* SPDX-License-Identifier: Apache-2.0
 * One stream of the SSE4.2 instruction does 8 bytes in 3 cycles, which is several times what a
 * disk or a SHA-256 delivers: interleaving streams would buy nothing here. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

enum { SLICES = 8 };
static const uint32_t polynomial = 0x82F63B78;

static uint32_t table[SLICES][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_init(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = (c & 1) ? (c >> 1) ^ polynomial : c >> 1;
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int s = 1; s < SLICES; s++)
            table[s][i] = (table[s - 1][i] >> 8) ^ table[0][table[s - 1][i] & 0xFF];
}

uint32_t crc32c_portable(uint32_t crc, const void *bytes, size_t n)
{
    (void)pthread_once(&table_once, table_init); /* cannot fail with a static control */
    const unsigned char *p = bytes;
    uint32_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        const uint32_t low = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                                  (uint32_t)p[3] << 24);
        c = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
            table[4][low >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n > 0; n--, p++)
        c = (c >> 8) ^ table[0][(c ^ *p) & 0xFF];
    return ~c;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes,
                                                               size_t n)
{
    const unsigned char *p = bytes;
    uint64_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word = 0;
        memcpy(&word, p, 8);
        c = __builtin_ia32_crc32di(c, word);
    }
    for (; n > 0; n--, p++)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p);
    return ~(uint32_t)c;
}

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_sse42(crc, bytes, n);
    return crc32c_portable(crc, bytes, n);
}

#else

uint32_t crc32c(uint32_t crc, const void *bytes, size_t n)
{
    return crc32c_portable(crc, bytes, n);
}

#endif
