/* SPDX-License-Identifier: Apache-2.0
 * SHA-256, by OpenSSL. One struct per stream of bytes; not thread-safe. */
#pragma once
#include <stddef.h>

#include "base/attr.h"
#include "base/str.h"

enum { SHA256_BYTES = 32, SHA256_HEX_MAX = 65 };

struct sha256;

struct sha256 *sha256_new(void) NONNULL;
void sha256_free(struct sha256 *h); /* NULL-safe */
AUTO_DEFINE(struct sha256, sha256_free)

void sha256_add(struct sha256 *h, struct str bytes);
/* The digest of everything added; the state starts anew. */
void sha256_finish(struct sha256 *h, unsigned char out[SHA256_BYTES]);

const char *sha256_print(const unsigned char digest[SHA256_BYTES], char out[SHA256_HEX_MAX]);
