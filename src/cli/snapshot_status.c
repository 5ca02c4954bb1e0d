/* SPDX-License-Identifier: Apache-2.0
 * `snapshot status` and `snapshot hashkv`: what a file or a data directory says about itself.
 * Field names in JSON are etcdutl's where it has them. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/snapshot.h"
#include "datadir/hashkv.h"
#include "datadir/inspect.h"
#include "datadir/scan.h"

/* --- status of a file --------------------------------------------------------------------- */

static const struct output_column file_columns[] = {
    {"HASH", "hash"},       {"REVISION", "revision"}, {"TOTAL KEYS", "keys"},
    {"TOTAL SIZE", "size"}, {"VERSION", "version"},   {NULL, NULL},
};

static int print_file_status(const struct scan_result *r, int output, struct err *e)
{
    char size[32];
    const char *version = r->meta.storage_version;
    return print_result(JOBJ(J("hash", ji(r->hash)), J("revision", ji(r->revision)),
                             J("totalKey", ji((int64_t)r->total_keys)),
                             J("totalSize", ji((int64_t)r->total_bytes)),
                             J("version", js(version))),
                        JOBJ(J("hash", jsf("%" PRIx32, r->hash)), J("revision", ji(r->revision)),
                             J("keys", ji((int64_t)r->total_keys)),
                             J("size", js(human_bytes(r->total_bytes, size))),
                             J("version", js(*version ? version : "-"))),
                        file_columns, output, e);
}

static int file_status(const struct ctx *ctx, const char *path, int output, struct err *e)
{
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "reading", ctx->clock);
    AUTO(dbfile_done) struct dbfile f = {0};
    struct scan_result r;
    const struct scan_options o = {.hash = true, .keys = true, .progress = &line.progress};
    if (dbfile_open(&f, path, MAPPING_SHARED, e) < 0)
        return -1;
    mapping_look_ahead(&f.map, MAPPING_REMEMBER);
    if (scan_db(ctx, &f, &o, &r, e) < 0)
        return -1;
    progress_end(&line);
    return print_file_status(&r, output, e);
}

/* --- status of a directory ---------------------------------------------------------------- */

static json_t *problem_list(const struct inspection *i)
{
    json_t *list = JARR();
    for (size_t k = 0; k < i->problems.n; k++)
        (void)json_array_append_new(list, js(i->problems.v[k])); /* aborts when memory is gone */
    return list;
}

static json_t *dir_value(const struct inspection *i)
{
    const struct db_meta *m = &i->db.meta;
    return JOBJ(
        J("clusterID", jsf("%" PRIx64, i->wal.metadata.cluster_id)),
        J("memberID", jsf("%" PRIx64, i->wal.metadata.node_id)),
        J("term", ji((int64_t)i->wal.state.term)),
        J("commitIndex", ji((int64_t)i->wal.state.commit)),
        J("lastIndex", ji((int64_t)i->wal.last_index)),
        J("snapshotIndex", ji((int64_t)i->snap.index)),
        J("consistentIndex", ji((int64_t)m->consistent_index)),
        J("revision", ji(i->has_db ? db_current_revision(m, i->db.revision) : 0)),
        J("compactRevision", ji(i->has_db ? db_compact_revision(m) : -1)),
        J("storageVersion", js(m->storage_version)), J("clusterVersion", js(m->cluster_version)),
        J("members", ji((int64_t)i->members)), J("dbSize", ji((int64_t)i->db.total_bytes)),
        J("dbSizeInUse", ji((int64_t)i->db.used_bytes)),
        J("dbFileSize", ji((int64_t)i->db_file_bytes)), J("walSize", ji((int64_t)i->wal.bytes)),
        J("walSegments", ji((int64_t)i->wal.segments)), J("walTorn", jb(i->wal.torn)),
        J("problems", problem_list(i)));
}

static int print_dir_table(const struct inspection *i, struct err *e)
{
    const struct db_meta *m = &i->db.meta;
    char size[32], used[32], wal[32];
    auto_buf struct buf out = BUF_INIT(PRINT_MAX_BYTES);
    buf_addf(&out, "cluster id        %" PRIx64 "\n", i->wal.metadata.cluster_id);
    buf_addf(&out, "member id         %" PRIx64 "\n", i->wal.metadata.node_id);
    buf_addf(&out, "term              %" PRIu64 "\n", i->wal.state.term);
    buf_addf(&out, "commit index      %" PRIu64 "\n", i->wal.state.commit);
    buf_addf(&out, "consistent index  %" PRIu64 "\n", m->consistent_index);
    buf_addf(&out, "revision          %" PRId64 "\n",
             i->has_db ? db_current_revision(m, i->db.revision) : 0);
    buf_addf(&out, "storage version   %s\n", m->storage_version[0] ? m->storage_version : "-");
    buf_addf(&out, "cluster version   %s\n", m->cluster_version[0] ? m->cluster_version : "-");
    buf_addf(&out, "database          %s, %s in use\n", human_bytes(i->db.total_bytes, size),
             human_bytes(i->db.used_bytes, used));
    buf_addf(&out, "log               %s, %" PRIu64 " segment%s%s\n",
             human_bytes(i->wal.bytes, wal), i->wal.segments, i->wal.segments == 1 ? "" : "s",
             i->wal.torn ? ", torn at its end (etcd repairs it)" : "");
    buf_addf(&out, "problems          %s\n", i->problems.n == 0 ? "none" : "");
    for (size_t k = 0; k < i->problems.n; k++)
        buf_addf(&out, "  %s\n", i->problems.v[k]);
    return print_out(&out, e);
}

