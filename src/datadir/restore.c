/* SPDX-License-Identifier: Apache-2.0
 * The pages are copied as they are and the few keys that name the old cluster are changed copy
 * on write, so the work is one read and one write of the file. SHA-256 and the check of the result
 * run beside the copy. The edit needs only the paths to the keys it changes, so it comes first: the
 * check starts from the new root. */
#include "datadir/restore.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/mem.h"
#include "bolt/edit.h"
#include "datadir/arrival.h"
#include "datadir/buckets.h"
#include "datadir/inspect.h"
#include "datadir/intake.h"
#include "datadir/membership.h"
#include "datadir/mvcc.h"
#include "datadir/outfile.h"
#include "datadir/partial.h"
#include "datadir/proof.h"
#include "datadir/snapfile.h"

enum { TEXT_MAX = 16 * 1024 * 1024 };
static const char wal_name[] = "wal/0000000000000000-0000000000000000.wal";

/* --- The database ------------------------------------------------------------------------- */

/* Both who copy and who check say how far they are: each is half of the work. */
struct steps {
    const struct progress *progress; /* may be NULL */
    uint64_t total;
    _Atomic(uint64_t) copied, checked;
};

static void tell(struct steps *s)
{
    if (s->progress)
        s->progress->tell(s->progress->arg,
                          atomic_load(&s->copied) / 2 + atomic_load(&s->checked) / 2, s->total);
}

struct copying {
    const struct ctx *ctx;
    struct intake *src;
    struct outfile *dst;
    struct steps *steps;
};

static int copy_piece(struct copying *c, struct str *out, struct err *e)
{
    const uint64_t at = c->src->at;
    if (ctx_check(c->ctx, e) < 0 || intake_next(c->src, out, e) < 0 ||
        outfile_write(c->dst, at, *out, e) < 0)
        return -1;
    atomic_store(&c->steps->copied, c->src->at);
    tell(c->steps);
    return 0;
}

/* At least up to an offset; the edit may change it afterwards. */
static int copy_head(struct copying *c, uint64_t to, struct proof *proof, struct err *e)
{
    for (struct str piece; c->src->at < to;) {
        if (copy_piece(c, &piece, e) < 0)
            return -1;
        proof_add(proof, piece);
    }
    return 0;
}

static int copy_rest(struct copying *c, struct arrival *there, struct err *e)
{
    for (struct str piece; c->src->at < c->src->end;) {
        if (copy_piece(c, &piece, e) < 0)
            return -1;
        arrival_move(there, c->src->at);
    }
    return 0;
}

struct edits {
    uint8_t index[8], term[8], mark[MVCC_PUT_KEY_BYTES];
    struct buf conf_state;
    VEC(struct bolt_change) members;
    VEC(char *) texts; /* owned by the members' keys and values */
};

static void edits_done(struct edits *d)
{
    buf_done(&d->conf_state);
    vec_done(&d->members);
    for (size_t i = 0; i < d->texts.n; i++)
        free(d->texts.v[i]);
    vec_done(&d->texts);
}

static int by_key(const void *a, const void *b)
{
    return bolt_key_cmp(((const struct bolt_change *)a)->key, ((const struct bolt_change *)b)->key);
}

static void put_be64(uint8_t out[8], uint64_t v)
{
    v = htobe64(v);
    memcpy(out, &v, sizeof(v));
}

static struct str bytes_of(const uint8_t *p, size_t n)
{
    return (struct str){(const char *)p, n};
}

/* Member ids as keys are unpadded hexadecimal, so their order is not that of the numbers. */
static void plan_members(const struct membership *m, struct edits *d)
{
    for (size_t i = 0; i < m->members.n; i++) {
        auto_buf struct buf json = BUF_INIT(TEXT_MAX);
        member_json(&m->members.v[i], &json);
        char *key = xasprintf("%" PRIx64, m->members.v[i].id), *value = buf_take(&json);
        vec_push(&d->texts, key);
        vec_push(&d->texts, value);
        vec_push(&d->members, (struct bolt_change){.key = str_c(key), .value = str_c(value)});
    }
    if (d->members.n > 0)
        qsort(d->members.v, d->members.n, sizeof(*d->members.v), by_key);
}

/* A sink that can be stopped: a page of the snapshot may be as long as the whole of it. */
struct edit_output {
    const struct ctx *ctx;
    struct outfile *file;
};

static int write_edit(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    const struct edit_output *o = arg;
    return ctx_check(o->ctx, e) < 0 ? -1 : outfile_sink(o->file, offset, bytes, n, e);
}

