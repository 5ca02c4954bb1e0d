/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/wire.h"

#include <endian.h>
#include <string.h>

enum { VARINT_MAX_BYTES = 10 };

static bool varint(struct wire *w, uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_MAX_BYTES && w->p < w->end; i++) {
        const uint8_t byte = *w->p++;
        v |= (uint64_t)(byte & 0x7F) << (7 * i);
        if (byte & 0x80)
            continue;
        if (i == VARINT_MAX_BYTES - 1 && byte > 1)
            break; /* more than 64 bits */
        if (i > 0 && byte == 0)
            w->clumsy = true;
        *out = v;
        return true;
    }
    w->bad = true;
    return false;
}

static bool fixed(struct wire *w, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    if ((size_t)(w->end - w->p) < n) {
        w->bad = true;
        return false;
    }
    memcpy(&v, w->p, n);
    w->p += n;
    *out = le64toh(v);
    return true;
}

static bool counted(struct wire *w, struct str *out)
{
    uint64_t n = 0;
    if (!varint(w, &n))
        return false;
    if (n > (uint64_t)(w->end - w->p)) {
        w->bad = true;
        return false;
    }
    *out = (struct str){(const char *)w->p, (size_t)n};
    w->p += n;
    return true;
}

bool wire_next(struct wire *w, struct wire_field *out)
{
    if (w->bad || w->p >= w->end)
        return false;
    uint64_t tag = 0;
    if (!varint(w, &tag))
        return false;
    *out = (struct wire_field){.number = (uint32_t)(tag >> 3), .type = (enum wire_type)(tag & 7)};
    if (tag >> 3 == 0 || tag >> 3 > 0x1FFFFFFF) {
        w->bad = true;
        return false;
    }
    switch (out->type) {
    case WIRE_VARINT:
        return varint(w, &out->value);
    case WIRE_FIXED64:
        return fixed(w, 8, &out->value);
    case WIRE_FIXED32:
        return fixed(w, 4, &out->value);
    case WIRE_BYTES:
        return counted(w, &out->bytes);
    }
    w->bad = true; /* groups: nobody writes them */
    return false;
}

bool wire_is_message(struct str message)
{
    struct wire w = wire_of(message);
    struct wire_field f;
    while (wire_next(&w, &f))
        ;
    return !w.bad;
}

void wire_put_varint(struct buf *out, uint64_t value)
{
    for (; value > 0x7F; value >>= 7)
        buf_add_char(out, (char)(uint8_t)(value | 0x80));
    buf_add_char(out, (char)value);
}

void wire_put_number(struct buf *out, uint32_t number, uint64_t value)
{
    wire_put_varint(out, (uint64_t)number << 3 | WIRE_VARINT);
    wire_put_varint(out, value);
}

void wire_put_bytes(struct buf *out, uint32_t number, struct str bytes)
{
    wire_put_varint(out, (uint64_t)number << 3 | WIRE_BYTES);
    wire_put_varint(out, bytes.n);
    buf_add_str(out, bytes);
}
