/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/inspect.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "bolt/find.h"
#include "datadir/snapfile.h"

enum { PROBLEMS_MAX = 100, ODDITIES_MAX = 10 };

void inspection_done(struct inspection *i)
{
    wal_summary_done(&i->wal);
    for (size_t k = 0; k < i->problems.n; k++)
        free(i->problems.v[k]);
    vec_done(&i->problems);
    for (size_t k = 0; k < i->oddities.n; k++)
        free(i->oddities.v[k]);
    vec_done(&i->oddities);
}

static void problem(struct inspection *i, const char *fmt, ...) FORMAT(2, 3);
static void problem(struct inspection *i, const char *fmt, ...)
{
    char text[600];
    if (i->problems.n >= PROBLEMS_MAX)
        return;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    vec_push(&i->problems, xstrdup(text));
}

static int db_finding(void *arg, const struct scan_finding *finding, struct err *e)
{
    (void)e;
    struct inspection *i = arg;
    if (!finding->odd)
        problem(i, "snap/db: %s", finding->what);
    else if (i->oddities.n < ODDITIES_MAX)
        vec_push(&i->oddities, xstrdup(finding->what));
    return 0;
}

/* Whether an error is about the files (true: noted) or about us (false: to be returned). */
static bool noted(struct inspection *i, const char *what, const struct err *e)
{
    if (e->code != ERR_CORRUPT && e->code != ERR_NOT_FOUND)
        return false;
    problem(i, "%s: %s", what, e->text);
    return true;
}

static int count_member(void *arg, const struct bolt_item *item, struct err *e)
{
    (void)item;
    (void)e;
    (*(uint64_t *)arg)++;
    return 0;
}

/* Buckets are walked one by one only here: members is small. */
static void read_members(const struct dbfile *f, struct inspection *i)
{
    struct err ignored = {0};
    struct bolt_bucket members;
    struct str value;
    char id[20];
    if (bolt_find_bucket(&f->bolt, STR("members"), &members, &ignored) < 0)
        return;
    (void)snprintf(id, sizeof(id), "%" PRIx64, i->wal.metadata.node_id);
    i->is_member = bolt_find(&members, str_c(id), &value, &ignored) == 0;
    if (i->db.fatal > 0)
        return; /* a damaged tree may have loops, and has been named */
    if (bolt_each(&members, count_member, &i->members, &ignored) < 0)
        i->members = 0;
}

static int read_db(const struct ctx *ctx, const char *path, const struct inspect_options *o,
                   struct inspection *i, struct err *e)
{
    AUTO(dbfile_done) struct dbfile f = {0};
    if (dbfile_open(&f, path, MAPPING_SHARED, e) < 0)
        return noted(i, "snap/db", e) ? 0 : -1;
    i->db_file_bytes = f.map.n;
    f.bolt.arrival = o->arrival;
    const struct scan_options scan = {
        .strict = true, .progress = o->progress, .found = db_finding, .arg = i};
    if (scan_db(ctx, &f, &scan, &i->db, e) < 0)
        return noted(i, "snap/db", e) ? 0 : -1;
    i->has_db = true;
    read_members(&f, i);
    return dbfile_check(&f, e);
}

/* Marks past what is known to be committed do not count: the snapshot may never have been saved. */
static bool wal_knows(const struct wal_summary *w, struct raft_snapshot_point at)
{
    for (size_t k = 0; k < w->snapshots.n && at.index <= w->state.commit; k++)
        if (w->snapshots.v[k].index == at.index && w->snapshots.v[k].term == at.term)
            return true;
    return false;
}

/* What was wrong with .snap files, until it is known which of them etcd will take. */
struct snap_faults {
    char *unreadable; /* the last of those it passes over */
    char *chosen;     /* with the one it takes */
};

static void snap_faults_done(struct snap_faults *f)
{
    free(f->unreadable);
    free(f->chosen);
}

static int read_snap(const struct ctx *ctx, const char *dir, const char *name, struct inspection *i,
                     struct snap_faults *faults, struct err *e)
{
    struct raft_snapshot_point named;
    struct raft_snapshot s;
    if (!snapfile_name_parse(name, &named))
        return 0;
    auto_free char *path = xasprintf("%s/%s", dir, name);
    auto_buf struct buf bytes = BUF_INIT(SNAPFILE_MAX_BYTES);
    if (file_read(ctx, path, &bytes, e) < 0)
        return -1;
    const bool sound = snapfile_decode(buf_str(&bytes), &s, e) == 0;
    if (!sound && e->code == ERR_CORRUPT) {
        free(faults->unreadable);
        faults->unreadable = xasprintf("snap/%s: %s", name, e->text);
        return 0;
    }
    if (s.at.index != named.index || s.at.term != named.term)
        problem(i, "snap/%s: is of term %" PRIu64 ", index %" PRIu64, name, s.at.term, s.at.index);
    i->snap_files++;
    if (!i->has_wal || !wal_knows(&i->wal, s.at) || s.at.index < i->snap.index)
        return 0;
    i->snap = s.at;
    i->snap_members = s.voters + s.learners;
    free(faults->chosen);
    faults->chosen = sound ? NULL : xasprintf("snap/%s: %s", name, e->text);
    return 0;
}

