/* SPDX-License-Identifier: Apache-2.0
 * Everything is decided in the walk itself, except which leases are missing: only the newest
 * entry of a key needs its lease, and which entry that is, is known at the end. Entries whose
 * lease has no record are marked on the way; if one of them turns out to be the newest, a second
 * walk over the damaged file names it. */
#include "datadir/scan.h"

#include <endian.h>
#include <inttypes.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "bolt/find.h"
#include "datadir/keyset.h"
#include "datadir/mvcc.h"

enum { LOST_MAX = 16 };

struct scan {
    struct dbfile_walk walk; /* first: dbfile_reach() */
    const struct scan_options *o;
    struct scan_result r;
    enum bucket bucket;
    struct keyset *keys;
    struct bolt_bucket leases;
    bool has_leases, has_key, has_meta;
    struct mvcc_revision before; /* the entry before */
    int64_t compact;
    uint64_t lost[LOST_MAX]; /* numbers of entries whose lease is missing */
    size_t n_lost;
};

static int note(struct scan *s, const struct scan_finding *finding, struct err *e)
{
    if (finding->odd)
        s->r.odd++;
    else
        s->r.fatal++;
    if (s->o->found)
        return s->o->found(s->o->arg, finding, e);
    return finding->odd ? 0 : err_set(e, ERR_CORRUPT, 0, "%s", finding->what);
}

static int note_fatal(void *arg, uint64_t page, const char *what, struct err *e)
{
    return note(arg, &(struct scan_finding){.page = page, .what = what}, e);
}

/* What is in *e, which is empty afterwards if the scan goes on. */
static int note_odd(struct scan *s, uint64_t page, struct err *e)
{
    const struct err found = *e;
    *e = (struct err){0};
    return note(s, &(struct scan_finding){page, true, found.text}, e);
}

static void say_where(const struct scan *s, const struct bolt_item *item, struct err *e)
{
    err_wrap(e, "page %" PRIu64 ": bucket %.*s", item->page, STR_ARG(bucket_name(s->bucket)));
}

static int scan_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    struct scan *s = arg;
    s->bucket = bucket_of(name);
    s->has_key = s->has_key || s->bucket == BUCKET_KEY;
    s->has_meta = s->has_meta || s->bucket == BUCKET_META;
    if (s->o->hash)
        s->r.hash = crc32c(s->r.hash, name.p, name.n);
    if (!s->o->strict || s->bucket != BUCKET_UNKNOWN)
        return 0;
    err_set(e, ERR_INVALID, 0, "page %" PRIu64 ": bucket %.*s is none of etcd's", page,
            STR_ARG(name));
    return note_odd(s, page, e);
}

/* Every change of a transaction is an entry, numbered from 0, and every transaction that changed
 * something is the next revision. Compaction makes holes, but only up to its revision; a revision
 * bump leaps, and leaves an entry without a value. */
static int check_history(struct scan *s, const struct mvcc_revision *at, bool bump, struct err *e)
{
    const struct mvcc_revision before = s->before;
    s->before = *at;
    if (at->main <= s->compact || bump)
        return 0;
    const int64_t floor = s->compact > 1 ? s->compact : 1; /* an empty store is at revision 1 */
    const int64_t last = before.main > floor ? before.main : floor;
    if (at->main == before.main ? at->sub == before.sub + 1 : at->sub == 0 && at->main == last + 1)
        return 0;
    return err_set(e, ERR_INVALID, 0,
                   "revision %" PRId64 ".%" PRId64 " follows %" PRId64 ".%" PRId64
                   ": something is missing between them",
                   at->main, at->sub, last, at->main == before.main ? before.sub : 0);
}

static bool lease_is_lost(const struct scan *s, int64_t lease)
{
    if (lease == 0 || !s->o->strict)
        return false;
    struct err ignored = {0};
    struct str value;
    const uint64_t id = htobe64((uint64_t)lease);
    return !s->has_leases ||
           bolt_find(&s->leases, (struct str){(const char *)&id, sizeof(id)}, &value, &ignored) < 0;
}

/* 0 also after an odd finding, which is noted: the entry counts like any other. */
static int settle(struct scan *s, const struct bolt_item *item, int rc, struct err *e)
{
    if (rc == 0 || e->code != ERR_INVALID)
        return rc;
    say_where(s, item, e);
    return note_odd(s, item->page, e);
}

