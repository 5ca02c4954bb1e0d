/* SPDX-License-Identifier: Apache-2.0
 * A partition's records are read from the last to the first: the first record seen of a key is
 * its newest entry, and only one table of distinct keys is needed. Chunks in the temporary file
 * are chained backwards by number, so the file itself has no order to keep. */
#include "datadir/keyset.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/siphash.h"
#include "datadir/scratch.h"

enum {
    PARTITIONS = 1024,
    CHUNK_RECORDS = 255, /* with its head one chunk is 4 KiB */
    NUMBER_BITS = 40,
    FLAG_BITS = 2,
};

struct record {
    uint64_t hash;
    uint64_t rest; /* more hash, flags, number */
};

struct chunk {
    uint64_t before; /* number of the chunk before it in the same partition, counted from 1 */
    uint64_t n;
    struct record v[CHUNK_RECORDS];
};

struct keyset {
    struct chunk *open[PARTITIONS]; /* allocated when first used */
    uint64_t added;
    uint64_t chunks; /* in the file */
    int fd;
    const char *beside;
};

struct keyset *keyset_new(const char *beside)
{
    struct keyset *s = xcalloc(1, sizeof(*s));
    s->fd = -1;
    s->beside = beside;
    return s;
}

void keyset_free(struct keyset *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < PARTITIONS; i++)
        free(s->open[i]);
    if (s->fd >= 0)
        (void)close(s->fd);
    free(s);
}

static int spill(struct keyset *s, struct chunk *c, struct err *e)
{
    if (s->fd < 0 && (s->fd = scratch_open(s->beside, 0, e)) < 0)
        return -1;
    const ssize_t put = pwrite(s->fd, c, sizeof(*c), (off_t)(s->chunks * sizeof(*c)));
    if (put != (ssize_t)sizeof(*c))
        return err_set_errno(e, put < 0 ? errno : ENOSPC, "temporary file (TMPDIR says where)");
    c->before = ++s->chunks;
    c->n = 0;
    return 0;
}

int keyset_add(struct keyset *s, struct str key, unsigned flags, struct err *e)
{
    const struct siphash128 h = siphash128(key);
    struct chunk **at = &s->open[h.high % PARTITIONS];
    if (!*at) {
        *at = xmalloc(sizeof(**at));
        (*at)->before = (*at)->n = 0;
    }
    struct chunk *c = *at;
    if (c->n == CHUNK_RECORDS && spill(s, c, e) < 0)
        return -1;
    c->v[c->n++] = (struct record){
        .hash = h.low,
        .rest = h.high >> (NUMBER_BITS + FLAG_BITS) << (NUMBER_BITS + FLAG_BITS) |
                (uint64_t)flags << NUMBER_BITS | s->added++,
    };
    return 0;
}

/* Keys of one partition; grows with them, and is kept for the next one. */
struct table {
    struct record *v; /* hash == 0 && rest == 0: free */
    size_t cap, n;
};

static const uint64_t number_mask = (UINT64_C(1) << NUMBER_BITS) - 1;

static bool same_key(const struct record *a, const struct record *b)
{
    return a->hash == b->hash && (a->rest ^ b->rest) >> (NUMBER_BITS + FLAG_BITS) == 0;
}

static struct record *slot_of(const struct table *t, const struct record *r)
{
    size_t i = r->hash & (t->cap - 1);
    while ((t->v[i].hash | t->v[i].rest) != 0 && !same_key(&t->v[i], r))
        i = (i + 1) & (t->cap - 1);
    return &t->v[i];
}

static void grow(struct table *t)
{
    struct table bigger = {.cap = t->cap > 0 ? t->cap * 2 : 1024, .n = t->n};
    bigger.v = xcalloc(bigger.cap, sizeof(*bigger.v));
    for (size_t i = 0; i < t->cap; i++)
        if ((t->v[i].hash | t->v[i].rest) != 0)
            *slot_of(&bigger, &t->v[i]) = t->v[i];
    free(t->v);
    *t = bigger;
}

static int resolve_chunk(struct table *t, const struct chunk *c, const struct keyset_visitor *v,
                         struct keyset_totals *out, struct err *e)
{
    for (uint64_t i = c->n; i-- > 0;) {
        const struct record *r = &c->v[i];
        if (t->n >= t->cap / 4 * 3)
            grow(t);
        struct record *slot = slot_of(t, r);
        if ((slot->hash | slot->rest) != 0)
            continue; /* superseded */
        *slot = *r;
        t->n++;
        const unsigned flags = r->rest >> NUMBER_BITS & 3;
        if (flags & KEYSET_TOMBSTONE)
            continue;
        out->live++;
        out->marked += (flags & KEYSET_MARK) != 0;
        if (v && v->newest(v->arg, r->rest & number_mask, flags, e) < 0)
            return -1;
    }
    return 0;
}

static int resolve_partition(const struct keyset *s, struct chunk *c, struct table *t,
                             const struct keyset_visitor *v, struct keyset_totals *out,
                             struct err *e)
{
    memset(t->v, 0, t->cap * sizeof(*t->v));
    t->n = 0;
    for (;;) {
        if (resolve_chunk(t, c, v, out, e) < 0)
            return -1;
        if (c->before == 0)
            return 0;
        const ssize_t got = pread(s->fd, c, sizeof(*c), (off_t)((c->before - 1) * sizeof(*c)));
        if (got != (ssize_t)sizeof(*c))
            return err_set_errno(e, got < 0 ? errno : EIO, "temporary file");
    }
}

int keyset_resolve(struct keyset *s, const struct keyset_visitor *v, struct keyset_totals *out,
                   struct err *e)
{
    *out = (struct keyset_totals){0};
    struct table t = {0};
    grow(&t);
    int rc = 0;
    for (size_t i = 0; i < PARTITIONS && rc == 0; i++)
        if (s->open[i])
            rc = resolve_partition(s, s->open[i], &t, v, out, e);
    free(t.v);
    return rc;
}
