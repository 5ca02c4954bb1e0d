/* SPDX-License-Identifier: Apache-2.0
 * `snapshot verify`: everything that can be checked in a file, and where it is wrong. What can
 * and what cannot be seen is in docs/snapshots.md. */
#include <inttypes.h>
#include <stdio.h>

#include "base/ctx.h"
#include "cli/progress.h"
#include "cli/snapshot.h"
#include "datadir/scan.h"

enum { PROBLEMS_MAX = 1000 };

struct verdict {
    json_t *problems; /* {"where","what"} */
    size_t n;
};

static void verdict_done(struct verdict *v)
{
    json_decref(v->problems);
}

/* The text says the page too; `where` is for programs. */
static void add_problem(struct verdict *v, const char *where, const char *what)
{
    v->n++;
    if (v->n <= PROBLEMS_MAX)
        (void)json_array_append_new(v->problems, JOBJ(J("where", js(where)), J("what", js(what))));
}

static int on_finding(void *arg, const struct scan_finding *finding, struct err *e)
{
    (void)e;
    char where[32];
    (void)snprintf(where, sizeof(where), "page %" PRIu64, finding->page);
    add_problem(arg, where, finding->what);
    return 0;
}

/* 0 also for damage, which is in *v then. */
static int verify(const struct ctx *ctx, const char *path, struct verdict *v,
                  struct scan_result *out, bool *out_hash, struct err *e)
{
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "verifying", ctx->clock);
    AUTO(dbfile_done) struct dbfile f = {0};
    if (dbfile_open(&f, path, MAPPING_SHARED, e) < 0) {
        if (e->code != ERR_CORRUPT)
            return -1;
        add_problem(v, "page 0", e->text);
        return 0;
    }
    AUTO(dbfile_hash_done) struct dbfile_hash hash = {0};
    dbfile_hash_begin(&hash, ctx);
    if (f.has_hash && dbfile_hash_start(&hash, &f.map, 0, f.n, NULL, e) < 0)
        return -1;
    const struct scan_options o = {.hash = true,
                                   .keys = true,
                                   .strict = true,
                                   .history = true,
                                   .progress = &line.progress,
                                   .found = on_finding,
                                   .arg = v};
    if (scan_db(ctx, &f, &o, out, e) < 0)
        return -1;
    *out_hash = f.has_hash;
    if (f.has_hash && dbfile_hash_check(&hash, &f, e) < 0) {
        if (e->code != ERR_CORRUPT)
            return -1;
        add_problem(v, "hash", e->text);
    }
    return 0;
}

static int print_verdict(const char *path, const struct verdict *v, const struct scan_result *r,
                         bool has_hash, int output, struct err *e)
{
    if (output != OUTPUT_TABLE) {
        json_auto_t *value =
            JOBJ(J("ok", jb(v->n == 0)), J("hashed", jb(has_hash)), J("revision", ji(r->revision)),
                 J("problems", json_incref(v->problems)),
                 J_IF(v->n > PROBLEMS_MAX, "more", ji((int64_t)(v->n - PROBLEMS_MAX))));
        return output_print(value, "", NULL, (enum output_format)output, e);
    }
    auto_buf struct buf out = BUF_INIT(PRINT_MAX_BYTES);
    size_t i = 0;
    const json_t *p = NULL;
    json_array_foreach(v->problems, i, p) buf_addf(&out, "%s\n", jstr(p, "what", ""));
    if (v->n > PROBLEMS_MAX)
        buf_addf(&out, "and %zu more\n", v->n - PROBLEMS_MAX);
    if (v->n == 0)
        buf_addf(&out, "%s: ok, revision %" PRId64 ", %" PRIu64 " keys%s\n", path, r->revision,
                 r->total_keys,
                 has_hash ? "" : " (no hash at its end: changes inside values cannot be seen)");
    return print_out(&out, e);
}

static int run_verify(const struct ctx *ctx, const void *options, size_t n_args,
                      const char *const *args, struct err *e)
{
    const struct output_options *o = options;
    if (need_args(n_args, 1, "one FILE", e) < 0)
        return -1;
    AUTO(verdict_done) struct verdict v = {.problems = JARR()};
    struct scan_result r = {0};
    bool has_hash = false;
    if (verify(ctx, args[0], &v, &r, &has_hash, e) < 0 ||
        print_verdict(args[0], &v, &r, has_hash, o->output, e) < 0)
        return -1;
    if (v.n > 0)
        return err_set(e, ERR_CORRUPT, 0, "%s: problems found: %zu", args[0], v.n);
    return 0;
}

static const struct cfg_option output_table[] = {OUTPUT_OPTION(output_formats)};

const struct command command_snapshot_verify = {
    .name = "snapshot verify",
    .args = "FILE",
    .summary = "find any damage in a snapshot and say where it is",
    .about = "Checks the SHA-256 at the end of FILE, every page, every entry, revisions and\n"
             "leases. Prints each problem with its page; exit code 1 if there is one.",
    .options = output_table,
    .n_options = COUNT_OF(output_table),
    .options_bytes = sizeof(struct output_options),
    .run = run_verify,
};
