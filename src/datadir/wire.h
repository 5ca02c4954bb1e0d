/* SPDX-License-Identifier: Apache-2.0
 * Protobuf's wire format, read field by field without allocating. etcd's files hold millions of
 * small messages, and hashes over their bytes: reading must be cheap, and must notice bytes that
 * another writer would have written differently. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/str.h"

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire_field {
    uint32_t number;
    enum wire_type type;
    uint64_t value;   /* of a varint or fixed number */
    struct str bytes; /* borrowed */
};

/* What is left of a message. */
struct wire {
    const uint8_t *p, *end;
    bool bad;    /* not protobuf */
    bool clumsy; /* valid, but not as an encoder writes it: a varint longer than needed */
};

static inline struct wire wire_of(struct str message)
{
    const uint8_t *p = (const uint8_t *)message.p;
    return (struct wire){.p = p, .end = message.n > 0 ? p + message.n : p};
}

/* The next field; false at the end, or at damage (then bad is set). */
bool wire_next(struct wire *w, struct wire_field *out);

/* Whether the whole message is well-formed, whatever its fields. */
bool wire_is_message(struct str message);

/* --- Writing, in proto2's manner: zeros are written. */
void wire_put_varint(struct buf *out, uint64_t value);
void wire_put_number(struct buf *out, uint32_t number, uint64_t value);
void wire_put_bytes(struct buf *out, uint32_t number, struct str bytes);
