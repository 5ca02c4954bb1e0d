/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/dbfile.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/mem.h"

enum { SECTOR_BYTES = 512, HASH_STEP_BYTES = 1024 * 1024 };
static const uint64_t tell_every_bytes = 8 << 20;

bool dbfile_size_has_hash(uint64_t size)
{
    return size % SECTOR_BYTES == SHA256_BYTES;
}

/* Named and not opened: the log beside it may hold writes that it does not. */
static int explain_directory(const char *path, struct err *e)
{
    auto_free char *inside = xasprintf("%s/member/snap/db", path);
    if (access(inside, F_OK) == 0)
        return err_set(e, ERR_INVALID, 0, "%s: a data directory; its database is %s", path, inside);
    return -1;
}

int dbfile_open(struct dbfile *f, const char *path, enum mapping_lock lock, struct err *e)
{
    *f = (struct dbfile){.map = {.fd = -1}};
    if (mapping_open(&f->map, path, lock, e) < 0)
        return e->code == ERR_INVALID ? explain_directory(path, e) : -1;
    f->path = xstrdup(path);
    f->has_hash = dbfile_size_has_hash(f->map.n);
    f->n = f->map.n - (f->has_hash ? SHA256_BYTES : 0);
    const int rc = bolt_open(&f->bolt, f->map.p, f->n, e);
    if (mapping_check(&f->map, e) < 0 || rc < 0) {
        dbfile_done(f);
        return err_wrap(e, "%s", path);
    }
    return 0;
}

int dbfile_check(const struct dbfile *f, struct err *e)
{
    return mapping_check(&f->map, e) < 0 ? err_wrap(e, "%s", f->path) : 0;
}

void dbfile_done(struct dbfile *f)
{
    if (!f->path)
        return;
    mapping_done(&f->map);
    free(TAKE(f->path));
}

static int hash_step(struct dbfile_hash *h, struct mapping_window *window, struct err *e)
{
    const uint64_t left = h->end - h->at, n = left < HASH_STEP_BYTES ? left : HASH_STEP_BYTES;
    if (ctx_check(h->ctx, e) < 0 ||
        (h->arrival && h->arrival->await(h->arrival->arg, h->at, n, e) < 0))
        return -1;
    mapping_reach(window, h->at);
    sha256_add(h->sha, (struct str){(const char *)h->map->p + h->at, (size_t)n});
    h->at += n;
    return 0;
}

static void hash_run(void *arg)
{
    struct dbfile_hash *h = arg;
    struct mapping_window window = mapping_window_of(h->map);
    window.only_behind = h->arrival != NULL;
    while (h->rc == 0 && h->at < h->end && !atomic_load(&h->stop))
        h->rc = hash_step(h, &window, &h->err);
}

void dbfile_hash_begin(struct dbfile_hash *h, const struct ctx *ctx)
{
    *h = (struct dbfile_hash){.ctx = ctx, .sha = sha256_new()};
}

void dbfile_hash_done(struct dbfile_hash *h)
{
    atomic_store(&h->stop, true);
    thread_join(&h->thread);
    sha256_free(TAKE(h->sha));
}

void dbfile_hash_add(struct dbfile_hash *h, struct str bytes)
{
    sha256_add(h->sha, bytes);
}

int dbfile_hash_start(struct dbfile_hash *h, const struct mapping *map, uint64_t from, uint64_t end,
                      const struct bolt_arrival *arrival, struct err *e)
{
    h->map = map;
    h->at = from;
    h->end = end;
    h->arrival = arrival;
    return thread_start(&h->thread, "sha256", hash_run, h, e);
}

int dbfile_hash_join(struct dbfile_hash *h, struct err *e)
{
    thread_join(&h->thread);
    if (h->map && mapping_check(h->map, e) < 0)
        return -1;
    if (h->rc < 0)
        *e = h->err;
    return h->rc;
}

int dbfile_hash_check(struct dbfile_hash *h, const struct dbfile *f, struct err *e)
{
    unsigned char sum[SHA256_BYTES];
    if (dbfile_hash_join(h, e) < 0)
        return -1;
    sha256_finish(h->sha, sum);
    const uint8_t *want = f->map.p + f->n;
    const bool same = memcmp(want, sum, SHA256_BYTES) == 0;
    if (mapping_check(&f->map, e) < 0)
        return -1;
    if (same)
        return 0;
    char has[SHA256_HEX_MAX], says[SHA256_HEX_MAX];
    return err_set(e, ERR_CORRUPT, 0, "SHA-256 of the content is %s, the file ends in %s",
                   sha256_print(sum, has), sha256_print(want, says));
}

struct dbfile_walk dbfile_walk_of(const struct ctx *ctx, const struct dbfile *f,
                                  const struct progress *progress)
{
    struct dbfile_walk w = {
        .ctx = ctx, .f = f, .window = mapping_window_of(&f->map), .progress = progress};
    /* To read ahead of the one who writes would fill the page cache with zeros for him to find. */
    w.window.only_behind = f->bolt.arrival != NULL;
    return w;
}

int dbfile_reach(void *walk, uint64_t offset, uint64_t bytes, struct err *e)
{
    struct dbfile_walk *w = walk;
    mapping_reach(&w->window, offset);
    w->reached += bytes;
    if (w->reached - w->told < tell_every_bytes)
        return 0;
    w->told = w->reached;
    if (w->progress)
        w->progress->tell(w->progress->arg, w->reached, w->f->n);
    return ctx_check(w->ctx, e);
}
