/* SPDX-License-Identifier: Apache-2.0
 * `snapshot restore` and `snapshot defrag`: what writes data directories. Flags are etcdutl's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/mem.h"
#include "cli/progress.h"
#include "cli/snapshot.h"
#include "datadir/defrag.h"
#include "datadir/membership.h"
#include "datadir/restore.h"

struct restore_flags {
    struct output_options common;
    const char *data_dir, *name, *initial_cluster, *token, *peer_urls;
    int64_t bump_revision;
    bool mark_compacted, skip_hash_check;
};

static const struct output_column restored_columns[] = {
    {"DATA DIR", "dataDir"},      {"MEMBER", "memberID"}, {"CLUSTER", "clusterID"},
    {"REVISION", "nextRevision"}, {"SIZE", "size"},       {NULL, NULL},
};

static int print_restored(const struct membership *m, const struct restored *r, const char *dir,
                          int output, struct err *e)
{
    char size[32];
    json_t *value =
        JOBJ(J("dataDir", js(dir)), J("memberID", jsf("%" PRIx64, m->members.v[m->local].id)),
             J("clusterID", jsf("%" PRIx64, m->cluster_id)), J("revision", ji(r->revision)),
             J("nextRevision", ji(r->next_revision)), J("dbSize", ji((int64_t)r->bytes)),
             J_IF(output == OUTPUT_TABLE, "size", js(human_bytes(r->bytes, size))));
    return print_result(value, json_incref(value), restored_columns, output, e);
}

static int run_restore(const struct ctx *ctx, const void *options, size_t n_args,
                       const char *const *args, struct err *e)
{
    const struct restore_flags *o = options;
    if (need_args(n_args, 1, "one FILE", e) < 0)
        return -1;
    auto_free char *data_dir =
        o->data_dir && *o->data_dir ? xstrdup(o->data_dir) : xasprintf("%s.etcd", o->name);
    auto_free char *cluster = o->initial_cluster && *o->initial_cluster
                                  ? xstrdup(o->initial_cluster)
                                  : xasprintf("%s=http://localhost:2380", o->name);
    AUTO(membership_done) struct membership m = {0};
    if (membership_parse(o->name, cluster, o->token, o->peer_urls, &m, e) < 0)
        return -1;
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "restoring", ctx->clock);
    const struct restore_options r = {
        .snapshot = args[0],
        .data_dir = data_dir,
        .membership = &m,
        .skip_hash_check = o->skip_hash_check,
        .bump_revision = o->bump_revision,
        .mark_compacted = o->mark_compacted,
        .progress = &line.progress,
    };
    AUTO(restored_done) struct restored done = {0};
    if (restore_run(ctx, &r, &done, e) < 0)
        return -1;
    progress_end(&line);
    for (size_t i = 0; i < done.warnings.n; i++)
        (void)fprintf(stderr, "raftsman snapshot restore: warning: %s: %s\n", args[0],
                      done.warnings.v[i]);
    return print_restored(&m, &done, data_dir, o->common.output, e);
}

static const struct cfg_option restore_table[] = {
    OUTPUT_OPTION(output_formats),
    {
        .name = "data-dir",
        .type = CFG_STR,
        .offset = offsetof(struct restore_flags, data_dir),
        .arg = "DIR",
        .help = "the data directory to make; NAME.etcd if not given",
    },
    {
        .name = "name",
        .type = CFG_STR,
        .offset = offsetof(struct restore_flags, name),
        .dflt = "default",
        .arg = "NAME",
        .help = "name of this member",
    },
    {
        .name = "initial-cluster",
        .type = CFG_STR,
        .offset = offsetof(struct restore_flags, initial_cluster),
        .arg = "MAP",
        .help = "all members as NAME=URL,...; NAME=http://localhost:2380 if not given",
    },
    {
        .name = "initial-cluster-token",
        .type = CFG_STR,
        .offset = offsetof(struct restore_flags, token),
        .dflt = "etcd-cluster",
        .arg = "TOKEN",
        .help = "makes the ids of the new cluster its own; use another for each restore",
    },
    {
        .name = "initial-advertise-peer-urls",
        .type = CFG_STR,
        .offset = offsetof(struct restore_flags, peer_urls),
        .dflt = "http://localhost:2380",
        .arg = "URLS",
        .help = "peer URLs of this member, as in --initial-cluster",
    },
    {
        .name = "bump-revision",
        .type = CFG_INT,
        .offset = offsetof(struct restore_flags, bump_revision),
        .dflt = "0",
        .min = 0,
        .max = INT64_MAX,
        .arg = "N",
        .help = "raise the revision by this much, past all that clients may have seen",
    },
    {
        .name = "mark-compacted",
        .type = CFG_BOOL,
        .offset = offsetof(struct restore_flags, mark_compacted),
        .help = "with --bump-revision: answer old watchers with \"compacted\"",
    },
    {
        .name = "skip-hash-check",
        .type = CFG_BOOL,
        .offset = offsetof(struct restore_flags, skip_hash_check),
        .help = "do not compare the hash; for a database file copied from a data directory",
    },
};

const struct command command_snapshot_restore = {
    .name = "snapshot restore",
    .args = "FILE",
    .summary = "make the data directory of a new member from a snapshot",
    .about =
        "Builds the directory beside its place, checks it by opening it, syncs it and renames\n"
        "it last: there is a complete member/ afterwards or none. An existing member/ is\n"
        "never touched. Run it once for each member, with the same --initial-cluster.",
    .options = restore_table,
    .n_options = COUNT_OF(restore_table),
    .options_bytes = sizeof(struct restore_flags),
    .run = run_restore,
};

/* --- defrag ------------------------------------------------------------------------------- */

