/* SPDX-License-Identifier: Apache-2.0
 * Entries above the compact revision all count. Of those up to it only the ones that are the
 * newest of a key alive at the hashed revision count, whether or not compaction has removed the
 * others: a first walk finds them, one bit each, and a second one hashes. A store that was never
 * compacted needs only the second. */
#include "datadir/hashkv.h"

#include <inttypes.h>

#include "base/crc32c.h"
#include "datadir/buckets.h"
#include "datadir/keyset.h"
#include "datadir/mvcc.h"
#include "datadir/scratch.h"

struct hashing {
    struct dbfile_walk walk; /* first: dbfile_reach() */
    int64_t revision, compact;
    enum bucket bucket;
    uint64_t number; /* of the entry in the bucket */

    struct keyset *keys;
    uint64_t compacted; /* entries up to the compact revision */
    uint8_t *keep;      /* one bit for each of them */
    bool any_kept;

    uint32_t hash;
};

static int enter_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    (void)page;
    (void)e;
    struct hashing *h = arg;
    h->bucket = bucket_of(name);
    h->number = 0;
    return 0;
}

static int collect(void *arg, const struct bolt_item *item, struct err *e)
{
    struct hashing *h = arg;
    struct mvcc_revision at;
    struct mvcc_kv kv;
    if (h->bucket != BUCKET_KEY)
        return 0;
    if (mvcc_revision_decode(item->key, &at, e) < 0 || mvcc_kv_decode(item->value, &kv, e) < 0)
        return err_wrap(e, "page %" PRIu64, item->page);
    h->compacted += at.main <= h->compact;
    if (at.main > h->revision)
        return 0;
    return keyset_add(h->keys, kv.key, at.tombstone ? KEYSET_TOMBSTONE : 0, e);
}

static int remember(void *arg, uint64_t number, unsigned flags, struct err *e)
{
    (void)flags;
    (void)e;
    struct hashing *h = arg;
    h->any_kept = true;
    if (number < h->compacted)
        h->keep[number / 8] = (uint8_t)(h->keep[number / 8] | 1U << (number % 8));
    return 0;
}

static int hash_entry(void *arg, const struct bolt_item *item, struct err *e)
{
    struct hashing *h = arg;
    struct mvcc_revision at;
    if (h->bucket != BUCKET_KEY)
        return 0;
    if (mvcc_revision_decode(item->key, &at, e) < 0)
        return err_wrap(e, "page %" PRIu64, item->page);
    const uint64_t number = h->number++;
    if (at.main > h->revision)
        return 0;
    if (at.main <= h->compact && h->compact > 0 && number >= h->compacted)
        return err_set(e, ERR_CONFLICT, 0, "the file changes while it is read");
    if (at.main <= h->compact && h->any_kept && !(h->keep[number / 8] >> (number % 8) & 1))
        return 0;
    if (at.main == h->compact && at.tombstone)
        return 0; /* removed by older versions, kept by newer ones, counted by none */
    h->hash = crc32c(crc32c(h->hash, item->key.p, item->key.n), item->value.p, item->value.n);
    return 0;
}

static int walk_with(struct hashing *h, const struct ctx *ctx, const struct progress *progress,
                     int (*item)(void *, const struct bolt_item *, struct err *), struct err *e)
{
    const struct dbfile *f = h->walk.f;
    h->walk = dbfile_walk_of(ctx, f, progress);
    const struct bolt_visitor v = {
        .arg = h, .bucket = enter_bucket, .item = item, .reach = dbfile_reach};
    struct bolt_totals totals;
    return bolt_walk(&f->bolt, &v, &totals, e);
}

/* Which entries up to the compact revision count. */
static int find_kept(struct hashing *h, const struct ctx *ctx, const struct progress *progress,
                     struct scratch *bits, struct err *e)
{
    AUTO(keyset_free_auto) struct keyset *keys = keyset_new(h->walk.f->path);
    h->keys = keys;
    struct keyset_totals totals;
    const struct keyset_visitor v = {h, remember};
    if (walk_with(h, ctx, progress, collect, e) < 0 ||
        scratch_init(bits, (size_t)(h->compacted / 8 + 1), h->walk.f->path, e) < 0)
        return -1;
    h->keep = bits->p;
    return keyset_resolve(keys, &v, &totals, e);
}

static int check_revision(const struct dbfile *f, struct hashing *h, struct err *e)
{
    struct db_meta meta;
    int64_t current = 0;
    if (db_meta_read(&f->bolt, &meta, e) < 0 || db_revision_read(&f->bolt, &meta, &current, e) < 0)
        return -1;
    h->compact = db_compact_revision(&meta);
    if (h->revision == 0)
        h->revision = current;
    if (h->revision < 0 || h->revision > current)
        return err_set(e, ERR_INVALID, 0,
                       "revision %" PRId64 " is in the future: the last is %" PRId64, h->revision,
                       current);
    if (h->revision < h->compact)
        return err_set(e, ERR_EXPIRED, 0,
                       "revision %" PRId64 " was compacted: the first is %" PRId64, h->revision,
                       h->compact);
    return 0;
}

static int hash_file(struct hashing *h, const struct ctx *ctx, const struct progress *progress,
                     struct err *e)
{
    AUTO(scratch_done) struct scratch bits = {0};
    const struct dbfile *f = h->walk.f;
    if (check_revision(f, h, e) < 0)
        return -1;
    if (h->compact > 0 && find_kept(h, ctx, progress, &bits, e) < 0)
        return -1;
    h->hash = crc32c(0, "key", 3);
    return walk_with(h, ctx, progress, hash_entry, e);
}

int hashkv_of(const struct ctx *ctx, const struct dbfile *f, int64_t revision,
              const struct progress *progress, struct hashkv *out, struct err *e)
{
    struct hashing h = {.walk = {.f = f}, .revision = revision};
    const int rc = hash_file(&h, ctx, progress, e);
    if (dbfile_check(f, e) < 0)
        return -1;
    if (rc < 0)
        return err_wrap(e, "%s", f->path);
    *out = (struct hashkv){h.hash, h.revision, h.compact};
    return 0;
}
