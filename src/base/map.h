/* SPDX-License-Identifier: Apache-2.0
 * Hash map from byte strings to pointers. Keys are copied in; values are the caller's. The hash
 * is keyed with a random seed per process, so keys chosen by an attacker do not collide on
 * purpose. Not thread-safe. The zero value is an empty map. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/str.h"

struct map_slot;

struct map {
    struct map_slot *slots;
    size_t n;   /* keys held */
    size_t cap; /* slots, a power of two, at most 3/4 used */
};

void map_done(struct map *m); /* frees keys and slots, not values; NULL-safe, idempotent */

void *map_get(const struct map *m, struct str key); /* NULL: not there */

/* Returns the value that was there before, or NULL. The new value must not be NULL. */
void *map_put(struct map *m, struct str key, void *value);

/* Returns the removed value, or NULL if there was none. */
void *map_del(struct map *m, struct str key);

/* Walk in no particular order: `for (size_t at = 0; map_next(&m, &at, &key, &value);)`.
 * The map must not change during the walk. key and value may be NULL. */
bool map_next(const struct map *m, size_t *at, struct str *key, void **value);
