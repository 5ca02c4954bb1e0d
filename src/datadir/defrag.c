/* SPDX-License-Identifier: Apache-2.0
 * The new file is called db.tmp.defrag: if we are killed before the rename, the next run removes
 * it, and so does etcd at start. No two runs meet under the name, because each holds the lock of
 * the database it belongs to. */
#include "datadir/defrag.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "bolt/writer.h"
#include "datadir/outqueue.h"
#include "datadir/readback.h"

/* Beside the old file, under a name that is removed unless it was renamed. A thread writes it, and
 * reads back what it has written, while the next pages are made. */
struct draft {
    struct outfile file;
    struct outqueue queue;
    struct readback readback;
    enum bucket bucket; /* that is being written */
    int dir_fd;
    char *name, *dir;
    bool made;
};

static void draft_done(struct draft *d)
{
    outqueue_done(&d->queue);
    readback_done(&d->readback);
    if (d->made)
        (void)unlinkat(d->dir_fd, d->name, 0); /* best effort: etcd removes it too */
    outfile_done(&d->file);
    if (d->dir_fd >= 0)
        (void)close(d->dir_fd);
    free(d->name);
    free(d->dir);
}

static int draft_create(struct draft *d, const char *db, const struct stat *like, struct err *e)
{
    const char *slash = strrchr(db, '/');
    d->dir = file_dir_of(db);
    d->dir_fd = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (d->dir_fd < 0)
        return err_set_errno(e, errno, "open %s", d->dir);
    auto_free char *name = xasprintf("%s.tmp.defrag", slash ? slash + 1 : db);
    if (unlinkat(d->dir_fd, name, 0) < 0 && errno != ENOENT)
        return err_set_errno(e, errno, "remove %s/%s", d->dir, name);
    if (outfile_create(&d->file, d->dir_fd, d->dir, name, 0600, 0, e) < 0)
        return -1;
    d->name = TAKE(name);
    d->made = true;
    /* The member runs as its own user; without the right to change owners we are that user. */
    (void)!fchown(d->file.fd, like->st_uid, like->st_gid);
    if (fchmod(d->file.fd, like->st_mode & 07777) < 0)
        return err_set_errno(e, errno, "set the mode of %s", d->file.path);
    return 0;
}

static int draft_written(void *arg, uint64_t end, struct err *e)
{
    return readback_follow(&((struct draft *)arg)->readback, end, e);
}

/* It is as long as the old file until it is complete, so that it can be mapped as a whole. */
static int draft_begin(struct draft *d, const struct ctx *ctx, const struct dbfile *src,
                       struct err *e)
{
    const struct outqueue_follower follower = {d, draft_written};
    if (outfile_cut(&d->file, src->n, e) < 0 ||
        readback_begin(&d->readback, ctx, d->file.path, src->bolt.meta.page_size, e) < 0)
        return -1;
    return outqueue_start(&d->queue, &d->file, &follower, e);
}

static int draft_write(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    return outqueue_write(&((struct draft *)arg)->queue, offset, bytes, n, e);
}

static uint8_t *draft_buffer(void *arg, size_t n)
{
    return outqueue_buffer(&((struct draft *)arg)->queue, n);
}

static void draft_subtree(void *arg, uint64_t page, uint64_t end)
{
    struct draft *d = arg;
    readback_announce(&d->readback, d->bucket, page, end);
}

struct rewriting {
    struct dbfile_walk walk; /* first: dbfile_reach() */
    struct draft *draft;
    struct bolt_writer *writer;
    uint32_t crc; /* over names, keys and values, as readback_finish() computes it */
};

static int rewrite_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    (void)page;
    struct rewriting *r = arg;
    r->crc = crc32c(r->crc, name.p, name.n);
    if (bolt_writer_bucket(r->writer, name, e) < 0)
        return -1;
    r->draft->bucket = bucket_of(name); /* the one before is complete only now */
    return 0;
}

static int rewrite_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct rewriting *r = arg;
    r->crc = crc32c(crc32c(r->crc, item->key.p, item->key.n), item->value.p, item->value.n);
    return bolt_writer_put(r->writer, item->key, item->value, e);
}

