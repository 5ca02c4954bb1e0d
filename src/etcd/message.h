/* SPDX-License-Identifier: Apache-2.0
 * Packing and unpacking, inside etcd/ only: this header shows protobuf-c.
 *
 * A response is unpacked into an arena with a ceiling: a few bytes on the wire can ask for a
 * large struct, and the other side must not choose how much memory that costs us. Results that
 * are handed out keep the arena as an opaque `void *own` and point into it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "proto/etcd.pb-c.h"

struct arena;

/* NULL-safe. wipe: it held a secret. */
void arena_free(struct arena *a, bool wipe);
void *arena_alloc(struct arena *a, size_t n) NONNULL; /* zeroed; aborts past the ceiling */
void *arena_array(struct arena *a, size_t n, size_t size) NONNULL;

static inline void arena_free_auto(struct arena **a)
{
    arena_free(*a, false);
}

/* ERR_CORRUPT: not this message · ERR_TOO_BIG: it would unpack to far more than it is. The
 * message lives in the arena; nothing points into bytes. */
NODISCARD int message_unpack(const ProtobufCMessageDescriptor *type, struct str bytes,
                             struct arena **own, void **out, struct err *e);
NODISCARD int message_pack(const void *message, struct buf *out, struct err *e);

/* cluster_id of a response's header, wherever it stands; 0 when it has none. */
uint64_t message_cluster_id(struct str bytes);

static inline struct str str_of_bytes(ProtobufCBinaryData b)
{
    return (struct str){(const char *)b.data, b.len};
}

static inline ProtobufCBinaryData bytes_of_str(struct str s)
{
    return (ProtobufCBinaryData){.len = s.n, .data = (uint8_t *)s.p}; /* packing only reads */
}