/* Changes what belongs to the old cluster: members, applied index, alarms, a downgrade in
 * progress. Keys, leases, users and versions stay. */
static int edit_db(const struct ctx *ctx, const struct restore_options *o, const struct dbfile *src,
                   const struct restored *r, struct outfile *dst, uint64_t *out_bytes,
                   struct err *e)
{
    const struct membership *m = o->membership;
    AUTO(edits_done) struct edits d = {.conf_state = BUF_INIT(TEXT_MAX)};
    plan_members(m, &d);
    put_be64(d.index, m->members.n);
    put_be64(d.term, 1);
    mvcc_revision_encode(r->next_revision, d.mark);
    membership_conf_state_json(m, &d.conf_state);

    const struct str mark = bytes_of(d.mark, sizeof(d.mark));
    const bool bump = o->bump_revision > 0;
    const struct bolt_change downgrade[] = {{.key = STR("downgrade"), .remove = true}};
    const struct bolt_change bumped[] = {{.key = mark}};
    struct bolt_change meta[4] = {
        {.key = STR("confState"), .value = buf_str(&d.conf_state)},
        {.key = STR("consistent_index"), .value = bytes_of(d.index, sizeof(d.index))},
    };
    size_t n_meta = 2;
    if (bump)
        meta[n_meta++] = (struct bolt_change){.key = STR("scheduledCompactRev"), .value = mark};
    meta[n_meta++] =
        (struct bolt_change){.key = STR("term"), .value = bytes_of(d.term, sizeof(d.term))};

    const struct bolt_bucket_edit edits[] = {
        {.name = STR("alarm"), .clear = true},
        {.name = STR("cluster"), .v = downgrade, .n = 1},
        {.name = STR("key"), .v = bumped, .n = bump ? 1 : 0},
        {.name = STR("members"), .clear = true, .v = d.members.v, .n = d.members.n},
        {.name = STR("members_removed"), .clear = true},
        {.name = STR("meta"), .v = meta, .n = n_meta},
    };
    struct edit_output output = {ctx, dst};
    const struct bolt_sink sink = {&output, write_edit};
    struct bolt_meta next;
    if (bolt_edit(&src->bolt, edits, COUNT_OF(edits), &sink, &next, e) < 0)
        return err_wrap(e, "%s", o->snapshot);
    uint8_t page[BOLT_HEADER_BYTES + BOLT_META_BYTES];
    const uint64_t at = next.txid % 2;
    bolt_meta_encode(&next, at, page);
    *out_bytes = next.pages * next.page_size;
    return outfile_write(dst, at * next.page_size, bytes_of(page, sizeof(page)), e);
}

/* --- The other files ---------------------------------------------------------------------- */

/* The three files of a member. They are synced together, after the check: a sync makes the file
 * system wait for all that is being written. */
struct outputs {
    struct outfile db, snap, wal;
};

static void outputs_done(struct outputs *o)
{
    outfile_done(&o->db);
    outfile_done(&o->snap);
    outfile_done(&o->wal);
}

static int outputs_sync(struct outputs *o, struct err *e)
{
    return outfile_sync(&o->db, e) < 0 || outfile_sync(&o->snap, e) < 0 ||
                   outfile_sync(&o->wal, e) < 0
               ? -1
               : 0;
}

static int write_all(struct outfile *f, const struct buf *bytes, uint64_t length, struct err *e)
{
    return outfile_write(f, 0, buf_str(bytes), e) < 0 || outfile_cut(f, length, e) < 0 ? -1 : 0;
}

static int write_log_and_snap(const struct membership *m, const struct partial *p,
                              struct outputs *o, struct err *e)
{
    auto_buf struct buf snap = BUF_INIT(SNAPFILE_MAX_BYTES), wal = BUF_INIT(WAL_SEGMENT_BYTES);
    char snap_name[SNAPFILE_NAME_BYTES];
    snapfile_build(m, &snap);
    snapfile_name((struct raft_snapshot_point){.index = m->members.n, .term = 1}, snap_name);
    auto_free char *name = xasprintf("snap/%s", snap_name);
    wal_build(m, &wal);
    if (buf_check(&snap, name, e) < 0 || buf_check(&wal, wal_name, e) < 0 ||
        outfile_create(&o->snap, p->fd, p->path, name, 0644, snap.n, e) < 0 ||
        outfile_create(&o->wal, p->fd, p->path, wal_name, 0600, WAL_SEGMENT_BYTES, e) < 0 ||
        write_all(&o->snap, &snap, snap.n, e) < 0 ||
        write_all(&o->wal, &wal, WAL_SEGMENT_BYTES, e) < 0)
        return -1;
    return 0;
}

