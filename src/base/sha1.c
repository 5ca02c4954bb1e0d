/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha1.h"

#include <openssl/evp.h>
#include <stdlib.h>

void sha1_of(struct str bytes, unsigned char out[SHA1_BYTES])
{
    unsigned n = 0;
    /* Fails only without memory or without OpenSSL's own default provider. */
    if (EVP_Digest(bytes.p ? bytes.p : "", bytes.n, out, &n, EVP_sha1(), NULL) != 1)
        abort();
}
