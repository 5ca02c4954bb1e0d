/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cfg.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/quantity.h"
#include "base/time.h"

enum { NAME_MAX_BYTES = 80 };

static void *field_of(const struct cfg_section *s, const struct cfg_option *o)
{
    return (char *)s->into + o->offset;
}

static const char *env_name(const struct cfg_option *o, char out[NAME_MAX_BYTES])
{
    (void)snprintf(out, NAME_MAX_BYTES, "RAFTSMAN_%s", o->name);
    for (char *c = out; *c; c++) {
        if (*c == '-')
            *c = '_';
        else if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    }
    return out;
}

/* --- Values ------------------------------------------------------------------------------- */

static int set_bool(struct str value, bool *out, struct err *e)
{
    if (str_eq(value, STR("true")) || str_eq(value, STR("1")))
        *out = true;
    else if (str_eq(value, STR("false")) || str_eq(value, STR("0")))
        *out = false;
    else
        return err_set(e, ERR_INVALID, 0, "\"%.*s\" is neither true nor false", STR_ARG(value));
    return 0;
}

static const char *print_number(const struct cfg_option *o, int64_t n, char out[DURATION_TEXT_MAX])
{
    if (o->type == CFG_DURATION)
        return duration_print(n, out);
    (void)snprintf(out, DURATION_TEXT_MAX, "%" PRId64, n);
    return out;
}

static int set_number(const struct cfg_option *o, struct str value, int64_t *out, struct err *e)
{
    int64_t n = 0;
    if (o->type == CFG_DURATION) {
        if (duration_parse(value, &n, e) < 0)
            return -1;
    } else if (o->type == CFG_BYTES) {
        struct quantity q;
        if (quantity_parse(value, &q, e) < 0)
            return -1;
        n = quantity_ceil(&q);
    } else if (!str_i64(value, &n)) {
        return err_set(e, ERR_INVALID, 0, "\"%.*s\" is not a whole number", STR_ARG(value));
    }
    if ((o->min != 0 || o->max != 0) && (n < o->min || n > o->max)) {
        char low[DURATION_TEXT_MAX], high[DURATION_TEXT_MAX];
        return err_set(e, ERR_INVALID, 0, "\"%.*s\" is outside %s to %s", STR_ARG(value),
                       print_number(o, o->min, low), print_number(o, o->max, high));
    }
    *out = n;
    return 0;
}

static int set_choice(const struct cfg_option *o, struct str value, int *out, struct err *e)
{
    for (int i = 0; o->choices[i]; i++) {
        if (str_eq(value, str_c(o->choices[i]))) {
            *out = i;
            return 0;
        }
    }
    auto_buf struct buf list = BUF_INIT(400);
    for (int i = 0; o->choices[i]; i++)
        buf_addf(&list, "%s%s", i > 0 ? ", " : "", o->choices[i]);
    return err_set(e, ERR_INVALID, 0, "\"%.*s\" is none of %s", STR_ARG(value), buf_cstr(&list));
}

static int set_file(const char *value, const char **out, struct err *e)
{
    if (access(value, R_OK) < 0)
        return err_set_errno(e, errno, "\"%s\"", value);
    *out = value;
    return 0;
}

static int set_value(const struct cfg_section *s, const struct cfg_option *o, const char *value,
                     struct err *e)
{
    void *field = field_of(s, o);
    switch (o->type) {
    case CFG_BOOL:
        return set_bool(str_c(value), field, e);
    case CFG_STR:
        *(const char **)field = value;
        return 0;
    case CFG_INT:
    case CFG_DURATION:
    case CFG_BYTES:
        return set_number(o, str_c(value), field, e);
    case CFG_CHOICE:
        return set_choice(o, str_c(value), field, e);
    case CFG_FILE:
        return set_file(value, field, e);
    }
    return err_set(e, ERR_BUG, 0, "option type %d", (int)o->type);
}

/* --- Sources ------------------------------------------------------------------------------
 * Flags are collected first, as text; then each option is set once, from the first source that
 * has it. So a flag overrides a variable without the variable having to be valid. */