/* --- The whole ---------------------------------------------------------------------------- */

static void warn_of(struct inspection *seen, struct restored *r)
{
    const uint64_t more = seen->db.odd - seen->oddities.n;
    for (size_t i = 0; i < seen->oddities.n; i++)
        vec_push(&r->warnings, TAKE(seen->oddities.v[i]));
    if (more > 0)
        vec_push(&r->warnings,
                 xasprintf("and %" PRIu64 " more: raftsman snapshot verify lists all", more));
}

/* Opens what is being built, as etcd would, in a thread of its own: the check reads each page when
 * it has been written, in the order of the tree. */
struct check {
    const struct ctx *ctx;
    const char *path; /* borrowed */
    struct steps *steps;
    struct arrival *arrival; /* of its database; borrowed */
    struct thread thread;
    struct inspection seen;
    int rc;
    struct err err;
};

static void tell_checked(void *arg, uint64_t done, uint64_t total)
{
    (void)total;
    struct steps *s = arg;
    atomic_store(&s->checked, done < s->total ? done : s->total);
    tell(s);
}

static void check_run(void *arg)
{
    struct check *c = arg;
    const struct progress progress = {c->steps, tell_checked};
    const struct inspect_options o = {&progress, &c->arrival->bolt};
    c->rc = inspect_member_dir(c->ctx, c->path, &o, &c->seen, &c->err);
}

/* All other files are there. */
static int check_begin(struct check *c, const struct ctx *ctx, const struct partial *p,
                       struct arrival *arrival, struct steps *steps, struct err *e)
{
    *c = (struct check){.ctx = ctx, .path = p->path, .steps = steps, .arrival = arrival};
    return thread_start(&c->thread, "check", check_run, c, e);
}

static void check_done(struct check *c)
{
    if (!c->arrival)
        return;
    arrival_give_up(c->arrival);
    thread_join(&c->thread);
    inspection_done(&c->seen);
    c->arrival = NULL;
}

/* Waits for the verdict. */
static int check_end(struct check *c, const struct restore_options *o, struct restored *r,
                     struct err *e)
{
    thread_join(&c->thread);
    if (c->rc < 0) {
        *e = c->err;
        return -1;
    }
    struct inspection *seen = &c->seen;
    if (seen->problems.n > 0)
        return err_set(e, ERR_CORRUPT, 0, "%s: %s%s", o->snapshot, seen->problems.v[0],
                       seen->problems.n > 1 ? " (raftsman snapshot verify lists all)" : "");
    const struct membership *m = o->membership;
    if (seen->wal.metadata.node_id != m->members.v[m->local].id ||
        seen->wal.metadata.cluster_id != m->cluster_id || seen->members != m->members.n ||
        seen->db.meta.consistent_index != m->members.n || seen->snap.index != m->members.n ||
        seen->wal.state.commit != m->members.n)
        return err_set(e, ERR_BUG, 0, "%s: is not what was asked for", c->path);
    warn_of(seen, r);
    return 0;
}

/* A bump counts from the last revision in the file, as etcdutl's does: members that were restored
 * partly by the one and partly by the other must hold the same. */
static int plan_revisions(const struct restore_options *o, const struct dbfile *src,
                          struct restored *r, struct err *e)
{
    struct db_meta meta;
    int64_t last = 0;
    if (db_meta_read(&src->bolt, &meta, e) < 0 || db_last_revision_read(&src->bolt, &last, e) < 0)
        return err_wrap(e, "%s", o->snapshot);
    r->revision = r->next_revision = db_current_revision(&meta, last);
    if (o->bump_revision == 0)
        return 0;
    if (__builtin_add_overflow(last, o->bump_revision, &r->next_revision))
        return err_set(e, ERR_INVALID, 0, "--bump-revision: past the largest revision");
    if (r->next_revision < r->revision)
        return err_set(e, ERR_INVALID, 0,
                       "--bump-revision: %" PRId64 " would be below revision %" PRId64
                       ", up to which the store is compacted",
                       r->next_revision, r->revision);
    return 0;
}

/* What is being made, and who is at work on it: in this order, so that nobody is left waiting for
 * what was taken away. */
struct building {
    struct partial partial;
    struct outputs files;
    struct arrival arrival; /* of the database's pages */
    struct intake intake;
    struct check check;
    struct proof proof;
};

