/* SPDX-License-Identifier: Apache-2.0
 * Room on disk for what would grow with the database if it were memory: an unnamed file in
 * TMPDIR (default /tmp) that vanishes with the process. Where that cannot be used, as in a
 * container whose root is read-only, it lies beside the file that is worked on. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

/* A descriptor the caller closes, of a file with room for n bytes, or -1: ERR_IO · ERR_DENIED ·
 * ERR_NOT_FOUND. `beside` is the path of the file that is worked on. */
NODISCARD int scratch_open(const char *beside, size_t n, struct err *e);

/* Zeroed memory of any size: small ones from the heap, large ones backed by a scratch file. */
struct scratch {
    void *p;
    size_t n;
    int fd; /* -1: on the heap */
};

NODISCARD int scratch_init(struct scratch *s, size_t n, const char *beside, struct err *e);
void scratch_done(struct scratch *s); /* idempotent on a zeroed or initialised struct */