struct parse {
    const struct cfg_section *sections;
    size_t n_sections;
    const char **flags; /* what each option was given on the command line, in table order */
    struct cfg_parsed *out;
};

static void problem(struct parse *p, const char *fmt, ...) FORMAT(2, 3);
static void problem(struct parse *p, const char *fmt, ...)
{
    struct err text = {0};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text.text, sizeof(text.text), fmt, ap);
    va_end(ap);
    vec_push(&p->out->problems, xstrdup(text.text));
}

/* The option called --name or -letter and its place in p->flags; NULL if there is none. */
static const struct cfg_option *find_option(const struct parse *p, struct str name, char letter,
                                            size_t *out_index)
{
    size_t index = 0;
    for (size_t i = 0; i < p->n_sections; i++) {
        for (size_t k = 0; k < p->sections[i].n; k++, index++) {
            const struct cfg_option *o = &p->sections[i].options[k];
            if (letter ? o->letter == letter : str_eq(name, str_c(o->name))) {
                *out_index = index;
                return o;
            }
        }
    }
    return NULL;
}

/* Takes argv[at], which begins with a dash, and the value behind it if it needs one. Returns how
 * many arguments were used. "-x VALUE" and "--name VALUE" and "--name=VALUE". */
static int take_flag(struct parse *p, int argc, const char *const *argv, int at)
{
    const char *arg = argv[at];
    const bool is_long = arg[1] == '-';
    struct str name = {0}, inline_value = {0};
    const bool has_inline = is_long && str_cut(str_c(arg + 2), '=', &name, &inline_value);
    const char letter = is_long ? '\0' : arg[1];

    if (str_eq(str_c(arg), STR("--help")) || str_eq(str_c(arg), STR("-h"))) {
        p->out->help = true;
        return 1;
    }
    size_t index = 0;
    const struct cfg_option *o = find_option(p, name, letter, &index);
    if (!o || (!is_long && arg[2] != '\0')) {
        problem(p, "unknown option %s", arg);
        return 1;
    }
    if (has_inline) {
        p->flags[index] = inline_value.p;
        return 1;
    }
    if (o->type == CFG_BOOL) {
        p->flags[index] = "true";
        return 1;
    }
    if (at + 1 >= argc) {
        problem(p, "%s: a value is missing", arg);
        return 1;
    }
    p->flags[index] = argv[at + 1];
    return 2;
}

static void take_arguments(struct parse *p, int argc, const char *const *argv)
{
    bool only_args = false; /* behind "--" */
    for (int i = 0; i < argc;) {
        if (!only_args && strcmp(argv[i], "--") == 0) {
            only_args = true;
            i++;
        } else if (!only_args && argv[i][0] == '-' && argv[i][1] != '\0') {
            i += take_flag(p, argc, argv, i);
        } else {
            vec_push(&p->out->args, argv[i++]); /* "-" alone is an argument: standard input */
        }
    }
}

static void set_option(struct parse *p, const struct cfg_section *s, const struct cfg_option *o,
                       const char *flag, char *(*env)(const char *name))
{
    struct err e = {0};
    char variable[NAME_MAX_BYTES];
    const char *from_env = env(env_name(o, variable));
    if (!from_env && o->env) {
        (void)snprintf(variable, sizeof(variable), "%s", o->env);
        from_env = env(variable);
    }
    if (flag || from_env)
        vec_push(&p->out->given, o->name);
    if (flag) {
        if (set_value(s, o, flag, &e) < 0)
            problem(p, "--%s: %s", o->name, e.text);
    } else if (from_env) {
        if (set_value(s, o, from_env, &e) < 0)
            problem(p, "%s: %s", variable, e.text);
    } else if (o->dflt && set_value(s, o, o->dflt, &e) < 0) {
        problem(p, "default of --%s: %s", o->name, e.text); /* our bug: tests parse every table */
    }
}

