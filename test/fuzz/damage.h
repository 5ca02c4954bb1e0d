/* SPDX-License-Identifier: Apache-2.0
 * A sound database image damaged by the fuzzer, as (offset high, offset low, byte) triples. */
#pragma once
#include "../unit/image.h"
#include "bolt/layout.h"

/* The meta pages keep a right checksum whatever is done to them: it guards against chance, and
 * would keep the fuzzer out. */
static inline void fuzz_damage(struct buf *image, uint32_t page_size, const uint8_t *data,
                               size_t size)
{
    for (size_t i = 0; i + 3 <= size; i += 3) {
        const size_t at = ((size_t)data[i] << 8 | data[i + 1]) % image->n;
        image->p[at] = (char)data[i + 2];
    }
    for (size_t page = 0; page < 2; page++) {
        uint8_t *p = (uint8_t *)image->p + page * page_size;
        const struct bolt_meta m = {.page_size = page_size,
                                    .root = bolt_get64(p + 32),
                                    .freelist = bolt_get64(p + 48),
                                    .pages = bolt_get64(p + 56),
                                    .txid = bolt_get64(p + 64)};
        bolt_meta_encode(&m, page, p);
    }
}
