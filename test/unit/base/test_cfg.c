/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cfg.h"

#include "base/buf.h"
#include "base/time.h"
#include "unit.h"

struct options {
    bool flag;
    const char *text;
    int64_t number, span_ns, bytes;
    int choice;
    const char *file;
};

static const char *const choices[] = {"one", "two", NULL};
static const struct cfg_option table[] = {
    {.name = "flag", .type = CFG_BOOL, .offset = offsetof(struct options, flag), .help = "a flag"},
    {.name = "text",
     .letter = 't',
     .type = CFG_STR,
     .offset = offsetof(struct options, text),
     .dflt = "none",
     .help = "some text"},
    {.name = "number",
     .type = CFG_INT,
     .offset = offsetof(struct options, number),
     .dflt = "5",
     .min = 1,
     .max = 10,
     .help = "how many"},
    {.name = "span-of-time",
     .type = CFG_DURATION,
     .offset = offsetof(struct options, span_ns),
     .dflt = "1m30s",
     .min = DURATION_S,
     .max = 3600 * DURATION_S,
     .help = "how long"},
    {.name = "bytes",
     .type = CFG_BYTES,
     .offset = offsetof(struct options, bytes),
     .dflt = "64Mi",
     .help = "how much"},
    {.name = "choice",
     .type = CFG_CHOICE,
     .offset = offsetof(struct options, choice),
     .dflt = "two",
     .choices = choices,
     .help = "which"},
    {.name = "file", .type = CFG_FILE, .offset = offsetof(struct options, file), .help = "where"},
};

static const char *env_name, *env_value;

static char *test_env(const char *name)
{
    return env_name && strcmp(name, env_name) == 0 ? (char *)env_value : NULL;
}

static struct options into;