/* A data directory, or the member/ in it. */
static char *member_dir_of(const char *path)
{
    struct stat st;
    char *inner = xasprintf("%s/snap", path);
    const bool is_member = stat(inner, &st) == 0;
    free(inner);
    return is_member ? xstrdup(path) : xasprintf("%s/member", path);
}

static int dir_status(const struct ctx *ctx, const char *path, int output, struct err *e)
{
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "reading", ctx->clock);
    auto_free char *member = member_dir_of(path);
    AUTO(inspection_done) struct inspection i = {0};
    if (inspect_member_dir(ctx, member, &(struct inspect_options){.progress = &line.progress}, &i,
                           e) < 0)
        return -1;
    progress_end(&line);
    json_auto_t *value = output == OUTPUT_TABLE ? NULL : dir_value(&i);
    if ((value ? output_print(value, "", NULL, (enum output_format)output, e)
               : print_dir_table(&i, e)) < 0)
        return -1;
    if (i.problems.n > 0)
        return err_set(e, ERR_CORRUPT, 0, "%s: problems found: %zu", path, i.problems.n);
    return 0;
}

static int run_status(const struct ctx *ctx, const void *options, size_t n_args,
                      const char *const *args, struct err *e)
{
    const struct output_options *o = options;
    struct stat st;
    if (need_args(n_args, 1, "one FILE or DIR", e) < 0)
        return -1;
    if (stat(args[0], &st) == 0 && S_ISDIR(st.st_mode))
        return dir_status(ctx, args[0], o->output, e);
    return file_status(ctx, args[0], o->output, e);
}

/* --- hashkv ------------------------------------------------------------------------------- */

struct hashkv_options {
    struct output_options common;
    int64_t revision;
};

static const struct output_column hashkv_columns[] = {
    {"HASH", "hash"},
    {"HASH REVISION", "hashRevision"},
    {"COMPACT REVISION", "compactRevision"},
    {NULL, NULL},
};

static int run_hashkv(const struct ctx *ctx, const void *options, size_t n_args,
                      const char *const *args, struct err *e)
{
    const struct hashkv_options *o = options;
    if (need_args(n_args, 1, "one FILE", e) < 0)
        return -1;
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "hashing", ctx->clock);
    AUTO(dbfile_done) struct dbfile f = {0};
    struct hashkv h;
    if (dbfile_open(&f, args[0], MAPPING_SHARED, e) < 0)
        return -1;
    mapping_look_ahead(&f.map, MAPPING_REMEMBER);
    if (hashkv_of(ctx, &f, o->revision, &line.progress, &h, e) < 0)
        return -1;
    progress_end(&line);
    json_t *value = JOBJ(J("hash", ji(h.hash)), J("hashRevision", ji(h.hash_revision)),
                         J("compactRevision", ji(h.compact_revision)));
    return print_result(value, json_incref(value), hashkv_columns, o->common.output, e);
}

/* --- tables ------------------------------------------------------------------------------- */

static const struct cfg_option output_table[] = {OUTPUT_OPTION(output_formats)};
static const struct cfg_option hashkv_table[] = {
    OUTPUT_OPTION(output_formats),
    {
        .name = "rev",
        .type = CFG_INT,
        .offset = offsetof(struct hashkv_options, revision),
        .dflt = "0",
        .min = 0,
        .max = INT64_MAX,
        .arg = "N",
        .help = "hash up to this revision; 0 is the latest",
    },
};

const struct command command_snapshot_status = {
    .name = "snapshot status",
    .args = "FILE|DIR",
    .summary = "hash, revision, keys and size of a snapshot, or the state of a data directory",
    .about = "Of a FILE: the numbers etcdutl prints, after a check of every page. Of a stopped\n"
             "member's data DIR: its identity, indexes, versions and sizes, and what would stop\n"
             "etcd from starting on it; exit code 1 if there is anything.",
    .options = output_table,
    .n_options = COUNT_OF(output_table),
    .options_bytes = sizeof(struct output_options),
    .run = run_status,
};

const struct command command_snapshot_hashkv = {
    .name = "snapshot hashkv",
    .args = "FILE",
    .summary = "the HashKV that etcd would answer with this database",
    .about = "Prints the hash of all revisions up to --rev. Two files or members agree if hash,\n"
             "hash revision and compact revision are the same.",
    .options = hashkv_table,
    .n_options = COUNT_OF(hashkv_table),
    .options_bytes = sizeof(struct hashkv_options),
    .run = run_hashkv,
};
