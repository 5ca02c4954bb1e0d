/* SPDX-License-Identifier: Apache-2.0
 * One walk counts the matching entries, a second one notes where they lie; sorted by key and age,
 * the newest of each key stays unless it is a tombstone.
 *
 * A sort compares keys all over the file. What all keys begin with is known after the first walk;
 * each entry keeps the bytes of its key that follow, so that few comparisons need the file. */
#include "datadir/livekeys.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/mem.h"
#include "datadir/buckets.h"

enum { HEAD_BYTES = 24 };

struct livekey {
    char head[HEAD_BYTES]; /* of the key, behind what is common to all; zeros behind its end */
    uint64_t offset;       /* of the message in the file */
    uint64_t number;       /* age: larger is newer */
    uint32_t n;            /* its bytes */
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
    struct str common;    /* what all keys begin with */
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

static struct str common_of(struct str a, struct str b)
{
    size_t n = 0;
    while (n < a.n && n < b.n && a.p[n] == b.p[n])
        n++;
    return str_first(a, n);
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
    if (!c->into)
        c->common = c->n == 0 ? kv.key : common_of(c->common, kv.key);
    if (c->into && c->n < c->max) {
        struct livekey *k = &c->into[c->n];
        *k = (struct livekey){
            .offset = (uint64_t)(item->value.p - (const char *)c->walk.f->map.p),
            .number = number,
            .n = (uint32_t)item->value.n,
            .key_n = (uint32_t)kv.key.n,
            .key_at = (uint32_t)(kv.key.p - item->value.p),
            .tombstone = at.tombstone,
        };
        const struct str head = str_first(str_from(kv.key, c->common.n), HEAD_BYTES);
        if (head.n > 0)
            memcpy(k->head, head.p, head.n);
    }
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

/* Out of order: what was read some windows ago is let go. */
static void reach(struct mapping_window *w, uint64_t offset, uint64_t bytes)
{
    enum { STEP_BYTES = 1024 * 1024 };
    for (uint64_t at = 0; at < bytes; at += STEP_BYTES)
        mapping_reach(w, offset + at);
    if (bytes > 0)
        mapping_reach(w, offset + bytes - 1);
}

/* The array, and how to compare in it. */
struct sorting {
    struct livekey *v;
    size_t common_n;
    struct mapping_window window;
};

static struct str key_of(struct sorting *s, const struct livekey *k)
{
    const uint64_t offset = k->offset + k->key_at;
    reach(&s->window, offset, k->key_n);
    return (struct str){(const char *)s->window.m->p + offset, k->key_n};
}

/* A zero in the head may be a byte of the key or its end; where heads are the same, the lengths
 * tell, or the rest of the keys. */
static int compare_keys(struct sorting *s, const struct livekey *a, const struct livekey *b)
{
    const int order = memcmp(a->head, b->head, HEAD_BYTES);
    const size_t whole = s->common_n + HEAD_BYTES;
    if (order != 0)
        return order;
    if (a->key_n <= whole && b->key_n <= whole)
        return (a->key_n > b->key_n) - (a->key_n < b->key_n);
    return bolt_key_cmp(key_of(s, a), key_of(s, b));
}

/* By key, the newest first. */
static bool comes_before(struct sorting *s, const struct livekey *a, const struct livekey *b)
{
    const int order = compare_keys(s, a, b);
    return order != 0 ? order < 0 : a->number > b->number;
}

static void sift_down(struct sorting *s, size_t top, size_t n)
{
    struct livekey *v = s->v;
    const struct livekey moving = v[top];
    for (size_t child; (child = 2 * top + 1) < n; top = child) {
        if (child + 1 < n && comes_before(s, &v[child], &v[child + 1]))
            child++;
        if (!comes_before(s, &moving, &v[child]))
            break;
        v[top] = v[child];
    }
    v[top] = moving;
}

/* A heap sort: in place, because the array may be larger than memory, and never quadratic,
 * because the keys may be chosen by somebody else. */
static int sort(const struct ctx *ctx, struct sorting *s, size_t n, struct err *e)
{
    enum { CHECK_EVERY = 65536 };
    for (size_t i = n / 2; i-- > 0;)
        sift_down(s, i, n);
    for (size_t i = n; i-- > 1;) {
        const struct livekey largest = s->v[0];
        s->v[0] = s->v[i];
        s->v[i] = largest;
        sift_down(s, 0, i);
        if (i % CHECK_EVERY == 0 && ctx_check(ctx, e) < 0)
            return -1;
    }
    return 0;
}

static size_t keep_newest(struct sorting *s, size_t n)
{
    size_t kept = 0;
    struct livekey before = {0};
    for (size_t i = 0; i < n; i++) {
        const struct livekey at = s->v[i];
        if (i > 0 && compare_keys(s, &before, &at) == 0)
            continue;
        before = at;
        if (!at.tombstone)
            s->v[kept++] = at;
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
    struct sorting s = {.v = c.into, .common_n = c.common.n, .window = mapping_window_of(&f->map)};
    if (sort(ctx, &s, c.max, e) < 0)
        return -1;
    *out = (struct livekeys){
        .f = f, .window = s.window, .entries = entries, .n = keep_newest(&s, c.max)};
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
    free(TAKE(k->read));
}

/* Messages lie in the order of their age and are wanted in that of their keys. To map a small one
 * costs several times as much as to copy it, because its neighbours are mapped with it and let go
 * unread. What cannot be copied, the mapping gives, or finds out why not. */
static struct str message_of(struct livekeys *k, const struct livekey *at)
{
    enum { COPY_MAX_BYTES = 64 * 1024 };
    const struct mapping *m = &k->f->map;
    if (m->fd >= 0 && at->n <= COPY_MAX_BYTES) {
        if (!k->read)
            k->read = xmalloc(COPY_MAX_BYTES);
        if (pread(m->fd, k->read, at->n, (off_t)at->offset) == (ssize_t)at->n)
            return (struct str){k->read, at->n};
    }
    reach(&k->window, at->offset, at->n);
    return (struct str){(const char *)m->p + at->offset, at->n};
}

struct mvcc_kv livekeys_at(struct livekeys *k, size_t i)
{
    struct mvcc_kv kv = {0};
    struct err ignored = {0};
    const struct livekey *at = (const struct livekey *)k->entries.p + i;
    (void)!mvcc_kv_decode(message_of(k, at), &kv, &ignored); /* it decoded when it was found */
    return kv;
}

int livekeys_diff(struct livekeys *a, struct livekeys *b,
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
