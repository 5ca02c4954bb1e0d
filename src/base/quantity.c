/* SPDX-License-Identifier: Apache-2.0
 * A value is one 128-bit integer of billionths. The largest magnitude, just under 10^21, is 10^30
 * billionths; that leaves eight decimal digits of headroom for intermediate steps. */
#include "base/quantity.h"

#include <limits.h>
#include <stdio.h>

#define NANO ((__int128)1000000000)
#define BINARY_MAX ((__int128)INT64_MAX)
#define DECIMAL_LIMIT ((__int128)1000000000000 * 1000000000) /* 10^21, not reached */

static const char *const decimal_suffixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};
static const char binary_suffixes[] = "KMGTPE"; /* each followed by 'i' */

static int bad(struct str s, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID, 0, "\"%.*s\" is not a quantity: %s", STR_ARG(s), why);
}

struct parts {
    bool negative;
    struct str whole;    /* digits before the point */
    struct str fraction; /* digits behind it */
    struct str suffix;
};

static struct str take_digits(struct str *s)
{
    size_t n = 0;
    while (n < s->n && ascii_is_digit(s->p[n]))
        n++;
    const struct str digits = str_first(*s, n);
    *s = str_from(*s, n);
    return digits;
}

static bool split(struct str s, struct parts *out)
{
    *out = (struct parts){0};
    if (s.n > 0 && (s.p[0] == '-' || s.p[0] == '+')) {
        out->negative = s.p[0] == '-';
        s = str_from(s, 1);
    }
    out->whole = take_digits(&s);
    if (s.n > 0 && s.p[0] == '.') {
        s = str_from(s, 1);
        out->fraction = take_digits(&s);
    }
    out->suffix = s;
    return out->whole.n + out->fraction.n > 0;
}

struct scale {
    enum quantity_format format;
    int shift;    /* binary: value is multiplied by 2^shift */
    int exponent; /* decimal: by 10^exponent */
};

static bool scale_of(struct str suffix, struct scale *out)
{
    *out = (struct scale){0};
    for (size_t i = 0; i < COUNT_OF(decimal_suffixes); i++) {
        if (str_eq(suffix, str_c(decimal_suffixes[i]))) {
            out->exponent = (int)i * 3 - 9;
            return true;
        }
    }
    for (int i = 0; binary_suffixes[i]; i++) {
        if (suffix.n == 2 && suffix.p[0] == binary_suffixes[i] && suffix.p[1] == 'i') {
            *out = (struct scale){.format = QUANTITY_BINARY_SI, .shift = 10 * (i + 1)};
            return true;
        }
    }
    if (suffix.n < 2 || ascii_lower(suffix.p[0]) != 'e')
        return false;
    struct str digits = str_from(suffix, 1);
    if (digits.n > 1 && digits.p[0] == '+')
        digits = str_from(digits, 1);
    int64_t exponent = 0;
    if (digits.p[0] == '+' || !str_i64(digits, &exponent))
        return false;
    /* Far beyond any representable value either way: clamp, the range check will say so. */
    exponent = exponent > 1000 ? 1000 : exponent < -1000000 ? -1000000 : exponent;
    *out = (struct scale){.format = QUANTITY_DECIMAL_EXPONENT, .exponent = (int)exponent};
    return true;
}

static char digit_at(const struct parts *p, size_t i)
{
    return i < p->whole.n ? p->whole.p[i] : p->fraction.p[i - p->whole.n];
}

/* Billionths of "whole.fraction" * 10^exponent: move the point right by exponent + 9 places, take
 * what stands before it, and round up if anything but zeros stands behind it. */
static bool decimal_nano(const struct parts *p, int exponent, __int128 *out)
{
    const size_t digits = p->whole.n + p->fraction.n;
    const int64_t point = (int64_t)p->whole.n + exponent + 9;
    __int128 value = 0;
    bool inexact = false;
    for (size_t i = 0; i < digits; i++) {
        const int digit = digit_at(p, i) - '0';
        if ((int64_t)i >= point)
            inexact = inexact || digit != 0;
        else if ((value = value * 10 + digit) >= DECIMAL_LIMIT * NANO)
            return false;
    }
    for (int64_t i = (int64_t)digits; i < point && value > 0; i++)
        if ((value *= 10) >= DECIMAL_LIMIT * NANO)
            return false;
    *out = value + inexact;
    return true;
}

