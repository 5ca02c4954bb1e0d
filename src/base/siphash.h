/* SPDX-License-Identifier: Apache-2.0
 * SipHash-1-3 with a random seed per process: fast for short keys, and safe against keys chosen
 * to collide. Values differ between runs and are never stored. Thread-safe. */
#pragma once
#include <stdint.h>

#include "base/str.h"

struct siphash128 {
    uint64_t low, high;
};

uint64_t siphash64(struct str key);
struct siphash128 siphash128(struct str key); /* for sets that keep the hash and not the key */
