/* SPDX-License-Identifier: Apache-2.0
 * `snapshot get`, `snapshot list` and `snapshot diff`: single keys out of a snapshot, without
 * restoring it. Output is streamed: it may be as large as the snapshot. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* How lists of keys are written to programs; YAML has the shape that output_print() gives it. */
struct form {
    const char *begin, *end;                 /* of the whole */
    const char *next_list, *list, *list_end; /* a list follows its name */
    const char *empty;                       /* the whole of one without items */
    const char *item, *next_item, *item_end; /* the first one, the others */
    const char *object, *field, *object_end; /* fields of an item begin with a line or a comma */
    const char *colon;
};
static const struct form forms[] = {
    [OUTPUT_JSON] = {"{", "}\n", ",", ":[", "]", ":[]", "", ",", "", "{", ",", "}", ":"},
    [OUTPUT_YAML] = {"", "", "", ":\n", "", ": []\n", "  - ", "  - ", "\n", "", "\n    ", "", ": "},
};

static void begin_item(struct buf *out, const struct form *f, const char *list, bool first)
{
    if (first)
        buf_addf(out, "\"%s\"%s%s", list, f->list, f->item);
    else
        buf_add_c(out, f->next_item);
}

static void end_list(struct buf *out, const struct form *f, const char *list, bool empty)
{
    if (empty)
        buf_addf(out, "\"%s\"%s", list, f->empty);
    else
        buf_add_c(out, f->list_end);
}

static void add_base64(struct buf *out, struct str bytes)
{
    buf_add_char(out, '"');
    base64_encode(out, bytes);
    buf_add_char(out, '"');
}

static void add_number(struct buf *out, const struct form *f, const char *name, int64_t value)
{
    buf_addf(out, "%s\"%s\"%s%" PRId64, f->field, name, f->colon, value);
}

static void add_kv(struct buf *out, const struct form *f, const struct mvcc_kv *kv)
{
    buf_addf(out, "%s\"key\"%s", f->object, f->colon);
    add_base64(out, kv->key);
    add_number(out, f, "create_revision", kv->create_revision);
    add_number(out, f, "mod_revision", kv->mod_revision);
    add_number(out, f, "version", kv->version);
    buf_addf(out, "%s\"value\"%s", f->field, f->colon);
    add_base64(out, kv->value);
    add_number(out, f, "lease", kv->lease);
    buf_addf(out, "%s%s", f->object_end, f->item_end);
}

/* What of a key or a value may reach a terminal although it acts upon it; NULL: standard output is
 * none. */
static const char *kept_of(bool is_value)
{
    return isatty(STDOUT_FILENO) != 1 ? NULL : is_value ? "\n\t" : "";
}

/* For people: bytes as they are, unless a terminal would act upon them. */
static void add_text(struct buf *out, struct str s, const char *kept)
{
    while (kept && s.n > 0) {
        const size_t n = utf8_first(s);
        const unsigned char c = (unsigned char)s.p[0];
        const bool acts = n == 0 || c < 0x20 || c == 0x7f ||
                          (n == 2 && c == 0xc2 && (unsigned char)s.p[1] < 0xa0); /* to U+009F */
        const size_t taken = n > 0 ? n : 1;
        if (acts && !(c != '\0' && strchr(kept, c)))
            for (size_t i = 0; i < taken; i++)
                buf_addf(out, "\\x%02x", (unsigned char)s.p[i]);
        else
            buf_add_str(out, str_first(s, taken));
        s = str_from(s, taken);
    }
    buf_add_str(out, s);
    buf_add_char(out, '\n');
}

static int print_kvs(struct livekeys *keys, int output, bool values, struct err *e)
{
    auto_buf struct buf out = BUF_INIT(PRINT_MAX_BYTES);
    const struct form *form = output == OUTPUT_TABLE ? NULL : &forms[output];
    const char *key_kept = kept_of(false), *value_kept = kept_of(true);
    if (form)
        buf_add_c(&out, form->begin);
    for (size_t i = 0; i < keys->n; i++) {
        const struct mvcc_kv kv = livekeys_at(keys, i);
        if (form) {
            begin_item(&out, form, "kvs", i == 0);
            add_kv(&out, form, &kv);
        } else {
            add_text(&out, kv.key, key_kept);
            if (values)
                add_text(&out, kv.value, value_kept);
        }
        if (flush_when_full(&out, e) < 0)
            return -1;
    }
    if (dbfile_check(keys->f, e) < 0)
        return -1;
    if (form) {
        end_list(&out, form, "kvs", keys->n == 0);
        buf_add_c(&out, form->end);
    }
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

static const char *const kinds[] = {
    [DIFF_ADDED] = "added", [DIFF_CHANGED] = "changed", [DIFF_REMOVED] = "removed"};

struct diff_output {
    struct buf *out;
    const struct form *form; /* NULL: for people */
    const char *kept;        /* as kept_of() a key */
    enum diff_kind wanted;   /* programs get one kind after the other */
    bool any;
};

static int on_difference(void *arg, enum diff_kind kind, struct str key, struct err *e)
{
    struct diff_output *d = arg;
    if (!d->form) {
        buf_addf(d->out, "%c ", kind == DIFF_ADDED ? '+' : kind == DIFF_REMOVED ? '-' : '~');
        add_text(d->out, key, d->kept);
    } else if (kind == d->wanted) {
        begin_item(d->out, d->form, kinds[kind], !d->any);
        add_base64(d->out, key);
        buf_add_c(d->out, d->form->item_end);
        d->any = true;
    }
    return flush_when_full(d->out, e);
}

static int print_diff(struct livekeys *a, struct livekeys *b, int output, struct err *e)
{
    auto_buf struct buf out = BUF_INIT(PRINT_MAX_BYTES);
    const struct form *form = output == OUTPUT_TABLE ? NULL : &forms[output];
    struct diff_output d = {.out = &out, .form = form, .kept = kept_of(false)};
    for (size_t i = 0; i < (form ? COUNT_OF(kinds) : 1); i++) {
        if (form)
            buf_add_c(&out, i == 0 ? form->begin : form->next_list);
        d.wanted = (enum diff_kind)i;
        d.any = false;
        if (livekeys_diff(a, b, on_difference, &d, e) < 0)
            return -1;
        if (form)
            end_list(&out, form, kinds[i], !d.any);
    }
    if (form)
        buf_add_c(&out, form->end);
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

static const struct cfg_option output_table[] = {OUTPUT_OPTION(output_formats)};
static const struct cfg_option list_table[] = {
    OUTPUT_OPTION(output_formats),
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
    .about =
        "Prints the key and its value as of the snapshot's last revision. In JSON and YAML keys\n"
        "and values are base64, as etcdctl prints them.",
    .options = output_table,
    .n_options = COUNT_OF(output_table),
    .options_bytes = sizeof(struct output_options),
    .run = run_get,
};

const struct command command_snapshot_list = {
    .name = "snapshot list",
    .args = "FILE [PREFIX]",
    .summary = "print the keys of a snapshot that begin with a prefix",
    .about = "Prints keys in order, as of the snapshot's last revision. In JSON and YAML keys and\n"
             "values are base64, as etcdctl prints them.",
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
             "value or lease differs. In JSON and YAML the keys are base64.",
    .options = output_table,
    .n_options = COUNT_OF(output_table),
    .options_bytes = sizeof(struct output_options),
    .run = run_diff,
};
