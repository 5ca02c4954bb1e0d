/* SPDX-License-Identifier: Apache-2.0
 * Kubernetes quantities ("1536Mi", "250m", "1e3"), exact.
 *
 * Agrees with the API server: precision down to 1n, more precise values are rounded away from
 * zero; binary-suffixed values are capped at 2^63-1. Two things it accepts are refused here: a
 * text without digits ("Ki" is zero to it; the CRD pattern refuses it too), and magnitudes of
 * 10^21 and more, for which it prints a wrong canonical form. */
#pragma once
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum quantity_format {
    QUANTITY_DECIMAL_SI,       /* n u m "" k M G T P E */
    QUANTITY_BINARY_SI,        /* Ki Mi Gi Ti Pi Ei */
    QUANTITY_DECIMAL_EXPONENT, /* e3 */
};

struct quantity {
    __int128 nano; /* the value in units of 10^-9 */
    enum quantity_format format;
};

enum { QUANTITY_TEXT_MAX = 48 };

/* ERR_INVALID names the text and what is wrong with it. */
NODISCARD int quantity_parse(struct str s, struct quantity *out, struct err *e);

/* The canonical form: the largest suffix that leaves an integer. Returns out. */
const char *quantity_print(const struct quantity *q, char out[QUANTITY_TEXT_MAX]);

int quantity_cmp(const struct quantity *a, const struct quantity *b); /* <0, 0, >0; any formats */

/* Whole units, rounded away from zero and clamped to the range of the type: bytes of storage. */
int64_t quantity_ceil(const struct quantity *q);
