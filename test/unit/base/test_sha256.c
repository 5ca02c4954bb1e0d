/* SPDX-License-Identifier: Apache-2.0
 * The vectors are those of FIPS 180-4's examples. */
#include "base/sha256.h"

#include "unit.h"

static void known_texts_have_known_digests(void **state)
{
    (void)state;
    static const struct {
        const char *text, *hex;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    AUTO(sha256_free_auto) struct sha256 *h = sha256_new(); /* one for all: it starts anew */
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct str text = str_c(rows[i].text);
        for (size_t at = 0; at < text.n; at++)
            sha256_add(h, str_first(str_from(text, at), 1));
        unsigned char digest[SHA256_BYTES];
        char hex[SHA256_HEX_MAX];
        sha256_finish(h, digest);
        assert_string_equal(sha256_print(digest, hex), rows[i].hex);
    }
}

TEST_MAIN(TEST(known_texts_have_known_digests))
