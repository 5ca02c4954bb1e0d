/* SPDX-License-Identifier: Apache-2.0 */
#include "base/redact.h"

#include "unit.h"

static void keys_that_hold_secrets(void **state)
{
    (void)state;
    static const char *const secret[] = {
        "password",
        "PASSWORD",
        "root_password",
        "token",
        "bearerToken",
        "authorization",
        "secretKey",
        "secret-access-key",
        "accessKey",
        "private_key",
        "apiKey",
        "credentials",
        "X-Amz-Signature",
        "set-cookie",
        "sse-encryption-key",
        "a-very-long-prefix-that-is-longer-than-the-buffer-for-comparison-password",
    };
    static const char *const plain[] = {
        "secret",      "secretName", "secret_ref", "user",         "key",      "keys",
        "tokens_left", "member",     "",           "passwordless", "endpoint",
    };
    for (size_t i = 0; i < COUNT_OF(secret); i++)
        if (!redact_key(str_c(secret[i])))
            fail_msg("%s is shown", secret[i]);
    for (size_t i = 0; i < COUNT_OF(plain); i++)
        if (redact_key(str_c(plain[i])))
            fail_msg("%s is hidden", plain[i]);
}

static void secrets_inside_text(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"nothing to hide", "nothing to hide"},
        {"Authorization: Bearer eyJhb.GciO-iJ_", "Authorization: Bearer [redacted]"},
        {"authorization=basic cm9vdDpwdw==, next", "authorization=basic [redacted], next"},
        {"https://root:s3cr3t@host:2379/x", "https://root:[redacted]@host:2379/x"},
        {"https://root:p@ss@host/x and //a:b@c",
         "https://root:[redacted]@host/x and //a:[redacted]@c"},
        {"https://host:2379/a@b", "https://host:2379/a@b"},
        {"https://user@host/", "https://user@host/"},
        {"GET /b/k?X-Amz-Credential=AK/x&X-Amz-Signature=abc123&n=1",
         "GET /b/k?X-Amz-Credential=[redacted]&X-Amz-Signature=[redacted]&n=1"},
        {"x-amz-security-token=Fwo//&a", "x-amz-security-token=[redacted]&a"},
        {"?sv=1&sig=abc%3D", "?sv=1&sig=[redacted]"},
        {"design=good", "design=good"}, /* "sig=" would need to begin a word */
        {"password=hunter2 user=x", "password=[redacted] user=x"},
        {"password=", "password="},
        {"token=abc", "token=[redacted]"},
        {"k: -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- ok",
         "k: -----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY----- ok"},
        {"-----BEGIN PRIVATE KEY-----cut off", "-----BEGIN PRIVATE KEY-----[redacted]"},
        {"-----BEGIN CERTIFICATE-----\nMIIB\n", "-----BEGIN CERTIFICATE-----\nMIIB\n"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_buf struct buf out = BUF_INIT(1000);
        assert_true(redact_text(&out, str_c(rows[i].text)));
        assert_string_equal(buf_cstr(&out), rows[i].want);
    }
}

TEST_MAIN(TEST(keys_that_hold_secrets), TEST(secrets_inside_text))
