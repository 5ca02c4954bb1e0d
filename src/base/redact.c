/* SPDX-License-Identifier: Apache-2.0 */
#include "base/redact.h"

/* Compared without '-', '_' and case; a key that ends in one of these holds a secret. */
static const struct str secret_keys[] = {
    {"password", 8},  {"passwd", 6},      {"token", 5},        {"secretkey", 9},
    {"accesskey", 9}, {"privatekey", 10}, {"credentials", 11}, {"authorization", 13},
    {"apikey", 6},    {"signature", 9},   {"cookie", 6},       {"encryptionkey", 13},
};

/* What introduces a secret inside running text, and which characters end it. */
static const struct {
    struct str intro;
    const char *end;
} secret_texts[] = {
    {{"bearer ", 7}, " \t\r\n\"',;"},
    {{"basic ", 6}, " \t\r\n\"',;"},
    {{"x-amz-signature=", 16}, "& \t\r\n\"'"},
    {{"x-amz-credential=", 17}, "& \t\r\n\"'"},
    {{"x-amz-security-token=", 21}, "& \t\r\n\"'"},
    {{"x-goog-signature=", 17}, "& \t\r\n\"'"},
    {{"sig=", 4}, "& \t\r\n\"'"},
    {{"password=", 9}, "& \t\r\n\"',;"},
    {{"token=", 6}, "& \t\r\n\"',;"},
};

bool redact_key(struct str key)
{
    char plain[64];
    size_t n = 0;
    /* The end decides, so a longer key may lose its beginning. */
    for (size_t i = key.n > sizeof(plain) ? key.n - sizeof(plain) : 0; i < key.n; i++)
        if (key.p[i] != '-' && key.p[i] != '_')
            plain[n++] = ascii_lower(key.p[i]);
    for (size_t i = 0; i < COUNT_OF(secret_keys); i++)
        if (str_ends((struct str){plain, n}, secret_keys[i]))
            return true;
    return false;
}

static bool is_word(char c)
{
    c = ascii_lower(c);
    return (c >= 'a' && c <= 'z') || ascii_is_digit(c);
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c);
}

/* Length of the secret behind an introduction that stands at `at`, and of the introduction. */
static bool find_pair(struct str text, size_t at, size_t *intro_n, size_t *secret_n)
{
    if (at > 0 && is_word(text.p[at - 1]))
        return false; /* in the middle of a word */
    const struct str here = str_from(text, at);
    for (size_t i = 0; i < COUNT_OF(secret_texts); i++) {
        const struct str intro = secret_texts[i].intro;
        if (!str_eq_nocase(str_first(here, intro.n), intro))
            continue;
        size_t n = 0;
        while (intro.n + n < here.n && !is_one_of(here.p[intro.n + n], secret_texts[i].end))
            n++;
        *intro_n = intro.n;
        *secret_n = n;
        return n > 0;
    }
    return false;
}

/* "//user:password@host": the password, from behind the colon to the last '@' of the authority. */
static bool find_userinfo(struct str text, size_t at, size_t *intro_n, size_t *secret_n)
{
    const struct str here = str_from(text, at);
    if (!str_starts(here, STR("//")))
        return false;
    size_t colon = 0, last_at = 0;
    for (size_t i = 2; i < here.n && !is_one_of(here.p[i], "/?# \t\r\n\"'"); i++) {
        if (here.p[i] == ':' && colon == 0)
            colon = i;
        if (here.p[i] == '@')
            last_at = i;
    }
    if (colon == 0 || last_at <= colon)
        return false;
    *intro_n = colon + 1;
    *secret_n = last_at - colon - 1;
    return *secret_n > 0;
}

/* A PEM block that names a private key: everything up to the end line, or to the end of text. */
static bool find_pem(struct str text, size_t at, size_t *intro_n, size_t *secret_n)
{
    static const struct str begin = {"-----BEGIN ", 11}, end = {"-----END ", 9};
    const struct str here = str_from(text, at);
    if (!str_starts(here, begin))
        return false;
    const struct str label = str_first(str_from(here, begin.n), 64);
    const char *close = label.n > 0 ? memmem(label.p, label.n, "-----", 5) : NULL;
    if (!close ||
        !str_has_nocase((struct str){label.p, (size_t)(close - label.p)}, STR("PRIVATE KEY")))
        return false;
    *intro_n = (size_t)(close - here.p) + 5;
    const struct str body = str_from(here, *intro_n);
    const char *stop = memmem(body.p, body.n, end.p, end.n);
    *secret_n = stop ? (size_t)(stop - body.p) : body.n;
    return *secret_n > 0;
}

bool redact_text(struct buf *out, struct str text)
{
    size_t shown = 0; /* everything before this has been written */
    for (size_t at = 0; at < text.n;) {
        size_t intro_n = 0, secret_n = 0;
        if (!find_pair(text, at, &intro_n, &secret_n) &&
            !find_userinfo(text, at, &intro_n, &secret_n) &&
            !find_pem(text, at, &intro_n, &secret_n)) {
            at++;
            continue;
        }
        buf_add(out, text.p + shown, at + intro_n - shown);
        buf_add_c(out, REDACTED);
        at += intro_n + secret_n;
        shown = at;
    }
    return buf_add_str(out, str_from(text, shown));
}
