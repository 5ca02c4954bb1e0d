/* SPDX-License-Identifier: Apache-2.0
 * One walk counts the matching entries, a second one notes where they lie; sorted by key and age,
 * the newest of each key stays unless it is a tombstone. */
#include "datadir/livekeys.h"

#include <inttypes.h>

#include "base/ctx.h"
#include "datadir/buckets.h"

struct livekey {
    uint64_t offset; /* of the message in the file */
    uint64_t number; /* age: larger is newer */
    uint32_t n;      /* its bytes */
    uint32_t key_n;
    uint32_t key_at; /* where the key lies in it */
    uint32_t tombstone;
};

struct collecting {
    struct dbfile_walk walk; /* first: dbfile_reach() */
    struct str prefix;
    bool exact;
    enum bucket bucket;
    uint64_t number;
    struct livekey *into; /* NULL: only count */
    size_t n, max;
};

static int enter_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    (void)page;
    (void)e;
    ((struct collecting *)arg)->bucket = bucket_of(name);
    return 0;
}

static int take_item(void *arg, const struct bolt_item *item, struct err *e)
{
    struct collecting *c = arg;
    struct mvcc_revision at;
    struct mvcc_kv kv;
    if (c->bucket != BUCKET_KEY)
        return 0;
    const uint64_t number = c->number++;
    if (mvcc_revision_decode(item->key, &at, e) < 0 || mvcc_kv_decode(item->value, &kv, e) < 0)
        return err_wrap(e, "page %" PRIu64, item->page);
    if (kv.key.n == 0 || !str_starts(kv.key, c->prefix) || (c->exact && kv.key.n != c->prefix.n))
        return 0;
    if (c->into && c->n < c->max)
        c->into[c->n] = (struct livekey){
            .offset = (uint64_t)(item->value.p - (const char *)c->walk.f->map.p),
            .number = number,
            .n = (uint32_t)item->value.n,
            .key_n = (uint32_t)kv.key.n,
            .key_at = (uint32_t)(kv.key.p - item->value.p),
            .tombstone = at.tombstone,
        };
    c->n++;
    return 0;
}

static int collect(const struct ctx *ctx, struct collecting *c, const struct dbfile *f,
                   const struct progress *progress, struct err *e)
{
    c->walk = dbfile_walk_of(ctx, f, progress);
    c->n = 0;
    c->number = 0;
    const struct bolt_visitor v = {
        .arg = c, .bucket = enter_bucket, .item = take_item, .reach = dbfile_reach};
    struct bolt_totals totals;
    return bolt_walk(&f->bolt, &v, &totals, e) < 0 ? err_wrap(e, "%s", f->path) : 0;
}

static struct str key_of(const struct dbfile *f, const struct livekey *k)
{
    return (struct str){(const char *)f->map.p + k->offset + k->key_at, k->key_n};
}

/* By key, the newest first. */
static bool comes_before(const struct dbfile *f, const struct livekey *a, const struct livekey *b)
{
    const int order = bolt_key_cmp(key_of(f, a), key_of(f, b));
    return order != 0 ? order < 0 : a->number > b->number;
}

static void sift_down(const struct dbfile *f, struct livekey *v, size_t top, size_t n)
{
    const struct livekey moving = v[top];
    for (size_t child; (child = 2 * top + 1) < n; top = child) {
        if (child + 1 < n && comes_before(f, &v[child], &v[child + 1]))
            child++;
        if (!comes_before(f, &moving, &v[child]))
            break;
        v[top] = v[child];
    }
    v[top] = moving;
}

/* A heap sort: in place, because the array may be larger than memory, and never quadratic,
 * because the keys may be chosen by somebody else. */
