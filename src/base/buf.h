/* SPDX-License-Identifier: Apache-2.0
 * A growing byte buffer with a ceiling, always NUL-terminated.
 *
 * Appending past the ceiling fails and *sticks*: every later append fails too, so that a chain
 * of appends needs one check at its end. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct buf {
    char *p;    /* NULL until the first append */
    size_t n;   /* bytes in use, without the NUL */
    size_t cap; /* bytes allocated */
    size_t max; /* n never exceeds this */
    bool over;  /* an append was refused */
};

#define BUF_INIT(max_bytes) ((struct buf){.max = (max_bytes)})
#define auto_buf AUTO(buf_done)

void buf_done(struct buf *b); /* NULL-safe, idempotent */
/* buf_done() for secrets: the bytes are overwritten first. Growth leaves no copy behind either
 * if the buffer was reserved at once; see buf_reserve(). */
void buf_wipe(struct buf *b);
void buf_reset(struct buf *b); /* empty again; keeps its memory and its ceiling */
void buf_trim_to(struct buf *b, size_t n);

/* All return false when the ceiling is (or was) reached, with nothing of this piece added. */
bool buf_add(struct buf *b, const void *bytes, size_t n);
bool buf_add_c(struct buf *b, const char *s);
bool buf_add_str(struct buf *b, struct str s);
bool buf_add_char(struct buf *b, char c);
bool buf_addf(struct buf *b, const char *fmt, ...) FORMAT(2, 3);

/* Room for n more bytes behind the end, for a caller that fills it itself and then says how many
 * it wrote. NULL when the ceiling would be passed. */
NODISCARD char *buf_reserve(struct buf *b, size_t n);
void buf_wrote(struct buf *b, size_t n);

/* 0, or ERR_TOO_BIG naming what was being built and the ceiling. */
NODISCARD int buf_check(const struct buf *b, const char *what, struct err *e);

static inline struct str buf_str(const struct buf *b) /* borrowed until the next change */
{
    return (struct str){b->p, b->n};
}

static inline const char *buf_cstr(const struct buf *b) /* never NULL; borrowed likewise */
{
    return b->p ? b->p : "";
}

/* Hands the bytes over as an owned C string, never NULL, and leaves an empty buffer. */
char *buf_take(struct buf *b) NONNULL;