/* Billionths of "whole.fraction" * 2^shift, capped. The fraction is summed from its last digit:
 * each step divides by ten exactly, or leaves a remainder that no later step can make whole. */
static __int128 binary_nano(const struct parts *p, int shift)
{
    const __int128 unit = NANO << shift;
    __int128 whole = 0;
    for (size_t i = 0; i < p->whole.n; i++) {
        whole = whole * 10 + (p->whole.p[i] - '0');
        if (whole > BINARY_MAX)
            return BINARY_MAX * NANO;
    }
    if (whole > BINARY_MAX >> shift)
        return BINARY_MAX * NANO;

    __int128 fraction = 0;
    bool inexact = false;
    for (size_t i = p->fraction.n; i-- > 0;) {
        const __int128 sum = fraction + unit * (p->fraction.p[i] - '0');
        inexact = inexact || sum % 10 != 0;
        fraction = sum / 10;
    }
    const __int128 nano = whole * unit + fraction + inexact;
    return nano > BINARY_MAX * NANO ? BINARY_MAX * NANO : nano;
}

int quantity_parse(struct str s, struct quantity *out, struct err *e)
{
    struct parts parts;
    if (!split(s, &parts))
        return bad(s, "expected a number, such as 500m, 2Gi or 1e3", e);
    struct scale scale;
    if (!scale_of(parts.suffix, &scale))
        return bad(s, "unknown suffix (use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e3)", e);

    struct quantity q = {.format = scale.format};
    if (scale.format == QUANTITY_BINARY_SI)
        q.nano = binary_nano(&parts, scale.shift);
    else if (!decimal_nano(&parts, scale.exponent, &q.nano))
        return bad(s, "too large", e);
    if (parts.negative)
        q.nano = -q.nano;
    *out = q;
    return 0;
}

/* Writes the digits in front of end, returns where they begin. */
static char *digits_before(char *end, unsigned __int128 value)
{
    do {
        *--end = (char)('0' + (int)(value % 10));
        value /= 10;
    } while (value > 0);
    return end;
}

const char *quantity_print(const struct quantity *q, char out[QUANTITY_TEXT_MAX])
{
    const bool negative = q->nano < 0;
    unsigned __int128 value = negative ? -(unsigned __int128)q->nano : (unsigned __int128)q->nano;
    if (value == 0) {
        (void)snprintf(out, QUANTITY_TEXT_MAX, "0");
        return out;
    }

    char made[8] = ""; /* "Ki", "e-9" */
    const char *suffix = made;
    /* Small or fractional amounts read better, and stay exact, in decimal. */
    const unsigned __int128 unit = (unsigned __int128)NANO;
    if (q->format == QUANTITY_BINARY_SI && value >= 1024 * unit && value % unit == 0) {
        value /= unit;
        int step = 0;
        for (; value % 1024 == 0; step++)
            value /= 1024;
        if (step > 0)
            (void)snprintf(made, sizeof(made), "%ci", binary_suffixes[step - 1]);
    } else {
        int exponent = -9;
        for (; value % 10 == 0; exponent++)
            value /= 10;
        for (; exponent % 3 != 0; exponent--)
            value *= 10;
        if (q->format != QUANTITY_DECIMAL_EXPONENT)
            suffix = decimal_suffixes[exponent / 3 + 3];
        else if (exponent != 0)
            (void)snprintf(made, sizeof(made), "e%d", exponent);
    }
    char digits[40];
    char *end = digits + sizeof(digits) - 1;
    *end = '\0';
    (void)snprintf(out, QUANTITY_TEXT_MAX, "%s%s%s", negative ? "-" : "", digits_before(end, value),
                   suffix);
    return out;
}

int quantity_cmp(const struct quantity *a, const struct quantity *b)
{
    return (a->nano > b->nano) - (a->nano < b->nano);
}

int64_t quantity_ceil(const struct quantity *q)
{
    __int128 units = q->nano / NANO;
    if (q->nano % NANO != 0)
        units += q->nano < 0 ? -1 : 1;
    return units > INT64_MAX ? INT64_MAX : units < INT64_MIN ? INT64_MIN : (int64_t)units;
}
