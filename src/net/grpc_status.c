/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc_status.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static int hex_digit(char c)
{
    if (ascii_is_digit(c))
        return c - '0';
    c = ascii_lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-decoding that never fails: a broken escape stands for itself. */
static void decode_message(struct str in, char *out, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < in.n && n + 1 < size; i++) {
        char c = in.p[i];
        if (c == '%' && i + 2 < in.n && hex_digit(in.p[i + 1]) >= 0 &&
            hex_digit(in.p[i + 2]) >= 0) {
            c = (char)(hex_digit(in.p[i + 1]) * 16 + hex_digit(in.p[i + 2]));
            i += 2;
        }
        out[n++] = (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c;
    }
    /* Logs and terminals are UTF-8: what is not becomes a question mark. */
    for (size_t at = 0; at < n;) {
        const size_t good = utf8_first((struct str){out + at, n - at});
        if (good == 0)
            out[at] = '?';
        at += good > 0 ? good : 1;
    }
    out[n] = '\0';
}

void grpc_status_header(struct grpc_status *s, struct str name, struct str value)
{
    uint64_t number = 0;
    if (str_eq(name, STR(":status"))) {
        s->http = str_u64(value, &number) && number < 1000 ? (int)number : 0;
    } else if (str_eq(name, STR("content-type"))) {
        s->grpc_type = str_starts(value, STR("application/grpc"));
    } else if (str_eq(name, STR("grpc-status"))) {
        s->has_code = str_u64(value, &number) && number <= INT16_MAX;
        s->code = s->has_code ? (int)number : GRPC_UNKNOWN;
    } else if (str_eq(name, STR("grpc-message"))) {
        decode_message(value, s->message, sizeof(s->message));
    }
}

static const struct {
    const char *name;
    enum err_code read, mutating; /* the second where a mutating call may have been done */
} codes[] = {
    [GRPC_OK] = {"OK", ERR_NONE, ERR_NONE},
    [GRPC_CANCELLED] = {"CANCELLED", ERR_UNAVAILABLE, ERR_OUTCOME_UNKNOWN},
    [GRPC_UNKNOWN] = {"UNKNOWN", ERR_IO, ERR_OUTCOME_UNKNOWN},
    [GRPC_INVALID_ARGUMENT] = {"INVALID_ARGUMENT", ERR_INVALID, ERR_INVALID},
    [GRPC_DEADLINE_EXCEEDED] = {"DEADLINE_EXCEEDED", ERR_TIMEOUT, ERR_OUTCOME_UNKNOWN},
    [GRPC_NOT_FOUND] = {"NOT_FOUND", ERR_NOT_FOUND, ERR_NOT_FOUND},
    [GRPC_ALREADY_EXISTS] = {"ALREADY_EXISTS", ERR_EXISTS, ERR_EXISTS},
    [GRPC_PERMISSION_DENIED] = {"PERMISSION_DENIED", ERR_DENIED, ERR_DENIED},
    [GRPC_RESOURCE_EXHAUSTED] = {"RESOURCE_EXHAUSTED", ERR_TOO_BIG, ERR_TOO_BIG},
    [GRPC_FAILED_PRECONDITION] = {"FAILED_PRECONDITION", ERR_CONFLICT, ERR_CONFLICT},
    [GRPC_ABORTED] = {"ABORTED", ERR_CONFLICT, ERR_OUTCOME_UNKNOWN},
    [GRPC_OUT_OF_RANGE] = {"OUT_OF_RANGE", ERR_INVALID, ERR_INVALID},
    [GRPC_UNIMPLEMENTED] = {"UNIMPLEMENTED", ERR_INVALID, ERR_INVALID},
    [GRPC_INTERNAL] = {"INTERNAL", ERR_IO, ERR_OUTCOME_UNKNOWN},
    [GRPC_UNAVAILABLE] = {"UNAVAILABLE", ERR_UNAVAILABLE, ERR_OUTCOME_UNKNOWN},
    [GRPC_DATA_LOSS] = {"DATA_LOSS", ERR_CORRUPT, ERR_CORRUPT},
    [GRPC_UNAUTHENTICATED] = {"UNAUTHENTICATED", ERR_DENIED, ERR_DENIED},
};

const char *grpc_code_name(int code)
{
    return code >= 0 && (size_t)code < COUNT_OF(codes) ? codes[code].name : "?";
}

/* Not from a gRPC server: a proxy, a load balancer, a web server. */
static int http_result(const struct grpc_status *s, bool mutating, struct err *e)
{
    enum err_code code = mutating ? ERR_OUTCOME_UNKNOWN : ERR_UNAVAILABLE;
    if (s->http == 401 || s->http == 403)
        code = ERR_DENIED;
    else if (s->http == 429)
        code = ERR_UNAVAILABLE; /* refused before it was looked at */
    else if (s->http >= 400 && s->http < 500 && s->http != 408 && s->http != 499)
        code = ERR_INVALID; /* those two gave up waiting, perhaps for the server behind them */
    return err_set(e, code, s->http, "answered HTTP status %d, not gRPC", s->http);
}

int grpc_status_result(const struct grpc_status *s, bool mutating, struct err *e)
{
    if (!s->has_code) {
        if (s->http != 0 && (s->http != 200 || !s->grpc_type))
            return http_result(s, mutating, e);
        return err_set(e, mutating ? ERR_OUTCOME_UNKNOWN : ERR_UNAVAILABLE, 0,
                       "stream ended without a gRPC status");
    }
    if (s->code == GRPC_OK)
        return 0;
    const bool known = (size_t)s->code < COUNT_OF(codes);
    const size_t row = known ? (size_t)s->code : (size_t)GRPC_UNKNOWN;
    return err_set(e, mutating ? codes[row].mutating : codes[row].read, s->code, "%s",
                   s->message[0] ? s->message : grpc_code_name(s->code));
}
