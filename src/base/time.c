/* SPDX-License-Identifier: Apache-2.0
 * Calendar arithmetic is done here, on the proleptic Gregorian calendar in UTC, because the C
 * library's functions depend on the time zone database and on a writable struct tm. */
#include "base/time.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/buf.h"

#define US_PER_S INT64_C(1000000)
#define S_PER_DAY INT64_C(86400)

/* Days since 1970-01-01. Years are counted from March, so that the leap day is the last of its
 * year and months have a regular length: 400 years are one era of 146097 days. */
static int64_t days_of_date(int64_t year, int64_t month, int64_t day)
{
    year -= month <= 2;
    const int64_t era = (year >= 0 ? year : year - 399) / 400;
    const int64_t year_of_era = year - era * 400;
    const int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    const int64_t day_of_era =
        year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of_days(int64_t days, int64_t *year, int64_t *month, int64_t *day)
{
    days += 719468;
    const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const int64_t day_of_era = days - era * 146097;
    const int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const int64_t day_of_year =
        day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const int64_t shifted_month = (5 * day_of_year + 2) / 153;
    *day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    *month = shifted_month + (shifted_month < 10 ? 3 : -9);
    *year = year_of_era + era * 400 + (*month <= 2);
}

static int64_t days_in_month(int64_t year, int64_t month)
{
    return days_of_date(month == 12 ? year + 1 : year, month == 12 ? 1 : month + 1, 1) -
           days_of_date(year, month, 1);
}

/* Reads exactly `digits` digits off the front. */
static bool take_number(struct str *s, size_t digits, int64_t *out)
{
    uint64_t value = 0;
    if (s->n < digits || !str_u64(str_first(*s, digits), &value))
        return false;
    *out = (int64_t)value;
    *s = str_from(*s, digits);
    return true;
}

static bool take_char(struct str *s, char c)
{
    if (s->n == 0 || ascii_lower(s->p[0]) != c)
        return false;
    *s = str_from(*s, 1);
    return true;
}

static bool take_fraction_us(struct str *s, int64_t *out_us)
{
    *out_us = 0;
    if (!take_char(s, '.'))
        return true;
    if (s->n == 0 || !ascii_is_digit(s->p[0]))
        return false;
    for (int64_t unit = US_PER_S / 10; s->n > 0 && ascii_is_digit(s->p[0]); unit /= 10) {
        *out_us += unit * (s->p[0] - '0');
        *s = str_from(*s, 1);
    }
    return true;
}

static bool take_offset_s(struct str *s, int64_t *out_s)
{
    *out_s = 0;
    if (take_char(s, 'z'))
        return true;
    int64_t hours = 0, minutes = 0;
    const bool east = take_char(s, '+');
    if (!east && !take_char(s, '-'))
        return false;
    if (!take_number(s, 2, &hours) || !take_char(s, ':') || !take_number(s, 2, &minutes))
        return false;
    if (hours > 23 || minutes > 59)
        return false;
    *out_s = (hours * 3600 + minutes * 60) * (east ? 1 : -1);
    return true;
}

int time_parse(struct str s, int64_t *out_us, struct err *e)
{
    struct str at = s;
    int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    int64_t fraction_us = 0, offset_s = 0;
    const bool shaped =
        take_number(&at, 4, &year) && take_char(&at, '-') && take_number(&at, 2, &month) &&
        take_char(&at, '-') && take_number(&at, 2, &day) && take_char(&at, 't') &&
        take_number(&at, 2, &hour) && take_char(&at, ':') && take_number(&at, 2, &minute) &&
        take_char(&at, ':') && take_number(&at, 2, &second) &&
        take_fraction_us(&at, &fraction_us) && take_offset_s(&at, &offset_s) && at.n == 0;
    if (!shaped)
        return err_set(e, ERR_INVALID, 0,
                       "\"%.*s\" is not a time: expected the form 2006-01-02T15:04:05Z",
                       STR_ARG(s));
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 60)
        return err_set(e, ERR_INVALID, 0, "\"%.*s\" is not a time: no such day or hour",
                       STR_ARG(s));
    const int64_t at_s =
        days_of_date(year, month, day) * S_PER_DAY + hour * 3600 + minute * 60 + second - offset_s;
    *out_us = at_s * US_PER_S + fraction_us;
    return 0;
}

const char *time_print(int64_t at_us, enum time_precision precision, char out[TIME_TEXT_MAX])
{
    const int64_t first_us = days_of_date(0, 1, 1) * S_PER_DAY * US_PER_S;
    const int64_t last_us = days_of_date(10000, 1, 1) * S_PER_DAY * US_PER_S - 1;
    at_us = at_us < first_us ? first_us : at_us > last_us ? last_us : at_us;

    const int64_t day_us = S_PER_DAY * US_PER_S;
    const int64_t days = at_us >= 0 ? at_us / day_us : -((-at_us + day_us - 1) / day_us);
    const int64_t in_day_us = at_us - days * day_us;
    const int64_t s = in_day_us / US_PER_S;
    const int64_t us = in_day_us % US_PER_S;
    int64_t year = 0, month = 0, day = 0;
    date_of_days(days, &year, &month, &day);

    const int n =
        snprintf(out, TIME_TEXT_MAX,
                 "%04" PRId64 "-%02" PRId64 "-%02" PRId64 "T%02" PRId64 ":%02" PRId64 ":%02" PRId64,
                 year, month, day, s / 3600, s / 60 % 60, s % 60);
    char *end = out + n;
    const size_t left = TIME_TEXT_MAX - (size_t)n;
    switch (precision) {
    case TIME_SECONDS:
        (void)snprintf(end, left, "Z");
        break;
    case TIME_MILLIS:
        (void)snprintf(end, left, ".%03" PRId64 "Z", us / 1000);
        break;
    case TIME_MICROS:
        (void)snprintf(end, left, ".%06" PRId64 "Z", us);
        break;
    }
    return out;
}

