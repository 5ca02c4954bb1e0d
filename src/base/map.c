/* SPDX-License-Identifier: Apache-2.0
 * Open addressing with linear probing. Deletion shifts the following run back instead of leaving
 * tombstones, so lookups never slow down with churn. SipHash-1-3 is the hash: fast enough for
 * short keys and safe against chosen ones. */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/siphash.h"

struct map_slot {
    char *key; /* NULL: free slot */
    size_t key_n;
    uint64_t hash;
    void *value;
};

enum { MAP_FIRST = 8 };

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
    return m->slots[find(m, key, siphash64(key))].value;
}

void *map_put(struct map *m, struct str key, void *value)
{
    assert(value);
    if ((m->n + 1) * 4 > m->cap * 3)
        grow(m);
    const uint64_t hash = siphash64(key);
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
    size_t hole = find(m, key, siphash64(key));
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