static int rewrite(const struct ctx *ctx, const struct dbfile *src, const struct progress *progress,
                   struct draft *d, uint32_t *out_crc, uint64_t *out_bytes, struct err *e)
{
    const struct bolt_sink sink = {
        .arg = d, .write = draft_write, .buffer = draft_buffer, .subtree = draft_subtree};
    AUTO(bolt_writer_free_auto)
    struct bolt_writer *writer = bolt_writer_new(&sink, src->bolt.meta.page_size);
    struct rewriting r = {.walk = dbfile_walk_of(ctx, src, progress), .draft = d, .writer = writer};
    const struct bolt_visitor v = {
        .arg = &r, .bucket = rewrite_bucket, .item = rewrite_item, .reach = dbfile_reach};
    struct bolt_totals totals;
    uint64_t pages = 0;
    const bool failed =
        bolt_walk(&src->bolt, &v, &totals, e) < 0 || bolt_writer_finish(writer, &pages, e) < 0;
    if (dbfile_check(src, e) < 0)
        return -1;
    if (failed)
        return err_wrap(e, "%s", src->path);
    *out_crc = r.crc;
    *out_bytes = pages * src->bolt.meta.page_size;
    return 0;
}

/* The same content, in a sound file. */
static int draft_finish(struct draft *d, uint32_t crc, uint64_t bytes, struct err *e)
{
    uint32_t has = 0;
    if (outqueue_end(&d->queue, e) < 0 || outfile_cut(&d->file, bytes, e) < 0 ||
        outfile_sync(&d->file, e) < 0 || readback_finish(&d->readback, &has, e) < 0)
        return -1;
    return has == crc ? 0 : err_set(e, ERR_BUG, 0, "%s: differs from its source", d->file.path);
}

/* An etcd that was started meanwhile waits for the lock of the old file, and would go on with it
 * although it has no name any more. Without meta pages it refuses, and starts anew. */
static void retire(const struct dbfile *old)
{
    struct stat st;
    const uint8_t zeros[64] = {0};
    if (fstat(old->map.fd, &st) < 0 || st.st_nlink > 0)
        return; /* a hard link keeps it as a copy: not ours to spoil */
    for (uint64_t page = 0; page < 2; page++)
        (void)!pwrite(old->map.fd, zeros, sizeof(zeros),
                      (off_t)(page * old->bolt.meta.page_size + 16));
}

static int replace(struct draft *d, const char *db, const struct dbfile *old, struct err *e)
{
    const char *slash = strrchr(db, '/');
    if (renameat(d->dir_fd, d->name, d->dir_fd, slash ? slash + 1 : db) < 0)
        return err_set_errno(e, errno, "rename %s to %s", d->file.path, db);
    d->made = false;
    if (fsync(d->dir_fd) < 0)
        return err_set_errno(e, errno, "sync %s", d->dir);
    retire(old);
    return 0;
}

int defrag_run(const struct ctx *ctx, const char *db, const struct progress *progress,
               struct defragmented *out, struct err *e)
{
    AUTO(dbfile_done) struct dbfile old = {0};
    AUTO(draft_done) struct draft d = {.dir_fd = -1, .file = {.fd = -1}};
    struct stat st;
    uint32_t crc = 0;
    uint64_t bytes = 0;
    if (dbfile_open(&old, db, MAPPING_EXCLUSIVE, e) < 0)
        return -1;
    if (fstat(old.map.fd, &st) < 0)
        return err_set_errno(e, errno, "stat %s", db);
    if (old.has_hash)
        return err_set(e, ERR_INVALID, 0, "%s: is a snapshot with a hash, which would not fit", db);
    mapping_look_ahead(&old.map, MAPPING_FORGET);
    if (draft_create(&d, db, &st, e) < 0 || draft_begin(&d, ctx, &old, e) < 0 ||
        rewrite(ctx, &old, progress, &d, &crc, &bytes, e) < 0 ||
        draft_finish(&d, crc, bytes, e) < 0 || ctx_check(ctx, e) < 0 ||
        replace(&d, db, &old, e) < 0)
        return -1;
    *out = (struct defragmented){.bytes_before = old.bolt.meta.pages * old.bolt.meta.page_size,
                                 .bytes_after = bytes};
    return 0;
}
