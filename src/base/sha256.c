/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"

#include <openssl/evp.h>
#include <stdlib.h>

#include "base/mem.h"

struct sha256 {
    EVP_MD_CTX *ctx;
};

/* OpenSSL fails here only without memory or without its own default provider. */
static void must(int rc)
{
    if (rc != 1)
        abort();
}

struct sha256 *sha256_new(void)
{
    struct sha256 *h = xmalloc(sizeof(*h));
    h->ctx = EVP_MD_CTX_new();
    must(h->ctx && EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) == 1);
    return h;
}

void sha256_free(struct sha256 *h)
{
    if (!h)
        return;
    EVP_MD_CTX_free(h->ctx);
    free(h);
}

void sha256_add(struct sha256 *h, struct str bytes)
{
    if (bytes.n > 0)
        must(EVP_DigestUpdate(h->ctx, bytes.p, bytes.n));
}

void sha256_finish(struct sha256 *h, unsigned char out[SHA256_BYTES])
{
    unsigned n = 0;
    must(EVP_DigestFinal_ex(h->ctx, out, &n));
    must(EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL));
}

const char *sha256_print(const unsigned char digest[SHA256_BYTES], char out[SHA256_HEX_MAX])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[SHA256_HEX_MAX - 1] = '\0';
    return out;
}
