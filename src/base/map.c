/* SPDX-License-Identifier: Apache-2.0
 * Open addressing with linear probing. Deletion shifts the following run back instead of leaving
 * tombstones, so lookups never slow down with churn. SipHash-1-3 is the hash: fast enough for
 * short keys and safe against chosen ones. */
#include "base/map.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rand.h"

struct map_slot {
    char *key; /* NULL: free slot */
    size_t key_n;
    uint64_t hash;
    void *value;
};

enum { MAP_FIRST = 8 };

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

static uint64_t hash_of(struct str key)
{
    (void)pthread_once(&seed_once, seed_init); /* cannot fail with a static control */
    uint64_t v[4] = {
        seed[0] ^ 0x736f6d6570736575ULL,
        seed[1] ^ 0x646f72616e646f6dULL,
        seed[0] ^ 0x6c7967656e657261ULL,
        seed[1] ^ 0x7465646279746573ULL,
    };
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
    v[2] ^= 0xff;
    for (int i_final = 0; i_final < 3; i_final++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* The slot that holds key, or the free slot where it belongs. Needs a free slot to end. */
static size_t find(const struct map *m, struct str key, uint64_t hash)
{
    size_t i = hash & (m->cap - 1);
    while (m->slots[i].key) {
        const struct map_slot *s = &m->slots[i];
        if (s->hash == hash && str_eq((struct str){s->key, s->key_n}, key))
            break;
        i = (i + 1) & (m->cap - 1);
    }
    return i;
}

static void grow(struct map *m)
{
    struct map bigger = {.n = m->n, .cap = m->cap > 0 ? m->cap * 2 : MAP_FIRST};
    bigger.slots = xcalloc(bigger.cap, sizeof(*bigger.slots));
    for (size_t i = 0; i < m->cap; i++) {
        const struct map_slot *s = &m->slots[i];
        if (s->key)
            bigger.slots[find(&bigger, (struct str){s->key, s->key_n}, s->hash)] = *s;
    }
    free(m->slots);
    *m = bigger;
}

void map_done(struct map *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->cap; i++)
        free(m->slots[i].key);
    free(m->slots);
    *m = (struct map){0};
}

void *map_get(const struct map *m, struct str key)
{
    if (m->n == 0)
        return NULL;
    return m->slots[find(m, key, hash_of(key))].value;
}

void *map_put(struct map *m, struct str key, void *value)
{
    assert(value);
    if ((m->n + 1) * 4 > m->cap * 3)
        grow(m);
    const uint64_t hash = hash_of(key);
    struct map_slot *s = &m->slots[find(m, key, hash)];
    void *was = s->value;
    if (!s->key) {
        *s = (struct map_slot){.key = str_dup(key), .key_n = key.n, .hash = hash};
        m->n++;
    }
    s->value = value;
    return was;
}

void *map_del(struct map *m, struct str key)
{
    if (m->n == 0)
        return NULL;
    size_t hole = find(m, key, hash_of(key));
    if (!m->slots[hole].key)
        return NULL;
    void *was = m->slots[hole].value;
    free(m->slots[hole].key);
    m->n--;

    /* Move back every follower that may not stay behind a free slot: one whose home lies at or
     * before the hole, seen cyclically. */
    const size_t mask = m->cap - 1;
    for (size_t i = (hole + 1) & mask; m->slots[i].key; i = (i + 1) & mask) {
        const size_t home = m->slots[i].hash & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (struct map_slot){0};
    return was;
}

bool map_next(const struct map *m, size_t *at, struct str *key, void **value)
{
    while (*at < m->cap) {
        const struct map_slot *s = &m->slots[(*at)++];
        if (!s->key)
            continue;
        if (key)
            *key = (struct str){s->key, s->key_n};
        if (value)
            *value = s->value;
        return true;
    }
    return false;
}