static bool parse(struct cfg_parsed *out, const char *const *argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    into = (struct options){0};
    const struct cfg_section section = {
        .title = "Options", .options = table, .n = COUNT_OF(table), .into = &into};
    return cfg_parse(&section, 1, argc, argv, test_env, out);
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void defaults_apply(void **state)
{
    (void)state;
    env_name = NULL;
    AUTO(cfg_parsed_done) struct cfg_parsed p;
    assert_true(parse(&p, ARGS()));
    assert_false(into.flag);
    assert_string_equal(into.text, "none");
    assert_int_equal(into.number, 5);
    assert_int_equal(into.span_ns, 90 * DURATION_S);
    assert_int_equal(into.bytes, 64 << 20);
    assert_int_equal(into.choice, 1);
    assert_null(into.file);
}

static void every_spelling_of_a_flag_works(void **state)
{
    (void)state;
    env_name = NULL;
    AUTO(cfg_parsed_done) struct cfg_parsed p;
    assert_true(parse(&p, ARGS("a", "--flag", "-t", "x", "--number=7", "b", "--span-of-time", "2s",
                               "--bytes=1Ki", "--choice", "one", "--file", "/dev/null", "-", "--",
                               "--flag=false")));
    assert_true(into.flag);
    assert_string_equal(into.text, "x");
    assert_int_equal(into.number, 7);
    assert_int_equal(into.span_ns, 2 * DURATION_S);
    assert_int_equal(into.bytes, 1024);
    assert_int_equal(into.choice, 0);
    assert_string_equal(into.file, "/dev/null");
    assert_int_equal(p.args.n, 4);
    assert_string_equal(p.args.v[0], "a");
    assert_string_equal(p.args.v[1], "b");
    assert_string_equal(p.args.v[2], "-");
    assert_string_equal(p.args.v[3], "--flag=false");
    assert_false(p.help);

    AUTO(cfg_parsed_done) struct cfg_parsed again;
    assert_true(
        parse(&again, ARGS("--flag", "--flag=false", "--text=", "--number", "3", "--number", "4")));
    assert_false(into.flag); /* the last one wins */
    assert_string_equal(into.text, "");
    assert_int_equal(into.number, 4);
}

static void what_was_given_is_told_from_a_default(void **state)
{
    (void)state;
    env_name = "RAFTSMAN_CHOICE";
    env_value = "two";
    AUTO(cfg_parsed_done) struct cfg_parsed p;
    assert_true(parse(&p, ARGS("--number=5"))); /* both as the defaults are */
    assert_true(cfg_given(&p, "number"));
    assert_true(cfg_given(&p, "choice"));
    assert_false(cfg_given(&p, "text"));
    assert_false(cfg_given(&p, "none"));
}

static void the_environment_stands_between_flag_and_default(void **state)
{
    (void)state;
    env_name = "RAFTSMAN_SPAN_OF_TIME";
    env_value = "7s";
    AUTO(cfg_parsed_done) struct cfg_parsed p, q, r;
    assert_true(parse(&p, ARGS()));
    assert_int_equal(into.span_ns, 7 * DURATION_S);
    assert_true(parse(&q, ARGS("--span-of-time", "8s")));
    assert_int_equal(into.span_ns, 8 * DURATION_S);
    env_value = "rubbish"; /* overridden, so it does not matter */
    assert_true(parse(&r, ARGS("--span-of-time", "8s")));
    AUTO(cfg_parsed_done) struct cfg_parsed s;
    assert_false(parse(&s, ARGS()));
    assert_non_null(strstr(s.problems.v[0], "RAFTSMAN_SPAN_OF_TIME: \"rubbish\""));
}

static void a_problem_names_the_option_and_the_value(void **state)
{
    (void)state;
    env_name = NULL;
    static const struct {
        const char *argv[3];
        const char *want;
    } rows[] = {
        {{"--bogus"}, "unknown option --bogus"},
        {{"-x"}, "unknown option -x"},
        {{"-tx"}, "unknown option -tx"},
        {{"--text"}, "--text: a value is missing"},
        {{"--flag=maybe"}, "--flag: \"maybe\" is neither true nor false"},
        {{"--number", "x"}, "--number: \"x\" is not a whole number"},
        {{"--number", "11"}, "--number: \"11\" is outside 1 to 10"},
        {{"--number="}, "--number: \"\" is not a whole number"},
        {{"--span-of-time", "5x"},
         "--span-of-time: \"5x\" is not a duration: unknown unit (use ns, us, ms, s, m, h)"},
        {{"--span-of-time", "2h"}, "--span-of-time: \"2h\" is outside 1s to 1h0m0s"},
        {{"--bytes", "1Qi"},
         "--bytes: \"1Qi\" is not a quantity: unknown suffix "
         "(use n u m k M G T P E, Ki Mi Gi Ti Pi Ei, or e3)"},
        {{"--choice", "three"}, "--choice: \"three\" is none of one, two"},
        {{"--file", "/no/such"}, "--file: \"/no/such\": No such file or directory"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        AUTO(cfg_parsed_done) struct cfg_parsed p;
        assert_false(parse(&p, rows[i].argv));
        assert_int_equal(p.problems.n, 1); /* one line, no stack of errors */
        assert_string_equal(p.problems.v[0], rows[i].want);
    }
}

static void all_problems_are_reported_at_once(void **state)
{
    (void)state;
    env_name = NULL;
    AUTO(cfg_parsed_done) struct cfg_parsed p;
    assert_false(parse(&p, ARGS("--bogus", "--number", "0", "--choice=x", "--file=/no/such")));
    assert_int_equal(p.problems.n, 4);
}

static void help_and_reference_come_from_the_table(void **state)
{
    (void)state;
    env_name = NULL;
    AUTO(cfg_parsed_done) struct cfg_parsed p;
    (void)parse(&p, ARGS("--bogus", "-h"));
    assert_true(p.help);
    const struct cfg_section section = {.title = "Options", .options = table, .n = COUNT_OF(table)};
    auto_buf struct buf help = BUF_INIT(10000), page = BUF_INIT(10000);
    cfg_print_help(&section, 1, &help);
    cfg_print_markdown(&section, 1, &page);
    assert_non_null(
        strstr(buf_cstr(&help), "  -t, --text TEXT           some text (default none)\n"));
    assert_non_null(strstr(buf_cstr(&help), "      --flag                a flag\n"));
    assert_non_null(strstr(buf_cstr(&help), "which: one, two (default two)"));
    assert_non_null(strstr(buf_cstr(&page), "| `--span-of-time DURATION` | `RAFTSMAN_SPAN_OF_TIME` "
                                            "| `1m30s` | how long |\n"));
    for (size_t i = 0; i < COUNT_OF(table); i++) {
        assert_non_null(strstr(buf_cstr(&help), table[i].name));
        assert_non_null(strstr(buf_cstr(&page), table[i].name));
    }
}

TEST_MAIN(TEST(defaults_apply), TEST(every_spelling_of_a_flag_works),
          TEST(what_was_given_is_told_from_a_default),
          TEST(the_environment_stands_between_flag_and_default),
          TEST(a_problem_names_the_option_and_the_value), TEST(all_problems_are_reported_at_once),
          TEST(help_and_reference_come_from_the_table))