static int read_snaps(const struct ctx *ctx, const char *dir, struct inspection *i, struct err *e)
{
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT)
        return 0; /* said by the missing database */
    if (!d)
        return err_set_errno(e, errno, "open %s", dir);
    int rc = 0;
    AUTO(snap_faults_done) struct snap_faults faults = {0};
    for (const struct dirent *entry = NULL; rc == 0 && (entry = readdir(d));)
        rc = read_snap(ctx, dir, entry->d_name, i, &faults, e);
    (void)closedir(d);
    if (faults.unreadable && i->snap.index == 0)
        problem(i, "%s, and there is no other", faults.unreadable);
    if (faults.chosen)
        problem(i, "%s", faults.chosen);
    struct stat st;
    auto_free char *received = xasprintf("%s/%016" PRIx64 ".snap.db", dir, i->snap.index);
    i->has_snap_db = stat(received, &st) == 0;
    return rc;
}

/* The members in the database, against the log and the raft snapshot. From 3.6 on they decide who
 * votes: one too many is a voter that never answers. */
static void compare_members(struct inspection *i)
{
    if (!i->wal.has_metadata)
        problem(i, "wal: no metadata record: member and cluster are unknown");
    else if (i->members == 0)
        problem(i, "snap/db: no members: etcd 3.6 stops, 3.7 finds no leader");
    else if (!i->is_member)
        problem(i, "snap/db: member %" PRIx64 " of the log is not among its %" PRIu64 " members",
                i->wal.metadata.node_id, i->members);
    /* Later changes of the members are in the database and not yet in a snapshot. */
    if (i->members > 0 && i->snap_members > 0 && i->wal.last_conf_change <= i->snap.index &&
        i->members != i->snap_members)
        problem(i,
                "snap/db: %" PRIu64 " members, but %" PRIu64
                " in the raft snapshot: etcd 3.7 counts the former and may find no leader",
                i->members, i->snap_members);
}

/* A log without its whole text says nothing about where it ends. */
static void compare_log(struct inspection *i)
{
    const struct wal_summary *w = &i->wal;
    const uint64_t end = w->last_index > i->snap.index ? w->last_index : i->snap.index;
    if (w->snapshots.n == 0)
        problem(i, "wal: no snapshot record: etcd has no point to start from");
    if (w->state.commit > end)
        problem(i, "wal: commit %" PRIu64 " is past the log's end at %" PRIu64 ": raft stops",
                w->state.commit, end);
    if (w->first_index > i->snap.index + 1)
        problem(i, "wal: entries begin at %" PRIu64 ", after the raft snapshot at %" PRIu64,
                w->first_index, i->snap.index);
}

static void compare_indexes(struct inspection *i)
{
    const struct db_meta *m = &i->db.meta;
    const uint64_t applied = m->consistent_index, last = i->wal.last_index;
    const uint64_t end = last > i->snap.index ? last : i->snap.index;
    if (applied < i->snap.index)
        problem(i,
                "snap/db: consistent index %" PRIu64 " is behind the raft snapshot at %" PRIu64
                ": etcd looks for %016" PRIx64 ".snap.db and stops",
                applied, i->snap.index, i->snap.index);
    if (applied > end)
        problem(i,
                "snap/db: consistent index %" PRIu64 " is past the log's end at %" PRIu64
                ": writes would be accepted and never applied",
                applied, end);
    if (m->term > i->wal.state.term && i->wal.state.term > 0)
        problem(i, "snap/db: term %" PRIu64 " is past the log's %" PRIu64, m->term,
                i->wal.state.term);
}

/* 3.5, which writes no storage version, starts only as the version that is being gone to. */
static void check_downgrade(struct inspection *i)
{
    const struct db_meta *m = &i->db.meta;
    if (m->downgrade_enabled && m->storage_version[0] == '\0' && m->cluster_version[0] != '\0' &&
        strcmp(m->downgrade_target, m->cluster_version) != 0)
        problem(i, "snap/db: a downgrade to %s is enabled: etcd of cluster version %s stops",
                m->downgrade_target, m->cluster_version);
}

/* What etcd compares at start, between files that are sound one by one. A database that waits to
 * be installed takes the place of the one that is there. */
static void compare(struct inspection *i)
{
    if (i->wal_whole)
        compare_log(i);
    const bool replaced =
        i->has_db && i->has_snap_db && i->wal_whole && i->db.meta.consistent_index < i->snap.index;
    if (!i->has_db || replaced)
        return;
    if (i->has_wal && i->db.fatal == 0)
        compare_members(i);
    if (i->wal_whole)
        compare_indexes(i);
    check_downgrade(i);
}

static int inspect(const struct ctx *ctx, const char *member_dir, const struct inspect_options *o,
                   struct inspection *i, struct err *e)
{
    auto_free char *wal = xasprintf("%s/wal", member_dir);
    auto_free char *snap = xasprintf("%s/snap", member_dir);
    auto_free char *db = xasprintf("%s/snap/db", member_dir);
    struct stat st;
    if (stat(member_dir, &st) < 0)
        return err_set_errno(e, errno, "open %s", member_dir);
    if (wal_read(wal, &i->wal, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            problem(i, "wal: no log: etcd would start a new, empty cluster over the database");
        else if (!noted(i, "wal", e))
            return -1;
    } else {
        i->wal_whole = i->wal.records > 0;
    }
    i->has_wal = i->wal.records > 0;
    if (read_db(ctx, db, o, i, e) < 0 || read_snaps(ctx, snap, i, e) < 0)
        return -1;
    compare(i);
    return 0;
}

int inspect_member_dir(const struct ctx *ctx, const char *member_dir,
                       const struct inspect_options *options, struct inspection *out, struct err *e)
{
    const struct inspect_options none = {0};
    struct inspection i = {0};
    if (inspect(ctx, member_dir, options ? options : &none, &i, e) < 0) {
        inspection_done(&i);
        return -1;
    }
    *out = i;
    return 0;
}
