/* SPDX-License-Identifier: Apache-2.0
 * Options: one table row feeds the flag, the environment variable, --help and the reference page.
 *
 * Precedence: flag, environment, default. Everything is checked at start and all problems are
 * reported, one line each; afterwards the struct is immutable. A secret is never an option value:
 * it is a CFG_FILE, read when it is used. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

struct buf;

enum cfg_type {
    CFG_BOOL,     /* bool: --x, --x=false */
    CFG_STR,      /* const char *, borrowed from argv or the environment */
    CFG_INT,      /* int64_t within min and max */
    CFG_DURATION, /* int64_t nanoseconds within min and max: "1m30s" */
    CFG_BYTES,    /* int64_t within min and max, written as a quantity: "64Mi" */
    CFG_CHOICE,   /* int: index into choices */
    CFG_FILE,     /* const char *: a file that exists and can be read */
};

struct cfg_option {
    const char *name; /* "log-level" is --log-level and RAFTSMAN_LOG_LEVEL */
    char letter;      /* 0: no short form */
    const char *env;  /* a further variable, for when the first is not set; NULL: none */
    enum cfg_type type;
    size_t offset;              /* where in the caller's struct */
    const char *dflt;           /* written as a user would; NULL: the zero value, shown as none */
    const char *arg;            /* what the value is called in --help; NULL: by type */
    int64_t min, max;           /* both 0: any */
    const char *const *choices; /* ends in NULL */
    const char *help;           /* one sentence, lower case, no stop */
};

/* Options that belong together, and the struct they fill. */
struct cfg_section {
    const char *title;
    const struct cfg_option *options;
    size_t n;
    void *into;
};

struct cfg_parsed {
    VEC(const char *) args;  /* what is no option, in order; borrowed from argv */
    VEC(char *) problems;    /* owned texts, each naming the option and the value */
    VEC(const char *) given; /* names of the options that a flag or a variable set; borrowed */
    bool help;               /* --help or -h was given; problems do not matter then */
};

/* argv without the program's and the subcommand's name. `env` looks a variable up: getenv() in
 * the program, a table in tests. Returns false if there are problems. */
bool cfg_parse(const struct cfg_section *sections, size_t n_sections, int argc,
               const char *const *argv, char *(*env)(const char *name), struct cfg_parsed *out);
void cfg_parsed_done(struct cfg_parsed *p);

/* Whether the option of that name was set by a flag or a variable, be it to its default. */
bool cfg_given(const struct cfg_parsed *p, const char *name);

/* The options as --help shows them, and as a Markdown table for the reference page. */
void cfg_print_help(const struct cfg_section *sections, size_t n_sections, struct buf *out);
void cfg_print_markdown(const struct cfg_section *sections, size_t n_sections, struct buf *out);