static int sort(const struct ctx *ctx, const struct dbfile *f, struct livekey *v, size_t n,
                struct err *e)
{
    enum { CHECK_EVERY = 65536 };
    for (size_t i = n / 2; i-- > 0;)
        sift_down(f, v, i, n);
    for (size_t i = n; i-- > 1;) {
        const struct livekey largest = v[0];
        v[0] = v[i];
        v[i] = largest;
        sift_down(f, v, 0, i);
        if (i % CHECK_EVERY == 0 && ctx_check(ctx, e) < 0)
            return -1;
    }
    return 0;
}

static size_t keep_newest(const struct dbfile *f, struct livekey *v, size_t n)
{
    size_t kept = 0;
    struct str before = {0};
    for (size_t i = 0; i < n; i++) {
        const struct str key = key_of(f, &v[i]);
        if (before.p && str_eq(before, key))
            continue;
        before = key;
        if (!v[i].tombstone)
            v[kept++] = v[i];
    }
    return kept;
}

static int find(const struct ctx *ctx, const struct dbfile *f, struct str prefix, bool exact,
                const struct progress *progress, struct livekeys *out, struct err *e)
{
    struct collecting c = {.prefix = prefix, .exact = exact};
    AUTO(scratch_done) struct scratch entries = {0};
    if (collect(ctx, &c, f, progress, e) < 0 ||
        scratch_init(&entries, c.n * sizeof(struct livekey), f->path, e) < 0)
        return -1;
    c.max = c.n;
    c.into = entries.p;
    if (c.n > 0 && collect(ctx, &c, f, NULL, e) < 0)
        return -1;
    if (c.n != c.max)
        return err_set(e, ERR_CONFLICT, 0, "%s: the file changes while it is read", f->path);
    if (sort(ctx, f, c.into, c.max, e) < 0)
        return -1;
    *out = (struct livekeys){.f = f, .entries = entries, .n = keep_newest(f, c.into, c.max)};
    entries.p = NULL; /* handed over */
    return 0;
}

int livekeys_find(const struct ctx *ctx, const struct dbfile *f, struct str prefix, bool exact,
                  const struct progress *progress, struct livekeys *out, struct err *e)
{
    AUTO(livekeys_done) struct livekeys found = {0};
    const int rc = find(ctx, f, prefix, exact, progress, &found, e);
    if (dbfile_check(f, e) < 0 || rc < 0)
        return -1;
    *out = found;
    found = (struct livekeys){0}; /* handed over */
    return 0;
}

void livekeys_done(struct livekeys *k)
{
    scratch_done(&k->entries);
}

struct mvcc_kv livekeys_at(const struct livekeys *k, size_t i)
{
    const struct livekey *at = (const struct livekey *)k->entries.p + i;
    struct mvcc_kv kv = {0};
    struct err ignored = {0};
    (void)!mvcc_kv_decode((struct str){(const char *)k->f->map.p + at->offset, at->n}, &kv,
                          &ignored); /* it decoded when it was found */
    return kv;
}

int livekeys_diff(const struct livekeys *a, const struct livekeys *b,
                  int (*found)(void *arg, enum diff_kind kind, struct str key, struct err *e),
                  void *arg, struct err *e)
{
    for (size_t i = 0, k = 0; i < a->n || k < b->n;) {
        const struct mvcc_kv x = i < a->n ? livekeys_at(a, i) : (struct mvcc_kv){0};
        const struct mvcc_kv y = k < b->n ? livekeys_at(b, k) : (struct mvcc_kv){0};
        const int order = i >= a->n ? 1 : k >= b->n ? -1 : bolt_key_cmp(x.key, y.key);
        int rc = 0;
        if (order < 0)
            rc = found(arg, DIFF_REMOVED, x.key, e);
        else if (order > 0)
            rc = found(arg, DIFF_ADDED, y.key, e);
        else if (!str_eq(x.value, y.value) || x.lease != y.lease)
            rc = found(arg, DIFF_CHANGED, y.key, e);
        if (rc < 0)
            return -1;
        i += order <= 0;
        k += order >= 0;
    }
    return dbfile_check(a->f, e) < 0 || dbfile_check(b->f, e) < 0 ? -1 : 0;
}
