/* SPDX-License-Identifier: Apache-2.0
 * --help and the reference page, both from the option tables. */
#include "base/buf.h"
#include "base/ctx.h"
#include "cli/command.h"

enum { REFERENCE_MAX_BYTES = 256 * 1024 };

static size_t sections_of(const struct command *c, struct cfg_section out[2])
{
    const struct cfg_section own = {.title = "Options", .options = c->options, .n = c->n_options};
    const struct cfg_section common = {
        .title = "Common options", .options = common_option_table, .n = common_option_count};
    out[0] = own.n > 0 ? own : common;
    out[1] = common;
    return own.n > 0 ? 2 : 1;
}

void help_print_overview(struct buf *out)
{
    buf_add_c(out, "raftsman " RAFTSMAN_VERSION " runs etcd clusters.\n\n"
                   "Usage: raftsman SUBCOMMAND [OPTION...]\n\nSubcommands:\n");
    for (size_t i = 0; commands[i]; i++)
        buf_addf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    buf_add_c(out,
              "\nraftsman SUBCOMMAND --help says more; raftsman --version prints the version.\n");
}

static void add_usage(const struct command *c, struct buf *out)
{
    buf_addf(out, "raftsman %s%s%s [OPTION...]", c->name, c->args ? " " : "",
             c->args ? c->args : "");
}

void help_print_command(const struct command *c, struct buf *out)
{
    struct cfg_section sections[2];
    const size_t n = sections_of(c, sections);
    buf_add_c(out, "Usage: ");
    add_usage(c, out);
    buf_addf(out, "\n\n%s\n", c->about);
    cfg_print_help(sections, n, out);
}

void help_print_reference(struct buf *out)
{
    buf_add_c(out, "# Command reference\n\nWritten by `raftsman reference`; a test compares.\n");
    for (size_t i = 0; commands[i]; i++) {
        const struct command *c = commands[i];
        struct cfg_section sections[2];
        const size_t n = sections_of(c, sections);
        buf_addf(out, "\n## raftsman %s\n\n`", c->name);
        add_usage(c, out);
        buf_addf(out, "`\n\n%s\n", c->about);
        cfg_print_markdown(sections, n, out);
    }
}

static int run(const struct ctx *ctx, const void *options, size_t n_args, const char *const *args,
               struct err *e)
{
    (void)ctx;
    (void)options;
    if (n_args > 0)
        return err_set(e, ERR_INVALID, 0, "unexpected argument %s", args[0]);
    auto_buf struct buf text = BUF_INIT(REFERENCE_MAX_BYTES);
    help_print_reference(&text);
    return print_out(&text, e);
}

const struct command command_reference = {
    .name = "reference",
    .summary = "print every subcommand and option as a Markdown page",
    .about = "Prints the reference page of this build: docs/reference.md in the source.",
    .run = run,
};
