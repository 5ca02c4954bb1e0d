/* SPDX-License-Identifier: Apache-2.0
 * SHA-1, by OpenSSL: what etcd makes its member and cluster ids of. It protects nothing. */
#pragma once
#include "base/str.h"

enum { SHA1_BYTES = 20 };

void sha1_of(struct str bytes, unsigned char out[SHA1_BYTES]);
