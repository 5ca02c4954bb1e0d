/* SPDX-License-Identifier: Apache-2.0
 * Kubernetes quantities, Go durations and RFC 3339 times in their canonical form, for scripts
 * and for asking "what does the operator make of this value". */
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/log.h"
#include "base/quantity.h"
#include "base/time.h"
#include "cli/command.h"

enum { ARGS_MAX_BYTES = 16 * 1024 * 1024 };

struct options {
    const char *file;
    int64_t max_input_bytes;
    int64_t timeout_ns;
};

static const struct cfg_option table[] = {
    {
        .name = "file",
        .letter = 'f',
        .type = CFG_FILE,
        .offset = offsetof(struct options, file),
        .help = "also read values from this file, one per line (/dev/stdin for a pipe)",
    },
    {
        .name = "max-input",
        .type = CFG_BYTES,
        .offset = offsetof(struct options, max_input_bytes),
        .dflt = "16Mi",
        .min = 1,
        .max = INT64_C(1) << 30,
        .help = "refuse a larger file",
    },
    {
        .name = "timeout",
        .type = CFG_DURATION,
        .offset = offsetof(struct options, timeout_ns),
        .dflt = "30s",
        .min = DURATION_MS,
        .max = 3600 * DURATION_S,
        .help = "give up reading after this long",
    },
};

static int convert_quantity(struct str value, struct buf *out, struct err *e)
{
    struct quantity q;
    if (quantity_parse(value, &q, e) < 0)
        return -1;
    char text[QUANTITY_TEXT_MAX];
    buf_add_c(out, quantity_print(&q, text));
    return 0;
}

static int convert_duration(struct str value, struct buf *out, struct err *e)
{
    int64_t ns = 0;
    if (duration_parse(value, &ns, e) < 0)
        return -1;
    char text[DURATION_TEXT_MAX];
    buf_add_c(out, duration_print(ns, text));
    return 0;
}

static int convert_time(struct str value, struct buf *out, struct err *e)
{
    int64_t at_us = 0;
    if (time_parse(value, &at_us, e) < 0)
        return -1;
    char text[TIME_TEXT_MAX];
    buf_add_c(out, time_print(at_us, at_us % 1000000 == 0 ? TIME_SECONDS : TIME_MICROS, text));
    return 0;
}

static const struct kind {
    const char *name;
    int (*convert)(struct str value, struct buf *out, struct err *e);
} kinds[] = {
    {"quantity", convert_quantity},
    {"duration", convert_duration},
    {"time", convert_time},
};

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static int convert_one(const struct kind *k, struct str value, struct buf *out, struct err *e)
{
    if (k->convert(value, out, e) < 0)
        return -1;
    buf_add_char(out, '\n');
    return 0;
}

static int convert_lines(const struct kind *k, struct str text, struct buf *out, struct err *e)
{
    for (size_t line_no = 1; text.n > 0; line_no++) {
        struct str line;
        (void)str_cut(text, '\n', &line, &text);
        line = str_trim(line);
        if (line.n > 0 && convert_one(k, line, out, e) < 0)
            return err_wrap(e, "line %zu", line_no);
    }
    return 0;
}

static int run(const struct ctx *parent, const void *opts, size_t n_args, const char *const *args,
               struct err *e)
{
    const struct options *o = opts;
    const struct ctx ctx = ctx_with_timeout(parent, o->timeout_ns / DURATION_MS);
    if (n_args == 0)
        return err_set(e, ERR_INVALID, 0, "say what to convert: quantity, duration or time");
    const struct kind *k = find_kind(args[0]);
    if (!k)
        return err_set(e, ERR_INVALID, 0, "\"%s\" is none of quantity, duration, time", args[0]);

    /* Everything is converted before anything is printed: all or nothing. The longest output for
     * its input is "8Ei": 19 digits, and the arguments have the kernel's own ceiling. */
    auto_buf struct buf out = BUF_INIT((size_t)o->max_input_bytes * 8 + ARGS_MAX_BYTES);
    for (size_t i = 1; i < n_args; i++)
        if (convert_one(k, str_c(args[i]), &out, e) < 0)
            return -1;
    if (o->file) {
        auto_buf struct buf text = BUF_INIT((size_t)o->max_input_bytes);
        if (file_read(&ctx, o->file, &text, e) < 0)
            return -1;
        log_debug(ctx.log, "file read", KV("file", o->file), KV_U64("bytes", text.n));
        if (convert_lines(k, buf_str(&text), &out, e) < 0)
            return err_wrap(e, "%s", o->file);
    }
    return print_out(&out, e);
}

const struct command command_convert = {
    .name = "convert",
    .args = "quantity|duration|time [VALUE...]",
    .summary = "print Kubernetes quantities, durations or times in canonical form",
    .about = "Prints each value in the form Kubernetes itself stores: 1536Mi, 1h30m0s,\n"
             "2026-01-02T15:04:05Z. One bad value, and nothing is printed.",
    .options = table,
    .n_options = COUNT_OF(table),
    .options_bytes = sizeof(struct options),
    .run = run,
};
