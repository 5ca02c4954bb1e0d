/* SPDX-License-Identifier: Apache-2.0
 * --help and the reference page, both from the option tables. */
#include <string.h>

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

static void add_group(const struct command *group, struct buf *out)
{
    buf_addf(out, "Usage: raftsman %s SUBCOMMAND [OPTION...]\n\n%s\n\nSubcommands:\n", group->name,
             group->about);
    for (size_t i = 0; group->below[i]; i++) {
        const char *word = group->below[i]->name + strlen(group->name) + 1;
        buf_addf(out, "  %-12s %s\n", word, group->below[i]->summary);
    }
    buf_addf(out, "\nraftsman %s SUBCOMMAND --help says more.\n", group->name);
}

void help_print_command(const struct command *c, struct buf *out)
{
    if (c->below) {
        add_group(c, out);
        return;
    }
    struct cfg_section sections[2];
    const size_t n = sections_of(c, sections);
    buf_add_c(out, "Usage: ");
    add_usage(c, out);
    buf_addf(out, "\n\n%s\n", c->about);
    cfg_print_help(sections, n, out);
}

static void add_reference(const struct command *c, struct buf *out)
{
    if (c->below) {
        buf_addf(out, "\n## raftsman %s\n\n%s\n", c->name, c->about);
        for (size_t i = 0; c->below[i]; i++)
            add_reference(c->below[i], out);
        return;
    }
    struct cfg_section sections[2];
    const size_t n = sections_of(c, sections);
    buf_addf(out, "\n## raftsman %s\n\n`", c->name);
    add_usage(c, out);
    buf_addf(out, "`\n\n%s\n", c->about);
    cfg_print_markdown(sections, n, out);
}

void help_print_reference(struct buf *out)
{
    buf_add_c(out, "# Command reference\n\nWritten by `raftsman reference`; a test compares.\n");
    for (size_t i = 0; commands[i]; i++)
        add_reference(commands[i], out);
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
