/* SPDX-License-Identifier: Apache-2.0
 * The reason decides where there is one, because several share an HTTP status (409 is a conflict
 * or "already exists"); without a Status object, from a proxy or a load balancer, the number
 * does. */
#include "kube/status.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/redact.h"
#include "net/http.h"

enum { MESSAGE_MAX = 400, READ_MAX = 16 * 1024, SHOWN_MAX = 64 * 1024, RETRY_MAX_S = 3600 };

static const struct {
    const char *reason;
    enum err_code code;
} reasons[] = {
    {"NotFound", ERR_NOT_FOUND},
    {"AlreadyExists", ERR_EXISTS},
    {"Conflict", ERR_CONFLICT},
    {"Gone", ERR_EXPIRED},
    {"Expired", ERR_EXPIRED},
    {"Invalid", ERR_INVALID},
    {"BadRequest", ERR_INVALID},
    {"MethodNotAllowed", ERR_INVALID},
    {"NotAcceptable", ERR_INVALID},
    {"UnsupportedMediaType", ERR_INVALID},
    {"Unauthorized", ERR_DENIED},
    {"Forbidden", ERR_DENIED},
    {"TooManyRequests", ERR_THROTTLED},
    {"RequestEntityTooLarge", ERR_TOO_BIG},
    {"ServiceUnavailable", ERR_UNAVAILABLE},
};

static enum err_code code_of_number(int status)
{
    switch (status) {
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOT_FOUND;
    case 408:
    case 504:
        return ERR_TIMEOUT;
    case 409:
        return ERR_CONFLICT;
    case 410:
        return ERR_EXPIRED;
    case 413:
        return ERR_TOO_BIG;
    case 429:
        return ERR_THROTTLED;
    default:
        return status >= 500 ? ERR_UNAVAILABLE : ERR_INVALID;
    }
}

static enum err_code code_of(int status, const char *reason)
{
    for (size_t i = 0; i < COUNT_OF(reasons); i++)
        if (strcmp(reason, reasons[i].reason) == 0)
            return reasons[i].code;
    return code_of_number(status);
}

/* The server, or something in front of it, gave up while the request may have gone through:
 * 500 is also what an etcd time-out looks like. 503 means that nobody took it. */
static bool may_be_done(int status)
{
    return status >= 500 && status != 501 && status != 503;
}

static bool budget_forbids(const json_t *status)
{
    size_t i = 0;
    json_t *cause = NULL;
    json_array_foreach(jget(status, "details.causes"), i,
                       cause) if (strcmp(jstr(cause, "reason", ""), "DisruptionBudget") ==
                                  0) return true;
    return false;
}

static void take_retry(const json_t *status, struct err *e)
{
    int64_t seconds = jint(status, "details.retryAfterSeconds", 0);
    if (seconds > RETRY_MAX_S)
        seconds = RETRY_MAX_S;
    if (seconds > 0 && (uint32_t)seconds * 1000 > e->retry_after_ms)
        e->retry_after_ms = (uint32_t)seconds * 1000;
}

/* The server quotes our objects in its messages. */
static void add_message(struct buf *out, struct str message)
{
    auto_buf struct buf shown = BUF_INIT(SHOWN_MAX);
    (void)redact_text(&shown, str_first(message, READ_MAX)); /* cut at its ceiling at worst */
    const struct str s = buf_str(&shown);
    size_t at = 0;
    while (at < s.n && out->n < MESSAGE_MAX - 4) {
        const size_t n = utf8_first(str_from(s, at));
        if (n == 0 || (unsigned char)s.p[at] < ' ')
            buf_add_char(out, ' ');
        else
            buf_add(out, s.p + at, n);
        at += n > 0 ? n : 1;
    }
}

static int set_from(const json_t *status, int number, struct str fallback, bool mutating,
                    struct err *e)
{
    const char *reason = jstr(status, "reason", "");
    const char *message = jstr(status, "message", NULL);
    enum err_code code = code_of(number, reason);
    if (code == ERR_THROTTLED && budget_forbids(status)) {
        code = ERR_NOT_READY;
        reason = "DisruptionBudget";
    }
    if (mutating && may_be_done(number))
        code = ERR_OUTCOME_UNKNOWN;
    auto_buf struct buf text = BUF_INIT(MESSAGE_MAX + 64);
    add_message(&text, message ? str_c(message) : str_trim(fallback));
    err_set(e, code, number, "%s%s(HTTP %d%s%s)", buf_cstr(&text), text.n > 0 ? " " : "", number,
            reason[0] != '\0' ? " " : "", reason);
    (void)snprintf(e->reason, sizeof(e->reason), "%s", reason);
    take_retry(status, e);
    return -1;
}

static bool is_status(const json_t *v)
{
    return strcmp(jstr(v, "kind", ""), "Status") == 0;
}

int kube_status_error(const struct http_response *resp, bool mutating, struct err *e)
{
    json_auto_t *body = NULL;
    struct err ignored = {0}; /* whatever is in the way answered, not in JSON: shown as text */
    const bool parsed = jparse(buf_str(&resp->body), &body, &ignored) == 0 && is_status(body);
    set_from(parsed ? body : NULL, resp->status,
             str_first(buf_str(&resp->body), parsed ? 0 : resp->body.n), mutating, e);
    if (resp->retry_after_ms > e->retry_after_ms)
        e->retry_after_ms = resp->retry_after_ms;
    return -1;
}

int kube_status_event(const json_t *status, struct err *e)
{
    if (!is_status(status))
        return err_set(e, ERR_CORRUPT, 0, "an ERROR event without a Status object");
    int64_t number = jint(status, "code", 500);
    if (number < 400 || number > 599)
        number = 500;
    return set_from(status, (int)number, (struct str){0}, false, e);
}
