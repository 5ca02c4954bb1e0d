/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/thread.h"
#include "unit.h"

static struct clock_fake clock_now;

/* A sink that writes to memory. */
struct tape {
    struct log_sink sink;
    struct log log;
};

static void tape_init(struct tape *t, enum log_format format, enum log_level level)
{
    clock_fake_init(&clock_now, 1794783425);
    const int fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(fd >= 0);
    log_sink_init(&t->sink, fd, format, level, &clock_now.clock);
    t->log = (struct log){.sink = &t->sink};
}

static char *tape_text(struct tape *t)
{
    const off_t size = lseek(t->sink.fd, 0, SEEK_END);
    char *text = calloc(1, (size_t)size + 1);
    assert_int_equal(pread(t->sink.fd, text, (size_t)size, 0), size);
    (void)close(t->sink.fd);
    log_sink_done(&t->sink);
    return text;
}

static void a_json_line_carries_the_fields_of_its_ancestors(void **state)
{
    (void)state;
    struct tape t;
    tape_init(&t, LOG_JSON, LOG_INFO);
    const struct log controller = LOG_WITH(&t.log, KV("controller", "cluster"));
    const struct log pass = LOG_WITH(&controller, KV("object", "ns/prod"), KV_U64("pass", 7));
    log_info(&pass, "member added", KV("member", "a"), KV_HEX("id", 0x8e9e05c52164694d),
             KV_I64("delta", -1), KV_BOOL("learner", true), KV("none", NULL));
    log_info(&pass, "plain");
    auto_free char *text = tape_text(&t);
    assert_string_equal(
        text, "{\"ts\":\"2026-11-15T22:57:05.000Z\",\"level\":\"info\",\"msg\":\"member added\","
              "\"controller\":\"cluster\",\"object\":\"ns/prod\",\"pass\":7,\"member\":\"a\","
              "\"id\":\"8e9e05c52164694d\",\"delta\":-1,\"learner\":true,\"none\":null}\n"
              "{\"ts\":\"2026-11-15T22:57:05.000Z\",\"level\":\"info\",\"msg\":\"plain\","
              "\"controller\":\"cluster\",\"object\":\"ns/prod\",\"pass\":7}\n");
}

static void lines_below_the_level_are_dropped_unevaluated(void **state)
{
    (void)state;
    struct tape t;
    tape_init(&t, LOG_JSON, LOG_WARN);
    int evaluated = 0;
    log_debug(&t.log, "x", KV_I64("n", ++evaluated));
    log_info(&t.log, "x", KV_I64("n", ++evaluated));
    log_warn(&t.log, "x", KV_I64("n", ++evaluated));
    log_error(&t.log, "x", KV_I64("n", ++evaluated));
    assert_int_equal(evaluated, 2);
    auto_free char *text = tape_text(&t);
    assert_non_null(strstr(text, "\"level\":\"warn\""));
    assert_non_null(strstr(text, "\"level\":\"error\""));
    assert_null(strstr(text, "info"));
}

static void errors_bring_code_and_reason(void **state)
{
    (void)state;
    struct tape t;
    tape_init(&t, LOG_JSON, LOG_INFO);
    struct err e = {0};
    err_set(&e, ERR_CONFLICT, 409, "patch status: changed meanwhile");
    (void)snprintf(e.reason, sizeof(e.reason), "Conflict");
    log_warn(&t.log, "will retry", KV_ERR(&e));
    auto_free char *text = tape_text(&t);
    assert_non_null(strstr(text, "\"error\":\"patch status: changed meanwhile\","
                                 "\"code\":\"CONFLICT\",\"reason\":\"Conflict\"}"));
}

static void secrets_do_not_reach_the_line(void **state)
{
    (void)state;
    struct tape t;
    tape_init(&t, LOG_JSON, LOG_DEBUG);
    log_info(&t.log, "dial https://root:hunter2@h", KV("password", "hunter2"),
             KV("url", "https://u:hunter2@h/"), KV("header", "Bearer hunter2"));
    struct err e = {0};
    err_set(&e, ERR_IO, 0, "GET /x?X-Amz-Signature=hunter2: refused");
    log_info(&t.log, "again", KV_ERR(&e));
    auto_free char *text = tape_text(&t);
    assert_null(strstr(text, "hunter2"));
    assert_non_null(strstr(text, "refused"));
}

/* Whatever goes in, each line is one well-formed JSON object of bounded size. */
static void hostile_values_keep_the_line_well_formed(void **state)
{
    (void)state;
    struct tape t;
    tape_init(&t, LOG_JSON, LOG_INFO);
    static char big[100001];
    uint64_t rnd = 1;
    const int lines = 200;
    for (int i = 0; i < lines; i++) {
        const size_t n = test_below(&rnd, i % 3 == 0 ? sizeof(big) - 1 : 300);
        for (size_t k = 0; k < n; k++)
            big[k] = i % 2 ? (char)(1 + test_below(&rnd, 255)) : (char)(1 + test_below(&rnd, 31));
        big[n] = '\0';
        const struct log child = LOG_WITH(&t.log, KV("inherited", big), KV("twice", big));
        log_info(&child, i % 5 == 0 ? big : "msg", KV("value", big), KV("more", big),
                 KV("key\n", big), KV_I64("n", i));
    }
    auto_free char *text = tape_text(&t);
    struct str rest = str_c(text), line;
    int seen = 0;
    while (str_cut(rest, '\n', &line, &rest)) {
        struct err e = {0};
        json_auto_t *v = NULL;
        assert_ok(jparse(line, &v, &e));
        assert_true(line.n < 16 * 1024);
        assert_non_null(jget(v, "msg"));
        seen++;
    }
    assert_int_equal(seen, lines);
}

static void text_lines_are_for_people(void **state)
{
    (void)state;
    struct tape t;
    tape_init(&t, LOG_TEXT, LOG_INFO);
    assert_false(t.sink.colour); /* not a terminal */
    log_warn(&t.log, "two\nlines", KV("member", "a b"), KV_I64("n", 3));
    auto_free char *text = tape_text(&t);
    assert_string_equal(text, "22:57:05.000 warn  two\\nlines  member=\"a b\"  n=3\n");
}

static void write_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        log_info(arg, "from a thread", KV_I64("n", i));
}

static void lines_of_threads_do_not_mix(void **state)
{
    (void)state;
    struct tape t;
    tape_init(&t, LOG_JSON, LOG_INFO);
    struct err e = {0};
    struct thread threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_ok(thread_start(&threads[i], "writer", write_many, &t.log, &e));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        thread_join(&threads[i]);
    auto_free char *text = tape_text(&t);
    struct str rest = str_c(text), line;
    int seen = 0;
    for (; str_cut(rest, '\n', &line, &rest); seen++)
        assert_true(str_starts(line, STR("{\"ts\"")) && str_ends(line, STR("}")));
    assert_int_equal(seen, 800);
}

TEST_MAIN(TEST(a_json_line_carries_the_fields_of_its_ancestors),
          TEST(lines_below_the_level_are_dropped_unevaluated), TEST(errors_bring_code_and_reason),
          TEST(secrets_do_not_reach_the_line), TEST(hostile_values_keep_the_line_well_formed),
          TEST(text_lines_are_for_people), TEST(lines_of_threads_do_not_mix))