static void building_begin(struct building *b, const struct ctx *ctx, const struct dbfile *src)
{
    *b = (struct building){.files = {{.fd = -1}, {.fd = -1}, {.fd = -1}}};
    const uint64_t bytes = src->bolt.meta.pages * src->bolt.meta.page_size;
    arrival_init(&b->arrival, 0, bytes);
    intake_begin(&b->intake, src, bytes);
    proof_begin(&b->proof, ctx, src);
}

static void building_done(struct building *b)
{
    proof_done(&b->proof);
    check_done(&b->check);
    intake_done(&b->intake);
    arrival_done(&b->arrival);
    outputs_done(&b->files);
    partial_done(&b->partial);
}

/* All but the bulk of the pages. The edit writes one of the meta pages, so these are copied
 * before. */
static int build_frame(struct building *b, const struct ctx *ctx, const struct restore_options *o,
                       const struct dbfile *src, struct copying *copying, struct restored *r,
                       struct err *e)
{
    const struct partial *p = &b->partial;
    const uint64_t metas = UINT64_C(2) * src->bolt.meta.page_size;
    if (outfile_create(&b->files.db, p->fd, p->path, "snap/db", 0600, b->intake.end, e) < 0 ||
        copy_head(copying, metas, &b->proof, e) < 0 ||
        edit_db(ctx, o, src, r, &b->files.db, &r->bytes, e) < 0 ||
        outfile_cut(&b->files.db, r->bytes, e) < 0 ||
        write_log_and_snap(o->membership, p, &b->files, e) < 0)
        return -1;
    arrival_move(&b->arrival, b->intake.at);
    return 0;
}

/* The hash does not cover what was read before the copy, for the edit and to find the tree. */
static int check_unchanged(const struct dbfile *src, struct err *e)
{
    return mapping_check_unchanged(&src->map, e) < 0 ? err_wrap(e, "%s", src->path) : 0;
}

static int build(const struct ctx *ctx, const struct restore_options *o, const struct dbfile *src,
                 struct restored *r, struct err *e)
{
    AUTO(building_done) struct building b;
    building_begin(&b, ctx, src);
    struct steps steps = {.progress = o->progress, .total = b.intake.end};
    struct copying copying = {ctx, &b.intake, &b.files.db, &steps};
    const bool hashed = src->has_hash && !o->skip_hash_check;
    if (partial_begin(&b.partial, o->data_dir, e) < 0 ||
        build_frame(&b, ctx, o, src, &copying, r, e) < 0 ||
        check_begin(&b.check, ctx, &b.partial, &b.arrival, &steps, e) < 0 ||
        (hashed &&
         proof_follow(&b.proof, b.files.db.path, b.intake.at, b.intake.end, &b.arrival, e) < 0) ||
        copy_rest(&copying, &b.arrival, e) < 0 || check_end(&b.check, o, r, e) < 0)
        return -1;
    /* Nothing that the hash covers is trusted before it matched, nothing at all if it could not
     * be read. */
    if ((hashed && proof_end(&b.proof, e) < 0) || dbfile_check(src, e) < 0 ||
        check_unchanged(src, e) < 0 || outputs_sync(&b.files, e) < 0 || ctx_check(ctx, e) < 0)
        return -1;
    return partial_commit(&b.partial, e);
}

void restored_done(struct restored *r)
{
    for (size_t i = 0; i < r->warnings.n; i++)
        free(r->warnings.v[i]);
    vec_done(&r->warnings);
}

int restore_run(const struct ctx *ctx, const struct restore_options *o, struct restored *out,
                struct err *e)
{
    AUTO(restored_done) struct restored r = {0};
    if ((o->bump_revision > 0) != o->mark_compacted)
        return err_set(e, ERR_INVALID, 0, "--bump-revision and --mark-compacted go together");
    AUTO(dbfile_done) struct dbfile src = {0};
    if (dbfile_open(&src, o->snapshot, MAPPING_SHARED, e) < 0)
        return -1;
    if (!src.has_hash && !o->skip_hash_check)
        return err_set(e, ERR_INVALID, 0,
                       "%s: has no hash at its end; --skip-hash-check restores a database file "
                       "copied from a data directory",
                       o->snapshot);
    if (plan_revisions(o, &src, &r, e) == 0 && build(ctx, o, &src, &r, e) == 0) {
        *out = r;
        r = (struct restored){0}; /* handed over */
        return 0;
    }
    (void)!dbfile_check(&src, e); /* then that is why */
    return -1;
}
