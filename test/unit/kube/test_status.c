/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

#include "base/mem.h"
#include "net/http.h"
#include "unit.h"

#define STATUS(reason, message)                                                                    \
    "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"" reason "\",\"message\":\"" message \
    "\"}"

static void every_answer_has_its_code(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int status;
        bool mutating;
        const char *body;
        enum err_code want;
    } rows[] = {
        {"not found", 404, false, STATUS("NotFound", "no"), ERR_NOT_FOUND},
        {"exists", 409, true, STATUS("AlreadyExists", "no"), ERR_EXISTS},
        {"conflict", 409, true, STATUS("Conflict", "no"), ERR_CONFLICT},
        {"expired", 410, false, STATUS("Expired", "no"), ERR_EXPIRED},
        {"gone", 410, false, STATUS("Gone", "no"), ERR_EXPIRED},
        {"invalid", 422, true, STATUS("Invalid", "no"), ERR_INVALID},
        {"forbidden", 403, true, STATUS("Forbidden", "no"), ERR_DENIED},
        {"unauthorized", 401, true, STATUS("Unauthorized", "no"), ERR_DENIED},
        {"throttled", 429, true, STATUS("TooManyRequests", "no"), ERR_THROTTLED},
        {"unavailable read", 503, false, "", ERR_UNAVAILABLE},
        {"unavailable write was not done", 503, true, STATUS("ServiceUnavailable", "no"),
         ERR_UNAVAILABLE},
        {"internal error of a read", 500, false, STATUS("InternalError", "no"), ERR_UNAVAILABLE},
        {"internal error of a write", 500, true, STATUS("InternalError", "no"),
         ERR_OUTCOME_UNKNOWN},
        {"time-out of a write", 504, true, STATUS("Timeout", "no"), ERR_OUTCOME_UNKNOWN},
        {"bad gateway of a write", 502, true, "<html>bad</html>", ERR_OUTCOME_UNKNOWN},
        {"time-out of a read", 504, false, STATUS("Timeout", "no"), ERR_TIMEOUT},
        {"too large", 413, true, STATUS("RequestEntityTooLarge", "no"), ERR_TOO_BIG},
        {"a proxy's 404", 404, false, "nothing here", ERR_NOT_FOUND},
        {"a redirect", 302, false, "", ERR_INVALID},
        {"budget", 429, true,
         "{\"kind\":\"Status\",\"reason\":\"TooManyRequests\",\"message\":\"no\",\"details\":"
         "{\"causes\":[{\"reason\":\"DisruptionBudget\"}]}}",
         ERR_NOT_READY},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct http_response resp = {.status = rows[i].status, .body = BUF_INIT(1000)};
        struct err e = {0};
        buf_add_c(&resp.body, rows[i].body);
        assert_int_equal(kube_status_error(&resp, rows[i].mutating, &e), -1);
        if (e.code != rows[i].want)
            fail_msg("%s: %s %s", rows[i].name, err_code_name(e.code), e.text);
        assert_int_equal(e.origin, rows[i].status);
        http_response_done(&resp);
    }
}

static void the_reason_and_the_longer_wait_are_kept(void **state)
{
    (void)state;
    struct http_response resp = {.status = 429, .retry_after_ms = 1000, .body = BUF_INIT(1000)};
    struct err e = {0};
    buf_add_c(&resp.body, "{\"kind\":\"Status\",\"reason\":\"TooManyRequests\",\"message\":\"slow "
                          "down\",\"details\":{\"retryAfterSeconds\":5}}");
    kube_status_error(&resp, false, &e);
    assert_string_equal(e.reason, "TooManyRequests");
    assert_int_equal(e.retry_after_ms, 5000);
    assert_string_equal(e.text, "slow down (HTTP 429 TooManyRequests)");
    http_response_done(&resp);
}

static void a_message_is_cut_and_cleaned(void **state)
{
    (void)state;
    struct http_response resp = {.status = 500, .body = BUF_INIT(100000)};
    struct err e = {0};
    buf_add_c(&resp.body, "Authorization: Bearer abcdefghijklmnopqrstuvwxyz\n\x01\xff");
    for (int i = 0; i < 5000; i++)
        buf_add_c(&resp.body, "\xc3\xa4");
    kube_status_error(&resp, false, &e);
    assert_null(strstr(e.text, "abcdefgh"));
    assert_null(strchr(e.text, '\n'));
    assert_null(strchr(e.text, '\xff'));
    http_response_done(&resp);
}

static void an_error_event_is_read_the_same_way(void **state)
{
    (void)state;
    struct err e = {0};
    json_auto_t *gone =
        JOBJ(J("kind", js("Status")), J("code", ji(410)), J("reason", js("Expired")),
             J("message", js("too old resource version")));
    kube_status_event(gone, &e);
    assert_int_equal(e.code, ERR_EXPIRED);
    json_auto_t *odd = JOBJ(J("kind", js("Pod")));
    kube_status_event(odd, &e);
    assert_int_equal(e.code, ERR_CORRUPT);
}

TEST_MAIN(TEST(every_answer_has_its_code), TEST(the_reason_and_the_longer_wait_are_kept),
          TEST(a_message_is_cut_and_cleaned), TEST(an_error_event_is_read_the_same_way))
