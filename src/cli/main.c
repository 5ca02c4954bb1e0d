/* SPDX-License-Identifier: Apache-2.0
 * Finds the subcommand, reads its options, runs it under a context that SIGINT, SIGTERM
 * and SIGHUP cancel, and turns its error into one line and an exit code. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/command.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum { HELP_MAX_BYTES = 256 * 1024 };

const struct command *const commands[] = {
    &command_convert, &command_etcd, &command_operator, &command_reference, &command_snapshot, NULL,
};

/* Other names the binary may be installed under, and the subcommand each stands for. */
static const struct {
    const char *program;
    const char *command;
} program_names[] = {
    {"manager", "operator"}, /* the upstream operator's image runs /manager */
    {"kubectl-etcd", "etcd"},
    {"etcdbrctl", "agent"},
};

static struct cancel interrupted;

static void on_signal(int number)
{
    (void)number;
    cancel_fire(&interrupted);
}

static int catch_signals(struct err *e)
{
    if (cancel_init(&interrupted, e) < 0)
        return -1;
    const struct sigaction stop = {.sa_handler = on_signal};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGINT, &stop, NULL); /* fail only for bad signal numbers */
    (void)sigaction(SIGTERM, &stop, NULL);
    struct sigaction was;
    if (sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler != SIG_IGN) /* nohup stays nohup */
        (void)sigaction(SIGHUP, &stop, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL); /* a closed pipe is a write error, not a death */
    return 0;
}

int print_out(const struct buf *text, struct err *e)
{
    if (buf_check(text, "output", e) < 0)
        return -1;
    if (file_write_all(STDOUT_FILENO, buf_str(text), e) < 0)
        return err_wrap(e, "standard output");
    return 0;
}

const struct command *command_find(const struct command *const *list, const char *word)
{
    for (size_t i = 0; list[i]; i++) {
        const char *space = strrchr(list[i]->name, ' ');
        if (strcmp(space ? space + 1 : list[i]->name, word) == 0)
            return list[i];
    }
    return NULL;
}

