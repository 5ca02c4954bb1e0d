/* SPDX-License-Identifier: Apache-2.0
 * `snapshot get`, `snapshot list` and `snapshot diff`: single keys out of a snapshot, without
 * restoring it. Output is streamed: it may be as large as the snapshot. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/ctx.h"
#include "cli/progress.h"
#include "cli/snapshot.h"
#include "datadir/livekeys.h"

enum { FLUSH_BYTES = 1024 * 1024 };

static int flush(struct buf *out, struct err *e)
{
    if (print_out(out, e) < 0)
        return -1;
    buf_reset(out);
    return 0;
}

static int flush_when_full(struct buf *out, struct err *e)
{
    return out->n >= FLUSH_BYTES ? flush(out, e) : 0;
}

static void add_base64(struct buf *out, struct str bytes)
{
    buf_add_char(out, '"');
    base64_encode(out, bytes);
    buf_add_char(out, '"');
}

static void add_kv_json(struct buf *out, const struct mvcc_kv *kv)
{
    buf_add_c(out, "{\"key\":");
    add_base64(out, kv->key);
    buf_addf(out,
             ",\"create_revision\":%" PRId64 ",\"mod_revision\":%" PRId64 ",\"version\":%" PRId64
             ",\"value\":",
             kv->create_revision, kv->mod_revision, kv->version);
    add_base64(out, kv->value);
    buf_addf(out, ",\"lease\":%" PRId64 "}", kv->lease);
}

static int print_kvs(const struct livekeys *keys, int output, bool values, struct err *e)
{
    auto_buf struct buf out = BUF_INIT(PRINT_MAX_BYTES);
    if (output == OUTPUT_JSON)
        buf_add_c(&out, "{\"kvs\":[");
    for (size_t i = 0; i < keys->n; i++) {
        const struct mvcc_kv kv = livekeys_at(keys, i);
        if (output == OUTPUT_JSON) {
            if (i > 0)
                buf_add_char(&out, ',');
            add_kv_json(&out, &kv);
        } else {
            buf_add_str(&out, kv.key);
            buf_add_char(&out, '\n');
            if (values) {
                buf_add_str(&out, kv.value);
                buf_add_char(&out, '\n');
            }
        }
        if (flush_when_full(&out, e) < 0)
            return -1;
    }
    if (output == OUTPUT_JSON)
        buf_add_c(&out, "]}\n");
    return flush(&out, e);
}

static int find_and_print(const struct ctx *ctx, const char *path, struct str key, bool exact,
                          int output, bool values, struct err *e)
{
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "reading", ctx->clock);
    AUTO(dbfile_done) struct dbfile f = {0};
    AUTO(livekeys_done) struct livekeys keys = {0};
    if (dbfile_open(&f, path, MAPPING_SHARED, e) < 0 ||
        livekeys_find(ctx, &f, key, exact, &line.progress, &keys, e) < 0)
        return -1;
    progress_end(&line);
    if (exact && keys.n == 0)
        return err_set(e, ERR_NOT_FOUND, 0, "%s: no key \"%.*s\"", path, STR_ARG(key));
    return print_kvs(&keys, output, values, e);
}

static int run_get(const struct ctx *ctx, const void *options, size_t n_args,
                   const char *const *args, struct err *e)
{
    const struct output_options *o = options;
    if (need_args(n_args, 2, "a FILE and a KEY", e) < 0)
        return -1;
    return find_and_print(ctx, args[0], str_c(args[1]), true, o->output, true, e);
}

struct list_options {
    struct output_options common;
    bool values;
};

static int run_list(const struct ctx *ctx, const void *options, size_t n_args,
                    const char *const *args, struct err *e)
{
    const struct list_options *o = options;
    if (n_args != 1 && need_args(n_args, 2, "a FILE and a PREFIX", e) < 0)
        return -1;
    const struct str prefix = n_args == 2 ? str_c(args[1]) : (struct str){0};
    return find_and_print(ctx, args[0], prefix, false, o->common.output, o->values, e);
}

/* --- diff --------------------------------------------------------------------------------- */

struct diff_output {
    struct buf *out;
    int output;
    enum diff_kind wanted; /* JSON lists one kind after the other */
    bool any;
};

