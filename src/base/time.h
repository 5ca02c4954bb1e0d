/* SPDX-License-Identifier: Apache-2.0
 * Points in time as RFC 3339 and spans as Go writes them: the two forms Kubernetes objects and
 * flags use. Points are microseconds since 1970 UTC (a year 9999 fits), spans nanoseconds. */
#pragma once
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum {
    TIME_TEXT_MAX = 40,     /* "2026-11-15T22:57:05.123456Z" with room */
    DURATION_TEXT_MAX = 40, /* "-2562047h47m16.854775808s" with room */
};

#define DURATION_MS INT64_C(1000000)
#define DURATION_S INT64_C(1000000000)

/* "2026-11-15T22:57:05Z", fractions of a second, "+02:00" offsets. Digits past microseconds are
 * cut off. A leap second (":60") is taken as the second that follows. ERR_INVALID. */
NODISCARD int time_parse(struct str s, int64_t *out_us, struct err *e);

enum time_precision { TIME_SECONDS, TIME_MILLIS, TIME_MICROS };

/* UTC with "Z". Years 0000 to 9999; outside of them the nearest end. Returns out. */
const char *time_print(int64_t at_us, enum time_precision precision, char out[TIME_TEXT_MAX]);

/* Go's time.ParseDuration: "1h30m", "1.5s", "-100ms", "0". ERR_INVALID. */
NODISCARD int duration_parse(struct str s, int64_t *out_ns, struct err *e);

/* Go's Duration.String(): "1h30m0s", "1.5s", "100ms", "0s". Returns out. */
const char *duration_print(int64_t ns, char out[DURATION_TEXT_MAX]);
