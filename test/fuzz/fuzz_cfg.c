/* SPDX-License-Identifier: Apache-2.0
 * The command line: arguments separated by NUL bytes. Every problem has a text. */
#include "base/cfg.h"
#include "base/mem.h"
#include "fuzz.h"

struct options {
    bool flag;
    const char *text;
    int64_t number, span_ns, bytes;
    int choice;
};

static const char *const choices[] = {"one", "two", NULL};
static const struct cfg_option table[] = {
    {.name = "flag", .letter = 'f', .type = CFG_BOOL, .offset = offsetof(struct options, flag)},
    {.name = "text", .type = CFG_STR, .offset = offsetof(struct options, text)},
    {.name = "number", .letter = 'n', .type = CFG_INT, .offset = offsetof(struct options, number)},
    {.name = "span", .type = CFG_DURATION, .offset = offsetof(struct options, span_ns)},
    {.name = "bytes", .type = CFG_BYTES, .offset = offsetof(struct options, bytes), .max = 99},
    {.name = "choice",
     .type = CFG_CHOICE,
     .offset = offsetof(struct options, choice),
     .choices = choices},
};

static char *no_env(const char *name)
{
    (void)name;
    return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { ARGS_MAX = 64 };
    auto_free char *text = str_dup((struct str){(const char *)data, size});
    const char *argv[ARGS_MAX];
    int argc = 0;
    for (size_t at = 0; at < size && argc < ARGS_MAX; at += strlen(text + at) + 1)
        argv[argc++] = text + at;

    struct options into = {0};
    const struct cfg_section section = {.options = table, .n = COUNT_OF(table), .into = &into};
    AUTO(cfg_parsed_done) struct cfg_parsed parsed = {0};
    const bool good = cfg_parse(&section, 1, argc, argv, no_env, &parsed);
    FUZZ_CHECK(good == (parsed.problems.n == 0));
    FUZZ_CHECK(parsed.args.n <= (size_t)argc);
    for (size_t i = 0; i < parsed.problems.n; i++)
        FUZZ_CHECK(parsed.problems.v[i][0] != '\0');
    return 0;
}