static int on_difference(void *arg, enum diff_kind kind, struct str key, struct err *e)
{
    struct diff_output *d = arg;
    if (d->output == OUTPUT_TABLE) {
        buf_addf(d->out, "%c ", kind == DIFF_ADDED ? '+' : kind == DIFF_REMOVED ? '-' : '~');
        buf_add_str(d->out, key);
        buf_add_char(d->out, '\n');
    } else if (kind == d->wanted) {
        if (d->any)
            buf_add_char(d->out, ',');
        add_base64(d->out, key);
        d->any = true;
    }
    return flush_when_full(d->out, e);
}

static int print_diff(const struct livekeys *a, const struct livekeys *b, int output, struct err *e)
{
    static const char *const fields[] = {"{\"added\":[", "],\"changed\":[", "],\"removed\":["};
    auto_buf struct buf out = BUF_INIT(PRINT_MAX_BYTES);
    struct diff_output d = {.out = &out, .output = output};
    const size_t passes = output == OUTPUT_JSON ? COUNT_OF(fields) : 1;
    for (size_t i = 0; i < passes; i++) {
        if (output == OUTPUT_JSON)
            buf_add_c(&out, fields[i]);
        d.wanted = (enum diff_kind)i;
        d.any = false;
        if (livekeys_diff(a, b, on_difference, &d, e) < 0)
            return -1;
    }
    if (output == OUTPUT_JSON)
        buf_add_c(&out, "]}\n");
    return flush(&out, e);
}

static int run_diff(const struct ctx *ctx, const void *options, size_t n_args,
                    const char *const *args, struct err *e)
{
    const struct output_options *o = options;
    const struct str all = {0};
    if (need_args(n_args, 2, "two FILEs", e) < 0)
        return -1;
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "comparing", ctx->clock);
    AUTO(dbfile_done) struct dbfile fa = {0}, fb = {0};
    AUTO(livekeys_done) struct livekeys a = {0}, b = {0};
    if (dbfile_open(&fa, args[0], MAPPING_SHARED, e) < 0 ||
        dbfile_open(&fb, args[1], MAPPING_SHARED, e) < 0 ||
        livekeys_find(ctx, &fa, all, false, &line.progress, &a, e) < 0 ||
        livekeys_find(ctx, &fb, all, false, &line.progress, &b, e) < 0)
        return -1;
    progress_end(&line);
    return print_diff(&a, &b, o->output, e);
}

static const struct cfg_option output_table[] = {OUTPUT_OPTION(streamed_formats)};
static const struct cfg_option list_table[] = {
    OUTPUT_OPTION(streamed_formats),
    {
        .name = "values",
        .type = CFG_BOOL,
        .offset = offsetof(struct list_options, values),
        .help = "print each value below its key",
    },
};

const struct command command_snapshot_get = {
    .name = "snapshot get",
    .args = "FILE KEY",
    .summary = "print one key of a snapshot",
    .about = "Prints the key and its value as of the snapshot's last revision. In JSON keys and\n"
             "values are base64, as etcdctl prints them.",
    .options = output_table,
    .n_options = COUNT_OF(output_table),
    .options_bytes = sizeof(struct output_options),
    .run = run_get,
};

const struct command command_snapshot_list = {
    .name = "snapshot list",
    .args = "FILE [PREFIX]",
    .summary = "print the keys of a snapshot that begin with a prefix",
    .about = "Prints keys in order, as of the snapshot's last revision. In JSON keys and values\n"
             "are base64, as etcdctl prints them.",
    .options = list_table,
    .n_options = COUNT_OF(list_table),
    .options_bytes = sizeof(struct list_options),
    .run = run_list,
};

const struct command command_snapshot_diff = {
    .name = "snapshot diff",
    .args = "A B",
    .summary = "keys added, changed and removed from snapshot A to snapshot B",
    .about = "Prints + for keys that only B has, - for keys that only A has, ~ for keys whose\n"
             "value or lease differs. In JSON the keys are base64.",
    .options = output_table,
    .n_options = COUNT_OF(output_table),
    .options_bytes = sizeof(struct output_options),
    .run = run_diff,
};
