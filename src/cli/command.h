/* SPDX-License-Identifier: Apache-2.0
 * What a subcommand is: one file, one struct command, one row in the list of main.c. */
#pragma once
#include <stddef.h>

#include "base/attr.h"
#include "base/cfg.h"
#include "base/err.h"

struct buf;
struct common_options;
struct ctx;

enum { COMMAND_OPTIONS_MAX_BYTES = 1024 };

struct command {
    const char *name;                   /* "snapshot", and "snapshot status" below it */
    const struct command *const *below; /* a group of commands: ends in NULL; it has no run() */
    const char *args;                   /* "quantity|duration|time [VALUE...]" */
    const char *summary;                /* one line, lower case, no stop */
    const char *about;                  /* what --help says below the usage line; may be NULL */
    const struct cfg_option *options;
    size_t n_options;
    size_t options_bytes; /* sizeof the struct the options fill, given to run() */

    /* What the command's own options say about logging: changes *out, which has the defaults.
     * What the common options say wins. NULL: nothing. -1: as run(). */
    int (*logging)(const void *options, struct common_options *out, struct err *e);

    /* Prints its result on standard output. -1: *e is printed as the one line on standard error,
     * and the exit code is 2 for ERR_INVALID (the user's input), 1 for anything else. */
    int (*run)(const struct ctx *ctx, const void *options, size_t n_args, const char *const *args,
               struct err *e);
};

extern const struct command command_convert;
extern const struct command command_etcd;
extern const struct command command_operator;
extern const struct command command_reference;
extern const struct command command_snapshot;

/* Every subcommand of this build; ends in NULL. */
extern const struct command *const commands[];

/* Options every subcommand has, and what they set up. */
struct common_options {
    int log_level;  /* enum log_level */
    int log_format; /* index of log_formats in common.c */
};
extern const struct cfg_option common_option_table[];
extern const size_t common_option_count;

/* The command of a list that is called `word`: its name, or the last word of it. */
const struct command *command_find(const struct command *const *list, const char *word);

void help_print_overview(struct buf *out);
void help_print_command(const struct command *c, struct buf *out);
void help_print_reference(struct buf *out); /* Markdown */

/* Writes to standard output; a closed pipe is an error like any other. */
NODISCARD int print_out(const struct buf *text, struct err *e);
