/* SPDX-License-Identifier: Apache-2.0
 * A borrowed view of bytes, passed by value. Not NUL-terminated; may hold NUL bytes.
 * The zero value is the empty string. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/attr.h"

struct str {
    const char *p;
    size_t n;
};

#define STR(literal) ((struct str){"" literal, sizeof(literal) - 1})
/* For printf's %.*s; views in messages are short, or cut. */
#define STR_ARG(s) ((s).n > 400 ? 400 : (int)(s).n), ((s).p ? (s).p : "")

static inline struct str str_c(const char *s)
{
    return (struct str){s, s ? strlen(s) : 0};
}

static inline struct str str_from(struct str s, size_t at) /* clamps */
{
    if (!s.p)
        return (struct str){0};
    if (at > s.n)
        at = s.n;
    return (struct str){s.p + at, s.n - at};
}

static inline struct str str_first(struct str s, size_t n) /* clamps */
{
    return (struct str){s.p, n < s.n ? n : s.n};
}

bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); /* ASCII */
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
bool str_has_nocase(struct str s, struct str needle); /* ASCII */
struct str str_trim(struct str s);                    /* ASCII white space, both ends */

/* Splits at the first sep: head before it, tail behind it. Without sep: all is head, false. */
bool str_cut(struct str s, char sep, struct str *head, struct str *tail);

/* Owned, NUL-terminated copy. A NUL inside s ends the copy as C sees it. */
char *str_dup(struct str s) NONNULL;

/* Whole string, decimal, no sign for u64, no white space. False on anything else or overflow. */
NODISCARD bool str_u64(struct str s, uint64_t *out);
NODISCARD bool str_i64(struct str s, int64_t *out);

static inline bool ascii_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline bool utf8_is_continuation(char c)
{
    return ((unsigned char)c & 0xC0) == 0x80;
}

/* Length of the well-formed UTF-8 sequence s begins with (1 to 4), or 0 if there is none.
 * Over-long forms, surrogates and code points past U+10FFFF are not well-formed. */
size_t utf8_first(struct str s);
