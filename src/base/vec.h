/* SPDX-License-Identifier: Apache-2.0
 * Typed growing arrays: `VEC(struct etcd_member) members = {0};`, elements in members.v[i],
 * their number in members.n. Growth aborts on OOM, so a vector filled from outside needs its
 * own ceiling at the caller. */
#pragma once
#include <stddef.h>

#include "base/mem.h"

#define VEC(type)                                                                                  \
    struct {                                                                                       \
        type *v;                                                                                   \
        size_t n, cap;                                                                             \
    }

#define vec_push(vec, ...)                                                                         \
    do {                                                                                           \
        __typeof__(vec) vec_ = (vec);                                                              \
        if (vec_->n == vec_->cap) {                                                                \
            vec_->cap = vec_->cap > 0 ? vec_->cap + vec_->cap / 2 : 4;                             \
            vec_->v = xrealloc_array(vec_->v, vec_->cap, sizeof(*vec_->v));                        \
        }                                                                                          \
        vec_->v[vec_->n++] = (__VA_ARGS__);                                                        \
    } while (0)

/* Releases the array, not what its elements own. */
#define vec_done(vec)                                                                              \
    do {                                                                                           \
        __typeof__(vec) vec_ = (vec);                                                              \
        free(vec_->v);                                                                             \
        vec_->v = NULL;                                                                            \
        vec_->n = vec_->cap = 0;                                                                   \
    } while (0)
