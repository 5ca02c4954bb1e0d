/* SPDX-License-Identifier: Apache-2.0 */
#include "base/siphash.h"

#include <pthread.h>

#include "base/rand.h"

static uint64_t seed[2];
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void seed_init(void)
{
    rand_bytes(seed, sizeof(seed));
}

static inline uint64_t rotl(uint64_t x, int by)
{
    return (x << by) | (x >> (64 - by));
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[0] = rotl(v[0], 32);
    v[2] += v[3];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[2] = rotl(v[2], 32);
}

/* Takes the key in; what follows differs between the two widths. */
static inline void absorb(uint64_t v[4], struct str key)
{
    (void)pthread_once(&seed_once, seed_init); /* cannot fail with a static control */
    v[0] = seed[0] ^ 0x736f6d6570736575ULL;
    v[1] ^= seed[1] ^ 0x646f72616e646f6dULL;
    v[2] = seed[0] ^ 0x6c7967656e657261ULL;
    v[3] = seed[1] ^ 0x7465646279746573ULL;
    uint64_t last = (uint64_t)key.n << 56;
    size_t i = 0;
    for (; i + 8 <= key.n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, key.p + i, 8);
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    for (int shift = 0; i < key.n; i++, shift += 8)
        last |= (uint64_t)(unsigned char)key.p[i] << shift;
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
}

static inline uint64_t squeeze(uint64_t v[4])
{
    sip_round(v);
    sip_round(v);
    sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint64_t siphash64(struct str key)
{
    uint64_t v[4] = {0};
    absorb(v, key);
    v[2] ^= 0xff;
    return squeeze(v);
}

struct siphash128 siphash128(struct str key)
{
    uint64_t v[4] = {0, 0xee};
    absorb(v, key);
    v[2] ^= 0xee;
    const uint64_t low = squeeze(v);
    v[1] ^= 0xdd;
    return (struct siphash128){low, squeeze(v)};
}
