/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include "base/mem.h"

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_eq_nocase(struct str a, struct str b)
{
    if (a.n != b.n)
        return false;
    for (size_t i = 0; i < a.n; i++)
        if (ascii_lower(a.p[i]) != ascii_lower(b.p[i]))
            return false;
    return true;
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq(str_first(s, prefix.n), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return s.n >= suffix.n && str_eq(str_from(s, s.n - suffix.n), suffix);
}

bool str_has_nocase(struct str s, struct str needle)
{
    for (size_t i = 0; i + needle.n <= s.n; i++)
        if (str_eq_nocase((struct str){s.p + i, needle.n}, needle))
            return true;
    return needle.n == 0;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct str str_trim(struct str s)
{
    while (s.n > 0 && is_space(s.p[0]))
        s = str_from(s, 1);
    while (s.n > 0 && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

bool str_cut(struct str s, char sep, struct str *head, struct str *tail)
{
    const char *at = s.n > 0 ? memchr(s.p, sep, s.n) : NULL;
    if (!at) {
        *head = s;
        *tail = str_from(s, s.n);
        return false;
    }
    const size_t i = (size_t)(at - s.p);
    *head = str_first(s, i);
    *tail = str_from(s, i + 1);
    return true;
}

char *str_dup(struct str s)
{
    char *copy = xmalloc(s.n + 1);
    if (s.n > 0)
        memcpy(copy, s.p, s.n);
    copy[s.n] = '\0';
    return copy;
}

bool str_u64(struct str s, uint64_t *out)
{
    if (s.n == 0)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (!ascii_is_digit(s.p[i]))
            return false;
        const uint64_t digit = (uint64_t)(s.p[i] - '0');
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = value;
    return true;
}

bool str_i64(struct str s, int64_t *out)
{
    const bool negative = s.n > 0 && s.p[0] == '-';
    uint64_t magnitude = 0;
    if (!str_u64(negative ? str_from(s, 1) : s, &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

size_t utf8_first(struct str s)
{
    if (s.n == 0)
        return 0;
    const unsigned char *u = (const unsigned char *)s.p;
    if (u[0] < 0x80)
        return 1;

    size_t n = 0;
    unsigned char low = 0x80, high = 0xBF; /* bounds of the second byte, see Unicode table 3-7 */
    if (u[0] >= 0xC2 && u[0] <= 0xDF) {
        n = 2;
    } else if (u[0] >= 0xE0 && u[0] <= 0xEF) {
        n = 3;
        if (u[0] == 0xE0)
            low = 0xA0;
        if (u[0] == 0xED)
            high = 0x9F;
    } else if (u[0] >= 0xF0 && u[0] <= 0xF4) {
        n = 4;
        if (u[0] == 0xF0)
            low = 0x90;
        if (u[0] == 0xF4)
            high = 0x8F;
    }
    if (n == 0 || s.n < n || u[1] < low || u[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++)
        if (!utf8_is_continuation(s.p[i]))
            return 0;
    return n;
}
