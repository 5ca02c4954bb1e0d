/* SPDX-License-Identifier: Apache-2.0
 * The checksum of a subtree begins at zero, wherever the subtree is in the file; in the last walk
 * the checksums are joined in the order of the tree. */
#include "datadir/readback.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "datadir/mvcc.h"

static void add(struct readback_part *to, struct str bytes)
{
    to->crc = crc32c(to->crc, bytes.p, bytes.n);
    to->bytes += bytes.n;
}

static int read_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    (void)page;
    (void)e;
    struct readback *r = arg;
    r->at.bucket = bucket_of(name);
    add(&r->at, name);
    return 0;
}

static int read_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct readback *r = arg;
    struct mvcc_revision at;
    struct mvcc_kv kv;
    add(&r->at, item->key);
    add(&r->at, item->value);
    if (r->at.bucket == BUCKET_KEY &&
        (mvcc_revision_decode(item->key, &at, e) < 0 || mvcc_kv_decode(item->value, &kv, e) < 0))
        return err_wrap(e, "page %" PRIu64 ": bucket key", item->page);
    return 0;
}

/* The part was read as one of the bucket that it was announced for. */
static int join_part(void *arg, size_t index, struct err *e)
{
    struct readback *r = arg;
    const struct readback_part *part = &r->walked.v[index];
    if (part->bucket != r->at.bucket)
        return err_set(e, ERR_BUG, 0, "a subtree is in another bucket than announced");
    r->at.crc = crc32c_join(r->at.crc, part->crc, part->bytes);
    r->at.bytes += part->bytes;
    return 0;
}

int readback_begin(struct readback *r, const struct ctx *ctx, const char *path, uint32_t page_size,
                   struct err *e)
{
    *r = (struct readback){.path = path, .map = {.fd = -1}};
    if (mapping_open(&r->map, path, MAPPING_SHARED, e) < 0)
        return -1;
    r->written = (struct bolt){.p = r->map.p, .n = r->map.n, .meta = {.page_size = page_size}};
    r->walk = (struct dbfile_walk){.ctx = ctx, .window = {.m = &r->map, .only_behind = true}};
    r->visitor = (struct bolt_visitor){.arg = r,
                                       .bucket = read_bucket,
                                       .item = read_item,
                                       .reach = dbfile_reach,
                                       .part = join_part};
    (void)pthread_mutex_init(&r->lock, NULL); /* cannot fail without attributes */
    r->parts = bolt_parts_new(&r->visitor);
    return 0;
}

void readback_done(struct readback *r)
{
    if (!r->parts)
        return;
    bolt_parts_free(TAKE(r->parts));
    (void)pthread_mutex_destroy(&r->lock);
    mapping_done(&r->map);
    vec_done(&r->walked);
    vec_done(&r->subtrees);
}

void readback_announce(struct readback *r, enum bucket bucket, uint64_t page, uint64_t end)
{
    MUTEX_HOLD(&r->lock);
    vec_push(&r->subtrees, (struct readback_subtree){bucket, page, end});
}

/* The first of those announced, if it is written. */
static bool take_subtree(struct readback *r, uint64_t pages, struct readback_subtree *out)
{
    MUTEX_HOLD(&r->lock);
    if (r->subtrees.n == 0 || r->subtrees.v[0].end > pages)
        return false;
    *out = r->subtrees.v[0];
    r->subtrees.n--;
    memmove(r->subtrees.v, r->subtrees.v + 1, r->subtrees.n * sizeof(*r->subtrees.v));
    return true;
}

static int read_subtree(struct readback *r, const struct readback_subtree *s, struct err *e)
{
    r->at = (struct readback_part){.bucket = s->bucket};
    const int rc = bolt_walk_part(r->parts, &r->written, s->page, e);
    if (mapping_check(&r->map, e) < 0 || rc < 0)
        return err_wrap(e, "%s", r->path);
    vec_push(&r->walked, r->at);
    return 0;
}

int readback_follow(struct readback *r, uint64_t end, struct err *e)
{
    const uint64_t seen = end < r->map.n ? end : r->map.n;
    r->written.meta.pages = seen / r->written.meta.page_size;
    struct readback_subtree next;
    while (take_subtree(r, r->written.meta.pages, &next))
        if (read_subtree(r, &next, e) < 0)
            return -1;
    return 0;
}

int readback_finish(struct readback *r, uint32_t *out_crc, struct err *e)
{
    AUTO(dbfile_done) struct dbfile f = {0};
    struct bolt_totals totals;
    struct db_meta meta;
    if (dbfile_open(&f, r->path, MAPPING_SHARED, e) < 0)
        return -1;
    r->walk = dbfile_walk_of(r->walk.ctx, &f, NULL);
    r->at = (struct readback_part){0};
    const bool failed =
        bolt_walk_rest(r->parts, &f.bolt, &totals, e) < 0 || db_meta_read(&f.bolt, &meta, e) < 0;
    if (dbfile_check(&f, e) < 0)
        return -1;
    if (failed)
        return err_wrap(e, "%s", r->path);
    *out_crc = r->at.crc;
    return 0;
}