static int fail(const struct command *c, const struct err *e)
{
    (void)fprintf(stderr, "raftsman%s%s: %s\n", c ? " " : "", c ? c->name : "", e->text);
    return e->code == ERR_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

static int print_and_exit(void (*print)(struct buf *out))
{
    auto_buf struct buf text = BUF_INIT(HELP_MAX_BYTES);
    print(&text);
    struct err e = {0};
    return print_out(&text, &e) < 0 ? fail(NULL, &e) : EXIT_SUCCESS;
}

static int print_command_help(const struct command *c)
{
    auto_buf struct buf text = BUF_INIT(HELP_MAX_BYTES);
    help_print_command(c, &text);
    struct err e = {0};
    return print_out(&text, &e) < 0 ? fail(c, &e) : EXIT_SUCCESS;
}

/* The common options where they were given, otherwise what the command's own say. */
static int settle_logging(const struct command *c, const void *options,
                          const struct cfg_parsed *parsed, struct common_options *common,
                          struct err *e)
{
    struct common_options own = *common;
    if (c->logging && c->logging(options, &own, e) < 0)
        return -1;
    if (!cfg_given(parsed, "log-level"))
        common->log_level = own.log_level;
    if (!cfg_given(parsed, "log-format"))
        common->log_format = own.log_format;
    return 0;
}

static int run_parsed(const struct command *c, struct common_options *common, const void *options,
                      const struct cfg_parsed *parsed)
{
    struct err e = {0};
    if (settle_logging(c, options, parsed, common, &e) < 0 || catch_signals(&e) < 0)
        return fail(c, &e);
    const enum log_format format = common->log_format == 0
                                       ? (isatty(STDERR_FILENO) ? LOG_TEXT : LOG_JSON)
                                       : (enum log_format)(common->log_format - 1);
    struct log_sink sink;
    log_sink_init(&sink, STDERR_FILENO, format, (enum log_level)common->log_level, &clock_real);
    const struct log root = {.sink = &sink};
    const struct log lg = LOG_WITH(&root, KV("command", c->name));
    const struct ctx plain = ctx_root(&clock_real, &lg);
    const struct ctx ctx = ctx_with_cancel(&plain, &interrupted);

    const int rc = c->run(&ctx, options, parsed->args.n, parsed->args.v, &e);
    log_sink_done(&sink);
    return rc < 0 ? fail(c, &e) : EXIT_SUCCESS;
}

static int run_command(const struct command *c, int argc, const char *const *argv)
{
    struct common_options common = {0};
    _Alignas(max_align_t) char options[COMMAND_OPTIONS_MAX_BYTES] = {0};
    if (c->options_bytes > sizeof(options))
        abort();
    const struct cfg_section sections[] = {
        {.options = c->options, .n = c->n_options, .into = options},
        {.options = common_option_table, .n = common_option_count, .into = &common},
    };
    AUTO(cfg_parsed_done) struct cfg_parsed parsed = {0};
    const bool good = cfg_parse(sections, COUNT_OF(sections), argc, argv, getenv, &parsed);
    if (parsed.help)
        return print_command_help(c);
    if (!good) {
        for (size_t i = 0; i < parsed.problems.n; i++)
            (void)fprintf(stderr, "raftsman %s: %s\n", c->name, parsed.problems.v[i]);
        return EXIT_USAGE;
    }
    return run_parsed(c, &common, options, &parsed);
}

/* `raftsman snapshot status …`: the second word selects from the group. */
static int run_group(const struct command *group, int argc, const char *const *argv)
{
    if (argc == 0) {
        (void)fprintf(stderr, "raftsman %s: a subcommand is missing; see raftsman %s --help\n",
                      group->name, group->name);
        return EXIT_USAGE;
    }
    if (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0)
        return print_command_help(group);
    const struct command *c = command_find(group->below, argv[0]);
    if (c)
        return run_command(c, argc - 1, argv + 1);
    (void)fprintf(stderr, "raftsman %s: unknown subcommand %s; see raftsman %s --help\n",
                  group->name, argv[0], group->name);
    return EXIT_USAGE;
}

/* The subcommand that the program's own name stands for, or NULL if it is called by its own. */
static const char *command_of_program(const char *argv0)
{
    const char *slash = strrchr(argv0, '/');
    const char *program = slash ? slash + 1 : argv0;
    for (size_t i = 0; i < COUNT_OF(program_names); i++)
        if (strcmp(program, program_names[i].program) == 0)
            return program_names[i].command;
    return NULL;
}

static int print_version(void)
{
    struct err e = {0};
    auto_buf struct buf text = BUF_INIT(HELP_MAX_BYTES);
    buf_add_c(&text, "raftsman " RAFTSMAN_VERSION "\n");
    return print_out(&text, &e) < 0 ? fail(NULL, &e) : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    mem_setup();
    json_setup();
    const char *const *args = (const char *const *)argv + 1;
    int n_args = argc > 0 ? argc - 1 : 0;
    const char *name = argc > 0 ? command_of_program(argv[0]) : NULL;
    const bool by_program = name != NULL;

    if (!name) {
        if (n_args == 0) {
            (void)fprintf(stderr, "raftsman: a subcommand is missing; see raftsman --help\n");
            return EXIT_USAGE;
        }
        name = args[0];
        args++;
        n_args--;
    }
    if (strcmp(name, "--version") == 0 || (n_args == 1 && strcmp(args[0], "--version") == 0))
        return print_version();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return print_and_exit(help_print_overview);

    const struct command *c = command_find(commands, name);
    if (c)
        return c->below ? run_group(c, n_args, args) : run_command(c, n_args, args);
    if (by_program)
        (void)fprintf(stderr,
                      "raftsman: called as %s, which is the subcommand \"%s\": this version does "
                      "not have it\n",
                      argv[0], name);
    else
        (void)fprintf(stderr, "raftsman: unknown %s %s; see raftsman --help\n",
                      name[0] == '-' ? "option" : "subcommand", name);
    return EXIT_USAGE;
}
