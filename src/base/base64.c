/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include "base/buf.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

bool base64_encode(struct buf *out, struct str bytes)
{
    for (size_t i = 0; i < bytes.n; i += 3) {
        const size_t have = bytes.n - i < 3 ? bytes.n - i : 3;
        uint32_t group = 0;
        for (size_t k = 0; k < 3; k++)
            group = group << 8 | (k < have ? (unsigned char)bytes.p[i + k] : 0);
        char text[4] = {digits[group >> 18 & 63], digits[group >> 12 & 63],
                        have > 1 ? digits[group >> 6 & 63] : '=',
                        have > 2 ? digits[group & 63] : '='};
        if (!buf_add(out, text, sizeof(text)))
            return false;
    }
    return true;
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (ascii_is_digit(c))
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(struct buf *out, struct str text)
{
    uint32_t group = 0;
    int have = 0, padding = 0;
    for (size_t i = 0; i < text.n; i++) {
        const char c = text.p[i];
        if (c == '\n' || c == '\r')
            continue;
        const int value = value_of(c);
        if (c == '=')
            padding++;
        else if (value < 0 || padding > 0)
            return false;
        group = group << 6 | (uint32_t)(value > 0 ? value : 0);
        if (++have < 4)
            continue;
        if (padding > 2)
            return false;
        const char bytes[3] = {(char)(group >> 16), (char)(group >> 8 & 255), (char)(group & 255)};
        if (!buf_add(out, bytes, (size_t)(3 - padding)))
            return false;
        if (padding > 0) { /* nothing may follow but line breaks */
            for (i++; i < text.n; i++)
                if (text.p[i] != '\n' && text.p[i] != '\r')
                    return false;
            return true;
        }
        group = 0;
        have = 0;
    }
    return have == 0;
}