/* Longest first where one unit begins like another. */
static const struct {
    struct str name;
    uint64_t ns;
} units[] = {
    {{"ns", 2}, 1},           {{"us", 2}, 1000},
    {{"\xc2\xb5s", 3}, 1000}, /* U+00B5 micro sign */
    {{"\xce\xbcs", 3}, 1000}, /* U+03BC Greek mu */
    {{"ms", 2}, 1000000},     {{"s", 1}, 1000000000},
    {{"m", 1}, 60000000000},  {{"h", 1}, 3600000000000},
};

static const uint64_t duration_limit = UINT64_C(1) << 63; /* magnitude; reached by minus only */

static int bad_duration(struct str s, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID, 0, "\"%.*s\" is not a duration: %s", STR_ARG(s), why);
}

/* Digits behind the point. Like Go, further digits are dropped once they would overflow. */
static double take_fraction(struct str *at, size_t *digits)
{
    uint64_t value = 0;
    double scale = 1;
    bool full = false;
    for (*digits = 0; at->n > 0 && ascii_is_digit(at->p[0]); ++*digits, *at = str_from(*at, 1)) {
        if (full || value > (duration_limit - 1) / 10) {
            full = true;
            continue;
        }
        const uint64_t next = value * 10 + (uint64_t)(at->p[0] - '0');
        if (next > duration_limit) {
            full = true;
            continue;
        }
        value = next;
        scale *= 10;
    }
    return (double)value / scale;
}

static int take_part(struct str s, struct str *at, uint64_t *out_ns, struct err *e)
{
    uint64_t whole = 0;
    size_t whole_digits = 0, fraction_digits = 0;
    for (; at->n > 0 && ascii_is_digit(at->p[0]); *at = str_from(*at, 1), whole_digits++)
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(at->p[0] - '0'), &whole) ||
            whole > duration_limit)
            return bad_duration(s, "too long", e);
    const double fraction = take_char(at, '.') ? take_fraction(at, &fraction_digits) : 0;
    if (whole_digits + fraction_digits == 0)
        return bad_duration(s, "expected a number with a unit, such as 1h30m or 1.5s", e);

    for (size_t i = 0; i < COUNT_OF(units); i++) {
        if (!str_starts(*at, units[i].name))
            continue;
        const struct str rest = str_from(*at, units[i].name.n);
        if (rest.n > 0 && !ascii_is_digit(rest.p[0]) && rest.p[0] != '.')
            continue;
        uint64_t ns = 0;
        if (__builtin_mul_overflow(whole, units[i].ns, &ns) || ns > duration_limit)
            return bad_duration(s, "too long", e);
        ns += (uint64_t)(fraction * (double)units[i].ns);
        if (ns > duration_limit)
            return bad_duration(s, "too long", e);
        *at = rest;
        *out_ns = ns;
        return 0;
    }
    return bad_duration(s,
                        at->n == 0 ? "the unit is missing (ns, us, ms, s, m, h)"
                                   : "unknown unit (use ns, us, ms, s, m, h)",
                        e);
}

int duration_parse(struct str s, int64_t *out_ns, struct err *e)
{
    struct str at = s;
    const bool negative = take_char(&at, '-');
    if (!negative)
        (void)take_char(&at, '+');
    if (str_eq(at, STR("0"))) {
        *out_ns = 0;
        return 0;
    }
    if (at.n == 0)
        return bad_duration(s, "empty", e);

    uint64_t total = 0;
    while (at.n > 0) {
        uint64_t part = 0;
        if (take_part(s, &at, &part, e) < 0)
            return -1;
        total += part; /* both are at most 2^63: no wrap */
        if (total > duration_limit || (total == duration_limit && part == 0))
            return bad_duration(s, "too long", e);
    }
    if (total == duration_limit && !negative)
        return bad_duration(s, "too long", e);
    *out_ns = negative ? (int64_t)(0 - total) : (int64_t)total;
    return 0;
}

/* "12.5" out of 12500 with 3 digits behind the point. */
static void add_decimal(struct buf *b, uint64_t value, int digits)
{
    uint64_t scale = 1;
    for (int i = 0; i < digits; i++)
        scale *= 10;
    buf_addf(b, "%" PRIu64, value / scale);
    uint64_t fraction = value % scale;
    if (fraction == 0)
        return;
    for (; fraction % 10 == 0; digits--)
        fraction /= 10;
    buf_addf(b, ".%0*" PRIu64, digits, fraction);
}

const char *duration_print(int64_t ns, char out[DURATION_TEXT_MAX])
{
    const uint64_t total = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    auto_buf struct buf b = BUF_INIT(DURATION_TEXT_MAX - 1);
    if (ns < 0)
        buf_add_char(&b, '-');
    if (total == 0) {
        buf_add_c(&b, "0s");
    } else if (total < 1000) {
        buf_addf(&b, "%" PRIu64 "ns", total);
    } else if (total < 1000000) {
        add_decimal(&b, total, 3);
        buf_add_c(&b, "\xc2\xb5s");
    } else if (total < 1000000000) {
        add_decimal(&b, total, 6);
        buf_add_c(&b, "ms");
    } else {
        const uint64_t minutes = total / 60000000000;
        if (minutes >= 60)
            buf_addf(&b, "%" PRIu64 "h", minutes / 60);
        if (minutes > 0)
            buf_addf(&b, "%" PRIu64 "m", minutes % 60);
        add_decimal(&b, total % 60000000000, 9);
        buf_add_char(&b, 's');
    }
    (void)snprintf(out, DURATION_TEXT_MAX, "%s", buf_cstr(&b));
    return out;
}