static int check_value(const struct scan *s, const struct mvcc_revision *at, struct str value,
                       struct mvcc_kv *out, struct err *e)
{
    if ((s->o->strict ? mvcc_entry_check(at, value, out, e) : mvcc_kv_decode(value, out, e)) == 0)
        return 0;
    return err_wrap(e, "revision %" PRId64 ".%" PRId64, at->main, at->sub);
}

static int scan_entry(struct scan *s, const struct bolt_item *item, struct err *e)
{
    struct mvcc_revision at;
    struct mvcc_kv kv = {0};
    if (mvcc_revision_decode(item->key, &at, e) < 0)
        return -1;
    s->r.revision = at.main;
    s->r.entries++;
    const bool bump = item->value.n == 0 && !at.tombstone;
    if (s->o->history && settle(s, item, check_history(s, &at, bump, e), e) < 0)
        return -1;
    if (settle(s, item, check_value(s, &at, item->value, &kv, e), e) < 0)
        return -1;
    if (!s->keys)
        return 0;
    const unsigned flags =
        (at.tombstone ? KEYSET_TOMBSTONE : 0U) | (lease_is_lost(s, kv.lease) ? KEYSET_MARK : 0U);
    return keyset_add(s->keys, kv.key, flags, e);
}

static int scan_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct scan *s = arg;
    if (s->o->hash)
        s->r.hash =
            crc32c(crc32c(s->r.hash, item->key.p, item->key.n), item->value.p, item->value.n);
    int rc = 0;
    if (s->bucket == BUCKET_KEY)
        rc = scan_entry(s, item, e);
    else if (s->o->strict)
        rc = settle(s, item, bucket_entry_check(s->bucket, item->key, item->value, e), e);
    if (rc < 0 && e->code == ERR_CORRUPT)
        say_where(s, item, e);
    return rc;
}

static int remember_lost(void *arg, uint64_t number, unsigned flags, struct err *e)
{
    (void)e;
    struct scan *s = arg;
    if ((flags & KEYSET_MARK) && s->n_lost < LOST_MAX)
        s->lost[s->n_lost++] = number;
    return 0;
}

/* The second walk: only to say where. */
struct naming {
    struct dbfile_walk walk;
    struct scan *s;
    enum bucket bucket;
    uint64_t number;
};

static int name_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    (void)page;
    (void)e;
    ((struct naming *)arg)->bucket = bucket_of(name);
    return 0;
}

/* Entries have the numbers that keyset_add() gave them: those that do not decode have none. */
static int name_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct naming *n = arg;
    struct mvcc_revision at;
    struct mvcc_kv kv;
    struct err ignored = {0};
    if (n->bucket != BUCKET_KEY || mvcc_revision_decode(item->key, &at, &ignored) < 0 ||
        mvcc_kv_decode(item->value, &kv, &ignored) < 0)
        return 0;
    const uint64_t number = n->number++;
    for (size_t i = 0; i < n->s->n_lost; i++) {
        if (n->s->lost[i] != number)
            continue;
        err_set(e, ERR_INVALID, 0,
                "page %" PRIu64 ": key \"%.*s\" has lease %016" PRIx64 ", which does not exist",
                item->page, STR_ARG(kv.key), (uint64_t)kv.lease);
        return note_odd(n->s, item->page, e);
    }
    return 0;
}

static int name_ignored(void *arg, uint64_t page, const char *what, struct err *e)
{
    (void)arg;
    (void)page;
    (void)what;
    (void)e;
    return 0; /* the first walk has said it */
}

static int name_lost(const struct ctx *ctx, struct scan *s, struct err *e)
{
    struct naming n = {.walk = dbfile_walk_of(ctx, s->walk.f, NULL), .s = s};
    const struct bolt_visitor v = {.arg = &n,
                                   .bucket = name_bucket,
                                   .item = name_item,
                                   .problem = name_ignored,
                                   .reach = dbfile_reach};
    struct bolt_totals totals;
    return bolt_walk(&s->walk.f->bolt, &v, &totals, e);
}

