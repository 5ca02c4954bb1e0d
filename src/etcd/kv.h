/* SPDX-License-Identifier: Apache-2.0
 * Keys and values: range, put, delete, transaction, compaction. Codes: see etcd/client.h;
 * ERR_EXPIRED: the revision asked for is compacted. */
#pragma once
#include "etcd/client.h"

struct etcd_kv {
    struct str key, value; /* borrowed from the result they came in */
    int64_t create_revision;
    int64_t mod_revision;
    int64_t version;
    int64_t lease;
};

/* end: empty = this key only; "\0" = everything from key on. */
struct etcd_range {
    struct str key, end;
    int64_t limit;    /* 0: none */
    int64_t revision; /* 0: now */
    enum { ETCD_SORT_NONE, ETCD_SORT_ASCEND, ETCD_SORT_DESCEND } order;
    enum {
        ETCD_BY_KEY,
        ETCD_BY_VERSION,
        ETCD_BY_CREATE,
        ETCD_BY_MOD,
        ETCD_BY_VALUE,
    } by;
    bool serializable; /* this member's view, without asking the others */
    bool keys_only, count_only;
    int64_t min_mod_revision, max_mod_revision;
    int64_t min_create_revision, max_create_revision;
};

/* The end of the range of all keys that begin with prefix, for etcd_range.end. Owned by the
 * caller: buf_done(). An empty prefix is the whole keyspace; then the key must be "\0". */
struct buf;
void etcd_prefix_end(struct str prefix, struct buf *out);

struct etcd_kvs {
    struct etcd_header header;
    const struct etcd_kv *v;
    size_t n;
    bool more;     /* the limit cut it off */
    int64_t count; /* of the whole range */
    void *own;
};

/* Puts results of any age into the out parameter's place: done() before reuse. */
NODISCARD int etcd_get(const struct ctx *ctx, struct etcd_client *c, const struct etcd_range *r,
                       struct etcd_kvs *out, struct err *e);
/* On one endpoint: for serializable reads of a learner, or a member's own linearizable read. */
NODISCARD int etcd_get_at(const struct ctx *ctx, struct etcd_client *c, size_t at,
                          const struct etcd_range *r, struct etcd_kvs *out, struct err *e);
void etcd_kvs_done(struct etcd_kvs *kvs); /* NULL-safe, idempotent */

/* A large range in pages of one revision, in key order. r->limit is the size of a page
 * (0: 1000). Each page replaces the one before. Returns 1 and a page, 0 at the end, -1.
 *
 *     AUTO(etcd_pages_done) struct etcd_pages pages = {.range = …};
 *     while ((rc = etcd_pages_next(ctx, c, &pages, e)) > 0) … pages.page.v[i] …
 */
struct etcd_pages {
    struct etcd_range range;
    struct etcd_kvs page;
    int64_t revision; /* of all pages, from the first on */
    char *from;       /* where the next one starts; owned */
    size_t from_n;
    bool over;
};
NODISCARD int etcd_pages_next(const struct ctx *ctx, struct etcd_client *c, struct etcd_pages *p,
                              struct err *e);
void etcd_pages_done(struct etcd_pages *p);

struct etcd_put {
    struct str key, value;
    int64_t lease;
    bool prev_kv;
    bool ignore_value, ignore_lease; /* keep the present one */
};

/* out->n is 0 or 1: the previous value, if asked for and there was one. out may be NULL. */
NODISCARD int etcd_put(const struct ctx *ctx, struct etcd_client *c, const struct etcd_put *p,
                       struct etcd_kvs *out, struct err *e);

struct etcd_delete {
    struct str key, end;
    bool prev_kv;
};

/* out->count: how many went; out->v: what they were, if asked for. out may be NULL. */
NODISCARD int etcd_delete(const struct ctx *ctx, struct etcd_client *c, const struct etcd_delete *d,
                          struct etcd_kvs *out, struct err *e);

struct etcd_compare {
    struct str key, end;
    enum { ETCD_EQUAL, ETCD_GREATER, ETCD_LESS, ETCD_NOT_EQUAL } is;
    enum {
        ETCD_VERSION,
        ETCD_CREATE_REVISION,
        ETCD_MOD_REVISION,
        ETCD_VALUE,
        ETCD_LEASE,
    } what;
    int64_t number;   /* for all but ETCD_VALUE */
    struct str value; /* for ETCD_VALUE */
};

struct etcd_op {
    enum { ETCD_OP_RANGE, ETCD_OP_PUT, ETCD_OP_DELETE } type;
    union {
        struct etcd_range range;
        struct etcd_put put;
        struct etcd_delete del;
    };
};

/* If all of compare hold, success is done, otherwise failure; all at one revision. */
struct etcd_txn {
    const struct etcd_compare *compare;
    size_t n_compare;
    const struct etcd_op *success;
    size_t n_success;
    const struct etcd_op *failure;
    size_t n_failure;
};

struct etcd_txn_result {
    struct etcd_header header;
    bool succeeded;
    const struct etcd_kvs *ops; /* one per op of the branch taken; their own is NULL */
    size_t n_ops;
    void *own;
};

/* A transaction of ranges only is a read, and may be asked of several members. */
NODISCARD int etcd_txn(const struct ctx *ctx, struct etcd_client *c, const struct etcd_txn *t,
                       struct etcd_txn_result *out, struct err *e);
void etcd_txn_result_done(struct etcd_txn_result *r);

/* Forgets revisions before this one. physical: return when the member has deleted them. */
NODISCARD int etcd_compact(const struct ctx *ctx, struct etcd_client *c, int64_t revision,
                           bool physical, struct err *e);
