/* SPDX-License-Identifier: Apache-2.0 */
#include "net/grpc_status.h"

#include "unit.h"

struct header {
    const char *name, *value;
};

static const struct {
    const char *name;
    struct header headers[5];
    enum err_code read, mutating;
    const char *text;
} rows[] = {
    {"success",
     {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}},
     ERR_NONE,
     ERR_NONE,
     ""},
    {"trailers-only error",
     {{":status", "200"},
      {"content-type", "application/grpc+proto"},
      {"grpc-status", "14"},
      {"grpc-message", "etcdserver: no leader"}},
     ERR_UNAVAILABLE,
     ERR_OUTCOME_UNKNOWN,
     "etcdserver: no leader"},
    {"percent-encoded message",
     {{":status", "200"},
      {"content-type", "application/grpc"},
      {"grpc-status", "3"},
      {"grpc-message", "100%25 %C3%A9 %zz %4"}},
     ERR_INVALID,
     ERR_INVALID,
     "100% \xc3\xa9 %zz %4"},
    {"control characters and bytes that are no text",
     {{":status", "200"},
      {"content-type", "application/grpc"},
      {"grpc-status", "5"},
      {"grpc-message", "a%0Ab%1B[31m%FFc"}},
     ERR_NOT_FOUND,
     ERR_NOT_FOUND,
     "a b [31m?c"},
    {"no status at all",
     {{":status", "200"}, {"content-type", "application/grpc"}},
     ERR_UNAVAILABLE,
     ERR_OUTCOME_UNKNOWN,
     "without a gRPC status"},
    {"nothing", {{0}}, ERR_UNAVAILABLE, ERR_OUTCOME_UNKNOWN, "without a gRPC status"},
    {"a status that is no number",
     {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "-0"}},
     ERR_UNAVAILABLE,
     ERR_OUTCOME_UNKNOWN,
     "without a gRPC status"},
    {"a code from the future",
     {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "99"}},
     ERR_IO,
     ERR_OUTCOME_UNKNOWN,
     "?"},
    {"web page",
     {{":status", "200"}, {"content-type", "text/html"}},
     ERR_UNAVAILABLE,
     ERR_OUTCOME_UNKNOWN,
     "HTTP status 200"},
    {"not found", {{":status", "404"}}, ERR_INVALID, ERR_INVALID, "HTTP status 404"},
    {"forbidden", {{":status", "403"}}, ERR_DENIED, ERR_DENIED, "HTTP status 403"},
    {"an overloaded proxy may have passed it on",
     {{":status", "503"}},
     ERR_UNAVAILABLE,
     ERR_OUTCOME_UNKNOWN,
     "HTTP status 503"},
    {"so may one that gave up waiting",
     {{":status", "408"}},
     ERR_UNAVAILABLE,
     ERR_OUTCOME_UNKNOWN,
     "HTTP status 408"},
    {"throttled", {{":status", "429"}}, ERR_UNAVAILABLE, ERR_UNAVAILABLE, "HTTP status 429"},
    {"bad gateway may have passed it on",
     {{":status", "502"}},
     ERR_UNAVAILABLE,
     ERR_OUTCOME_UNKNOWN,
     "HTTP status 502"},
    {"deadline",
     {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "4"}},
     ERR_TIMEOUT,
     ERR_OUTCOME_UNKNOWN,
     "DEADLINE_EXCEEDED"},
    {"unimplemented",
     {{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "12"}},
     ERR_INVALID,
     ERR_INVALID,
     "UNIMPLEMENTED"},
    {"a proxy's error with a gRPC verdict",
     {{":status", "503"}, {"grpc-status", "7"}},
     ERR_DENIED,
     ERR_DENIED,
     "PERMISSION_DENIED"},
};

static void header_blocks_become_verdicts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int mutating = 0; mutating < 2; mutating++) {
            struct grpc_status s = {0};
            struct err e = {0};
            for (const struct header *h = rows[i].headers; h->name; h++)
                grpc_status_header(&s, str_c(h->name), str_c(h->value));
            const enum err_code want = mutating ? rows[i].mutating : rows[i].read;
            const int rc = grpc_status_result(&s, mutating, &e);
            if (rc != (want == ERR_NONE ? 0 : -1) || (rc < 0 && e.code != want) ||
                !strstr(e.text, rows[i].text))
                fail_msg("%s: %s \"%s\"", rows[i].name, err_code_name(e.code), e.text);
        }
    }
}

static void a_long_message_is_cut_at_a_character(void **state)
{
    (void)state;
    char text[600];
    memset(text, 'x', sizeof(text));
    struct grpc_status s = {0};
    grpc_status_header(&s, STR("grpc-message"), (struct str){text, sizeof(text)});
    assert_int_equal(strlen(s.message), sizeof(s.message) - 1);
}

TEST_MAIN(TEST(header_blocks_become_verdicts), TEST(a_long_message_is_cut_at_a_character))
