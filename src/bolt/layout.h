/* SPDX-License-Identifier: Apache-2.0
 * The bytes of a bbolt file (data file version 2): an array of pages, each with a 16-byte header,
 * holding a B+tree of buckets which hold B+trees of keys. All numbers are little-endian and may
 * lie at any address; docs/internals/bolt.md shows the whole of it. */
#pragma once
#include <endian.h>
#include <stdint.h>
#include <string.h>

enum {
    BOLT_BRANCH = 0x01,
    BOLT_LEAF = 0x02,
    BOLT_META = 0x04,
    BOLT_FREELIST = 0x10,

    BOLT_HEADER_BYTES = 16,  /* of a page */
    BOLT_ELEMENT_BYTES = 16, /* of a leaf or branch element */
    BOLT_BUCKET_BYTES = 16,  /* the header that is a bucket's value: root page, sequence */
    BOLT_ELEMENT_IS_BUCKET = 0x01,

    BOLT_META_BYTES = 64, /* behind the page header */
    BOLT_VERSION = 2,
    BOLT_PAGE_MIN = 1024,
    BOLT_PAGE_MAX = 16 * 1024 * 1024,
    BOLT_KEY_MAX = 32768,
    BOLT_DEPTH_MAX = 64,
    BOLT_LONG_FREELIST = 0xFFFF, /* count: the real one is the first id */
};
#define BOLT_MAGIC UINT32_C(0xED0CDAED)
#define BOLT_NO_FREELIST UINT64_MAX

static inline uint16_t bolt_get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof(v));
    return le16toh(v);
}

static inline uint32_t bolt_get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}

static inline uint64_t bolt_get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

static inline void bolt_put16(uint8_t *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof(v));
}

static inline void bolt_put32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}

static inline void bolt_put64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}
