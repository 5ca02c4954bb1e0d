/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/message.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum {
    BLOW_UP = 64, /* an empty KeyValue is two bytes on the wire and a hundred in memory */
    UNPACKED_MAX = 256 << 20, /* whatever the size of the message */
    CHUNK_MIN = 1024,
    CHUNK_MAX = 1024 * 1024,
    ALIGN = _Alignof(max_align_t),
};

struct chunk {
    struct chunk *next;
    size_t n, cap;
    _Alignas(max_align_t) char bytes[];
};

struct arena {
    struct chunk *chunks; /* newest first */
    size_t left;          /* of the ceiling */
    size_t next_cap;
    bool over;
};

static void *take(void *arg, size_t n)
{
    struct arena *a = arg;
    n = (n + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (n > a->left) {
        a->over = true;
        return NULL;
    }
    a->left -= n;
    struct chunk *c = a->chunks;
    if (!c || c->cap - c->n < n) {
        const size_t cap = n > a->next_cap ? n : a->next_cap;
        a->next_cap = a->next_cap < CHUNK_MAX ? a->next_cap * 2 : CHUNK_MAX;
        c = xmalloc(sizeof(*c) + cap);
        *c = (struct chunk){.next = a->chunks, .cap = cap};
        a->chunks = c;
    }
    void *p = c->bytes + c->n;
    c->n += n;
    return p;
}

static void give(void *arg, void *p)
{
    (void)arg;
    (void)p; /* all at once, with the arena */
}

void arena_free(struct arena *a, bool wipe)
{
    if (!a)
        return;
    for (struct chunk *c = a->chunks; c;) {
        struct chunk *next = c->next;
        if (wipe)
            explicit_bzero(c->bytes, c->n);
        free(c);
        c = next;
    }
    free(a);
}

void *arena_alloc(struct arena *a, size_t n)
{
    void *p = take(a, n);
    if (!p)
        abort();
    return memset(p, 0, n);
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
    a->left += n * size + ALIGN; /* what we build ourselves is in proportion: not counted */
    return arena_alloc(a, n * size);
}

int message_unpack(const ProtobufCMessageDescriptor *type, struct str bytes, struct arena **own,
                   void **out, struct err *e)
{
    struct arena *a = xcalloc(1, sizeof(*a));
    const size_t fair = bytes.n * BLOW_UP + (size_t)CHUNK_MIN * 4;
    a->left = fair < UNPACKED_MAX ? fair : UNPACKED_MAX;
    a->next_cap = bytes.n * 2 < CHUNK_MIN ? CHUNK_MIN : bytes.n * 2;
    ProtobufCAllocator in_arena = {.alloc = take, .free = give, .allocator_data = a};
    void *message = protobuf_c_message_unpack(type, &in_arena, bytes.n,
                                              (const uint8_t *)(bytes.n > 0 ? bytes.p : ""));
    if (!message) {
        const bool over = a->over;
        arena_free(a, false);
        return over ? err_set(e, ERR_TOO_BIG, 0, "%s of %zu bytes unpacks to too much",
                              type->short_name, bytes.n)
                    : err_set(e, ERR_CORRUPT, 0, "%zu bytes are no %s", bytes.n, type->short_name);
    }
    *own = a;
    *out = message;
    return 0;
}

int message_pack(const void *message, struct buf *out, struct err *e)
{
    const size_t n = protobuf_c_message_get_packed_size(message);
    char *room = buf_reserve(out, n);
    if (!room)
        return buf_check(out, "request", e);
    (void)protobuf_c_message_pack(message, (uint8_t *)room);
    buf_wrote(out, n);
    return 0;
}

/* A varint, or false past the end or past ten bytes. */
static bool varint(struct str *s, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < 10 && i < s->n; i++) {
        const unsigned char b = (unsigned char)s->p[i];
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (b < 0x80) {
            *s = str_from(*s, i + 1);
            *out = v;
            return true;
        }
    }
    return false;
}

/* The next field of a message: its tag, and the number or the bytes it has. */
static bool next_field(struct str *s, uint64_t *tag, uint64_t *number, struct str *bytes)
{
    enum { VARINT, FIXED64, LENGTH, FIXED32 = 5 };
    *number = 0;
    if (!varint(s, tag))
        return false;
    switch (*tag & 7) {
    case VARINT:
        *bytes = (struct str){0};
        return varint(s, number);
    case FIXED64:
    case FIXED32:
        *number = (*tag & 7) == FIXED64 ? 8 : 4;
        break;
    case LENGTH:
        if (!varint(s, number))
            return false;
        break;
    default:
        return false;
    }
    if (*number > s->n)
        return false;
    *bytes = str_first(*s, *number);
    *s = str_from(*s, *number);
    return true;
}

/* Read by hand: unpacking every watch event twice would be a waste. The header is field 1 of
 * everything, as is cluster_id in it; nothing says that they come first. */
uint64_t message_cluster_id(struct str bytes)
{
    uint64_t tag = 0, id = 0;
    struct str header, ignored;
    while (next_field(&bytes, &tag, &id, &header))
        while (tag == (1 << 3 | 2) && header.n > 0) {
            uint64_t inner = 0;
            if (!next_field(&header, &inner, &id, &ignored))
                return 0;
            if (inner == (1 << 3 | 0))
                return id;
        }
    return 0;
}
