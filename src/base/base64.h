/* SPDX-License-Identifier: Apache-2.0
 * Base64 with the standard alphabet and padding, as in Secrets and kubeconfigs. */
#pragma once
#include <stdbool.h>

#include "base/attr.h"
#include "base/str.h"

struct buf;

/* Appends; false past the buffer's ceiling. */
bool base64_encode(struct buf *out, struct str bytes);

/* Appends; line breaks between groups are allowed. False: not base64, or past the ceiling. */
NODISCARD bool base64_decode(struct buf *out, struct str text);
