/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char ellipsis[] = "\xe2\x80\xa6"; /* U+2026 */

static size_t utf8_floor(const char *text, size_t n) /* not inside a character */
{
    while (n > 0 && utf8_is_continuation(text[n]))
        n--;
    return n;
}

/* One printf argument may be longer than the whole text: mark the cut, at a character boundary. */
static void cut_tail(char *text, size_t size)
{
    memcpy(text + utf8_floor(text, size - sizeof(ellipsis)), ellipsis, sizeof(ellipsis));
}

static void print_text(char *text, size_t size, const char *fmt, va_list ap) FORMAT(3, 0);
static void print_text(char *text, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(text, size, fmt, ap);
    if (n >= (int)size)
        cut_tail(text, size);
}

/* "prefix: text" in place. When both do not fit, the prefix is cut to half of the room at most
 * and the old text loses its beginning, never its end. */
static void prepend(struct err *e, const char *prefix)
{
    char old[sizeof(e->text)];
    memcpy(old, e->text, sizeof(old));
    const char *tail = old;
    const char *head_mark = "", *tail_mark = "";
    size_t head_n = strlen(prefix), tail_n = strlen(old);
    const size_t room = sizeof(e->text) - sizeof(": ");

    if (head_n + tail_n > room) {
        if (head_n > room / 2) {
            head_n = utf8_floor(prefix, room / 2);
            head_mark = ellipsis;
        }
        const size_t tail_room = room - head_n - strlen(head_mark);
        if (tail_n > tail_room) {
            tail_mark = ellipsis;
            tail += tail_n - (tail_room - strlen(ellipsis));
            while (utf8_is_continuation(*tail))
                tail++;
            tail_n = strlen(tail);
        }
    }
    char *at = mempcpy(e->text, prefix, head_n);
    at = mempcpy(at, head_mark, strlen(head_mark));
    at = mempcpy(at, ": ", 2);
    at = mempcpy(at, tail_mark, strlen(tail_mark));
    memcpy(at, tail, tail_n + 1);
}

static void reset(struct err *e, enum err_code code, int origin)
{
    e->code = code;
    e->origin = origin;
    e->retry_after_ms = 0;
    e->reason[0] = '\0';
}

int err_set(struct err *e, enum err_code code, int origin, const char *fmt, ...)
{
    reset(e, code, origin);
    va_list ap;
    va_start(ap, fmt);
    print_text(e->text, sizeof(e->text), fmt, ap);
    va_end(ap);
    return -1;
}

static enum err_code code_of_errno(int errno_value)
{
    switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERR_DENIED;
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return ERR_UNAVAILABLE;
    case ETIMEDOUT:
        return ERR_TIMEOUT;
    case ECANCELED:
        return ERR_CANCELED;
    case EFBIG:
    case EMSGSIZE:
        return ERR_TOO_BIG;
    default:
        return ERR_IO;
    }
}

int err_set_errno(struct err *e, int errno_value, const char *fmt, ...)
{
    char what[sizeof(e->text)];
    va_list ap;
    va_start(ap, fmt);
    print_text(what, sizeof(what), fmt, ap);
    va_end(ap);

    const char *why = strerrordesc_np(errno_value);
    err_set(e, code_of_errno(errno_value), errno_value, "%s", why ? why : "unknown error");
    prepend(e, what);
    return -1;
}

int err_wrap(struct err *e, const char *fmt, ...)
{
    char prefix[sizeof(e->text)];
    va_list ap;
    va_start(ap, fmt);
    print_text(prefix, sizeof(prefix), fmt, ap);
    va_end(ap);
    prepend(e, prefix);
    return -1;
}

bool err_transient(const struct err *e)
{
    switch (e->code) {
    case ERR_CONFLICT:
    case ERR_EXPIRED:
    case ERR_UNAVAILABLE:
    case ERR_NOT_READY:
    case ERR_THROTTLED:
    case ERR_TIMEOUT:
    case ERR_OUTCOME_UNKNOWN:
        return true;
    case ERR_NONE:
    case ERR_INVALID:
    case ERR_NOT_FOUND:
    case ERR_EXISTS:
    case ERR_DENIED:
    case ERR_CANCELED:
    case ERR_TOO_BIG:
    case ERR_CORRUPT:
    case ERR_IO:
    case ERR_BUG:
        return false;
    }
    return false;
}

const char *err_code_name(enum err_code code)
{
    static const char *const names[] = {
#define X(name) [ERR_##name] = #name,
        ERR_CODES(X)
#undef X
    };
    return (size_t)code < COUNT_OF(names) ? names[code] : "UNKNOWN";
}
