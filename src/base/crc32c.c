/* SPDX-License-Identifier: Apache-2.0
 * The SSE4.2 instruction takes 8 bytes in a cycle but answers after three, so three lanes of a
 * long input are summed side by side. Their sums are joined by what a lane of zeros does to a
 * checksum: that is linear, so a table per byte of it is enough. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

/* Lanes are short enough that all three lie in one page, mostly: the processor fetches ahead
 * inside a page only. */
enum { SLICES = 8, LANE_BYTES = 256, BLOCK_BYTES = 3 * LANE_BYTES, AHEAD_BYTES = 3 * BLOCK_BYTES };
static const uint32_t polynomial = 0x82F63B78;

static uint32_t table[SLICES][256];
static uint32_t lane[4][256]; /* a checksum's byte, after a lane of zeros */
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
    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t c = UINT32_C(1) << bit;
        for (int zeros = 0; zeros < LANE_BYTES; zeros++)
            c = (c >> 8) ^ table[0][c & 0xFF];
        for (uint32_t i = 0; i < 256; i++)
            lane[bit / 8][i] ^= (i >> bit % 8 & 1) ? c : 0;
    }
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

/* Checksums are polynomials over two elements, with the highest power in the lowest bit; this is
 * their product modulo the one of the checksum. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
        product ^= (a & bit) ? b : 0;
        b = (b & 1) ? (b >> 1) ^ polynomial : b >> 1;
    }
    return product;
}

/* Every byte that follows multiplies what came before by x to the eighth. */
uint32_t crc32c_join(uint32_t a, uint32_t b, uint64_t b_bytes)
{
    uint32_t power = UINT32_C(1) << 23;
    for (; b_bytes != 0; b_bytes >>= 1, power = multiply(power, power))
        if (b_bytes & 1)
            a = multiply(a, power);
    return a ^ b;
}

#if defined(__x86_64__)

static uint32_t after_lane(uint32_t c)
{
    return lane[0][c & 0xFF] ^ lane[1][c >> 8 & 0xFF] ^ lane[2][c >> 16 & 0xFF] ^ lane[3][c >> 24];
}

static uint64_t word_at(const unsigned char *p)
{
    uint64_t word = 0;
    memcpy(&word, p, sizeof(word));
    return word;
}

/* The processor foresees what is read in order, but values in a file have gaps between them. So it
 * is told, also past the end: what is summed next lies there, mostly. A hint does nothing where
 * there is no memory. */
static void fetch(uintptr_t at, size_t n)
{
    enum { LINE_BYTES = 64 };
    for (size_t i = 0; i < n; i += LINE_BYTES)
        __builtin_prefetch((const void *)(at + i));
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes,
                                                               size_t n)
{
    const unsigned char *p = bytes;
    uint64_t c = ~crc;
    if (n >= BLOCK_BYTES) {
        (void)pthread_once(&table_once, table_init); /* cannot fail with a static control */
        fetch((uintptr_t)p, AHEAD_BYTES);
    }
    for (; n >= BLOCK_BYTES; n -= BLOCK_BYTES, p += BLOCK_BYTES) {
        uint64_t second = 0, third = 0;
        fetch((uintptr_t)p + AHEAD_BYTES, BLOCK_BYTES);
        for (size_t i = 0; i < LANE_BYTES; i += 8) {
            c = __builtin_ia32_crc32di(c, word_at(p + i));
            second = __builtin_ia32_crc32di(second, word_at(p + LANE_BYTES + i));
            third = __builtin_ia32_crc32di(third, word_at(p + 2 * (size_t)LANE_BYTES + i));
        }
        c = after_lane(after_lane((uint32_t)c) ^ (uint32_t)second) ^ (uint32_t)third;
    }
    for (; n >= 8; n -= 8, p += 8)
        c = __builtin_ia32_crc32di(c, word_at(p));
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