/* The database of a data directory, of its member/, or the file itself. */
static char *db_of(const char *path)
{
    struct stat st;
    for (int i = 0; i < 2; i++) {
        char *db = i == 0 ? xasprintf("%s/member/snap/db", path) : xasprintf("%s/snap/db", path);
        if (stat(db, &st) == 0)
            return db;
        free(db);
    }
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? xasprintf("%s/member/snap/db", path)
                                                       : xstrdup(path);
}

static const struct output_column defrag_columns[] = {
    {"DATABASE", "db"}, {"SIZE BEFORE", "before"}, {"SIZE AFTER", "after"}, {NULL, NULL}};

static int run_defrag(const struct ctx *ctx, const void *options, size_t n_args,
                      const char *const *args, struct err *e)
{
    const struct output_options *o = options;
    if (need_args(n_args, 1, "one DIR", e) < 0)
        return -1;
    auto_free char *db = db_of(args[0]);
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "defragmenting", ctx->clock);
    struct defragmented d;
    if (defrag_run(ctx, db, &line.progress, &d, e) < 0)
        return -1;
    progress_end(&line);
    char before[32], after[32];
    return print_result(JOBJ(J("db", js(db)), J("sizeBefore", ji((int64_t)d.bytes_before)),
                             J("sizeAfter", ji((int64_t)d.bytes_after))),
                        JOBJ(J("db", js(db)), J("before", js(human_bytes(d.bytes_before, before))),
                             J("after", js(human_bytes(d.bytes_after, after)))),
                        defrag_columns, o->output, e);
}

static const struct cfg_option output_table[] = {OUTPUT_OPTION(output_formats)};

const struct command command_snapshot_defrag = {
    .name = "snapshot defrag",
    .args = "DIR",
    .summary = "rewrite the database of a stopped member without its free pages",
    .about = "Offline: etcd must not run on DIR. The new database is written beside the old one,\n"
             "compared with it, synced and renamed over it. Needs room for both.",
    .options = output_table,
    .n_options = COUNT_OF(output_table),
    .options_bytes = sizeof(struct output_options),
    .run = run_defrag,
};