bool cfg_parse(const struct cfg_section *sections, size_t n_sections, int argc,
               const char *const *argv, char *(*env)(const char *name), struct cfg_parsed *out)
{
    *out = (struct cfg_parsed){0};
    size_t n_options = 0;
    for (size_t i = 0; i < n_sections; i++)
        n_options += sections[i].n;
    auto_free const char **flags = xcalloc(n_options + 1, sizeof(*flags));
    struct parse p = {.sections = sections, .n_sections = n_sections, .flags = flags, .out = out};

    take_arguments(&p, argc, argv);
    size_t index = 0;
    for (size_t i = 0; i < n_sections; i++)
        for (size_t k = 0; k < sections[i].n; k++)
            set_option(&p, &sections[i], &sections[i].options[k], flags[index++], env);
    return out->problems.n == 0;
}

void cfg_parsed_done(struct cfg_parsed *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->problems.n; i++)
        free(p->problems.v[i]);
    vec_done(&p->problems);
    vec_done(&p->given);
    vec_done(&p->args);
}

bool cfg_given(const struct cfg_parsed *p, const char *name)
{
    for (size_t i = 0; i < p->given.n; i++)
        if (strcmp(p->given.v[i], name) == 0)
            return true;
    return false;
}

/* --- Documentation ------------------------------------------------------------------------- */

static const char *arg_name(const struct cfg_option *o)
{
    static const char *const by_type[] = {
        [CFG_BOOL] = NULL,           [CFG_STR] = "TEXT",  [CFG_INT] = "N",
        [CFG_DURATION] = "DURATION", [CFG_BYTES] = "QTY", [CFG_CHOICE] = "NAME",
        [CFG_FILE] = "FILE",
    };
    return o->arg ? o->arg : by_type[o->type];
}

static void add_choices(const struct cfg_option *o, struct buf *out)
{
    for (int i = 0; o->type == CFG_CHOICE && o->choices[i]; i++)
        buf_addf(out, "%s%s", i > 0 ? ", " : ": ", o->choices[i]);
}

void cfg_print_help(const struct cfg_section *sections, size_t n_sections, struct buf *out)
{
    enum { HELP_COLUMN = 28 };
    for (size_t i = 0; i < n_sections; i++) {
        buf_addf(out, "\n%s:\n", sections[i].title);
        for (size_t k = 0; k < sections[i].n; k++) {
            const struct cfg_option *o = &sections[i].options[k];
            const size_t begin = out->n;
            if (o->letter)
                buf_addf(out, "  -%c, --%s", o->letter, o->name);
            else
                buf_addf(out, "      --%s", o->name);
            if (arg_name(o))
                buf_addf(out, " %s", arg_name(o));
            const size_t width = out->n - begin;
            buf_addf(out, "%*s", (int)(width + 2 < HELP_COLUMN ? HELP_COLUMN - width : 2), "");
            buf_add_c(out, o->help);
            add_choices(o, out);
            if (o->dflt)
                buf_addf(out, " (default %s)", o->dflt);
            if (o->env)
                buf_addf(out, " (also %s)", o->env);
            buf_add_char(out, '\n');
        }
    }
    buf_add_c(out, "\nEach option can also be set by a variable: --log-level is "
                   "RAFTSMAN_LOG_LEVEL.\n");
}

void cfg_print_markdown(const struct cfg_section *sections, size_t n_sections, struct buf *out)
{
    for (size_t i = 0; i < n_sections; i++) {
        buf_addf(out, "\n**%s**\n\n| Option | Variable | Default | Meaning |\n|---|---|---|---|\n",
                 sections[i].title);
        for (size_t k = 0; k < sections[i].n; k++) {
            const struct cfg_option *o = &sections[i].options[k];
            char variable[NAME_MAX_BYTES];
            buf_add_c(out, "| `");
            if (o->letter)
                buf_addf(out, "-%c`, `", o->letter);
            buf_addf(out, "--%s%s%s` | `%s`", o->name, arg_name(o) ? " " : "",
                     arg_name(o) ? arg_name(o) : "", env_name(o, variable));
            if (o->env)
                buf_addf(out, ", `%s`", o->env);
            buf_add_c(out, " | ");
            if (o->dflt)
                buf_addf(out, "`%s`", o->dflt);
            buf_addf(out, " | %s", o->help);
            add_choices(o, out);
            buf_add_c(out, " |\n");
        }
    }
}
