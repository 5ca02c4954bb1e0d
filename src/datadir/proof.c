/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/proof.h"

void proof_begin(struct proof *p, const struct ctx *ctx, const struct dbfile *snapshot)
{
    *p = (struct proof){.snapshot = snapshot, .db = {.fd = -1}};
    dbfile_hash_begin(&p->hash, ctx);
}

void proof_done(struct proof *p)
{
    if (!p->snapshot)
        return;
    if (p->arrival)
        arrival_give_up(p->arrival);
    dbfile_hash_done(&p->hash);
    mapping_done(&p->db);
    p->snapshot = NULL;
}

void proof_add(struct proof *p, struct str bytes)
{
    dbfile_hash_add(&p->hash, bytes);
}

int proof_follow(struct proof *p, const char *path, uint64_t from, uint64_t end,
                 struct arrival *arrival, struct err *e)
{
    if (mapping_open(&p->db, path, MAPPING_SHARED, e) < 0)
        return -1;
    p->path = path;
    p->arrival = arrival;
    p->copied_end = end;
    return dbfile_hash_start(&p->hash, &p->db, from, end, &arrival->bolt, e);
}

int proof_end(struct proof *p, struct err *e)
{
    const struct dbfile *f = p->snapshot;
    if (dbfile_hash_join(&p->hash, e) < 0)
        return err_wrap(e, "%s", p->path);
    if (dbfile_hash_start(&p->hash, &f->map, p->copied_end, f->n, NULL, e) < 0)
        return -1;
    return dbfile_hash_check(&p->hash, f, e) < 0 ? err_wrap(e, "%s", f->path) : 0;
}