static int resolve_keys(const struct ctx *ctx, struct scan *s, struct err *e)
{
    const struct keyset_visitor v = {s, remember_lost};
    struct keyset_totals totals;
    if (keyset_resolve(s->keys, s->o->strict ? &v : NULL, &totals, e) < 0)
        return -1;
    s->r.total_keys = totals.live;
    if (s->n_lost > 0 && name_lost(ctx, s, e) < 0)
        return -1;
    if (!s->o->strict || totals.marked == s->n_lost)
        return 0;
    err_set(e, ERR_INVALID, 0, "and %" PRIu64 " more keys have a lease that does not exist",
            totals.marked - s->n_lost);
    return note_odd(s, s->walk.f->bolt.meta.root, e);
}

/* A database is whole pages, and then perhaps 32 bytes of hash. */
static int check_length(struct scan *s, struct err *e)
{
    const struct dbfile *f = s->walk.f;
    const size_t extra = f->n % f->bolt.meta.page_size;
    if (extra == 0 || !s->o->strict)
        return 0;
    err_set(e, ERR_INVALID, 0, "the file ends in %zu bytes that are neither a page nor a hash",
            extra);
    return note_odd(s, f->n / f->bolt.meta.page_size, e);
}

/* Meta pages are not part of the tree: bbolt needs one of them, a healthy file has both. */
static int check_metas(struct scan *s, struct err *e)
{
    const struct bolt *b = &s->walk.f->bolt;
    for (uint64_t page = 0; s->o->strict && page < 2; page++) {
        const uint8_t *p = b->p + page * b->meta.page_size;
        uint8_t want[16] = {(uint8_t)page, 0, 0, 0, 0, 0, 0, 0, 0x04};
        if (!b->valid[page])
            err_set(e, ERR_INVALID, 0, "page %" PRIu64 ": the meta page is damaged", page);
        else if (memcmp(p, want, sizeof(want)) != 0)
            err_set(e, ERR_INVALID, 0, "page %" PRIu64 ": the header of the meta page is damaged",
                    page);
        else
            continue;
        if (note_odd(s, page, e) < 0)
            return -1;
    }
    return 0;
}

static int scan_all(const struct ctx *ctx, struct scan *s, struct err *e)
{
    const struct bolt_visitor v = {
        .arg = s,
        .bucket = scan_bucket,
        .item = scan_item,
        .problem = s->o->found ? note_fatal : NULL,
        .reach = dbfile_reach,
    };
    const struct bolt *b = &s->walk.f->bolt;
    struct bolt_totals totals = {0};
    s->compact = db_meta_read(b, &s->r.meta, e) == 0 ? db_compact_revision(&s->r.meta) : -1;
    s->has_leases = bolt_find_bucket(b, STR("lease"), &s->leases, e) == 0;
    *e = (struct err){0}; /* a damaged or missing bucket is found by the walk */
    if (check_length(s, e) < 0 || check_metas(s, e) < 0 || bolt_walk(b, &v, &totals, e) < 0)
        return -1;
    s->r.total_bytes = b->meta.pages * b->meta.page_size;
    s->r.used_bytes = totals.pages_used * b->meta.page_size;
    if (s->keys && resolve_keys(ctx, s, e) < 0)
        return -1;
    if (db_meta_read(b, &s->r.meta, e) == 0)
        return 0;
    if (e->code != ERR_CORRUPT || !s->o->found)
        return -1;
    if (s->r.fatal > 0)
        return 0; /* the damage has been named */
    const struct err found = *e;
    return note_fatal(s, b->meta.root, found.text, e);
}

int scan_db(const struct ctx *ctx, const struct dbfile *f, const struct scan_options *o,
            struct scan_result *out, struct err *e)
{
    AUTO(keyset_free_auto) struct keyset *keys = o->keys ? keyset_new(f->path) : NULL;
    struct scan s = {.walk = dbfile_walk_of(ctx, f, o->progress), .o = o, .keys = keys};
    const int rc = scan_all(ctx, &s, e);
    if (dbfile_check(f, e) < 0)
        return -1;
    if (rc < 0)
        return e->code == ERR_CORRUPT ? err_wrap(e, "%s", f->path) : -1;
    *out = s.r;
    return 0;
}
