/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/kv.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "etcd/client_internal.h"
#include "etcd/kv_internal.h"

enum { PAGE_DEFAULT = 1000, TXN_OPS_MAX = 10000 };

#define RPC(name_, response_, ...)                                                                 \
    {                                                                                              \
        .path = "/etcdserverpb.KV/" name_, .response = &pb__##response_##__descriptor, __VA_ARGS__ \
    }

static const struct etcd_rpc rpc_range = RPC("Range", range_response);
static const struct etcd_rpc rpc_put = RPC("Put", put_response, .mutating = true);
static const struct etcd_rpc rpc_delete = RPC("DeleteRange", delete_response, .mutating = true);
static const struct etcd_rpc rpc_txn = RPC("Txn", txn_response, .mutating = true);
static const struct etcd_rpc rpc_txn_read = RPC("Txn", txn_response);
static const struct etcd_rpc rpc_compact = RPC("Compact", any_response, .mutating = true);

void etcd_prefix_end(struct str prefix, struct buf *out)
{
    while (prefix.n > 0 && (unsigned char)prefix.p[prefix.n - 1] == 0xff)
        prefix.n--;
    if (prefix.n == 0) {
        buf_add_char(out, '\0');
        return;
    }
    buf_add(out, prefix.p, prefix.n - 1);
    buf_add_char(out, (char)(prefix.p[prefix.n - 1] + 1));
}

/* --- Requests. The protobuf structs borrow our strings. */

static Pb__RangeRequest range_request(const struct etcd_range *r)
{
    Pb__RangeRequest m = PB__RANGE_REQUEST__INIT;
    m.key = bytes_of_str(r->key);
    m.range_end = bytes_of_str(r->end);
    m.limit = r->limit;
    m.revision = r->revision;
    m.sort_order = (int32_t)r->order;
    m.sort_target = (int32_t)r->by;
    m.serializable = r->serializable;
    m.keys_only = r->keys_only;
    m.count_only = r->count_only;
    m.min_mod_revision = r->min_mod_revision;
    m.max_mod_revision = r->max_mod_revision;
    m.min_create_revision = r->min_create_revision;
    m.max_create_revision = r->max_create_revision;
    return m;
}

static Pb__PutRequest put_request(const struct etcd_put *p)
{
    Pb__PutRequest m = PB__PUT_REQUEST__INIT;
    m.key = bytes_of_str(p->key);
    m.value = bytes_of_str(p->value);
    m.lease = p->lease;
    m.prev_kv = p->prev_kv;
    m.ignore_value = p->ignore_value;
    m.ignore_lease = p->ignore_lease;
    return m;
}

static Pb__DeleteRequest delete_request(const struct etcd_delete *d)
{
    Pb__DeleteRequest m = PB__DELETE_REQUEST__INIT;
    m.key = bytes_of_str(d->key);
    m.range_end = bytes_of_str(d->end);
    m.prev_kv = d->prev_kv;
    return m;
}

static Pb__Compare compare_request(const struct etcd_compare *k)
{
    Pb__Compare m = PB__COMPARE__INIT;
    m.result = (int32_t)k->is;
    m.target = (int32_t)k->what;
    m.key = bytes_of_str(k->key);
    m.range_end = bytes_of_str(k->end);
    switch (k->what) {
    case ETCD_VERSION:
        m.against_case = PB__COMPARE__AGAINST_VERSION;
        m.version = k->number;
        break;
    case ETCD_CREATE_REVISION:
        m.against_case = PB__COMPARE__AGAINST_CREATE_REVISION;
        m.create_revision = k->number;
        break;
    case ETCD_MOD_REVISION:
        m.against_case = PB__COMPARE__AGAINST_MOD_REVISION;
        m.mod_revision = k->number;
        break;
    case ETCD_VALUE:
        m.against_case = PB__COMPARE__AGAINST_VALUE;
        m.value = bytes_of_str(k->value);
        break;
    case ETCD_LEASE:
        m.against_case = PB__COMPARE__AGAINST_LEASE;
        m.lease = k->number;
        break;
    }
    return m;
}

/* --- Results. They point into the arena of the reply. */

struct etcd_kv etcd_kv_of(const Pb__KeyValue *m)
{
    if (!m)
        return (struct etcd_kv){0};
    return (struct etcd_kv){
        .key = str_of_bytes(m->key),
        .value = str_of_bytes(m->value),
        .create_revision = m->create_revision,
        .mod_revision = m->mod_revision,
        .version = m->version,
        .lease = m->lease,
    };
}

static void fill(struct arena *own, struct etcd_kvs *out, Pb__KeyValue *const *kvs, size_t n)
{
    struct etcd_kv *v = arena_array(own, n, sizeof(*v));
    for (size_t i = 0; i < n; i++)
        v[i] = etcd_kv_of(kvs[i]);
    out->v = v;
    out->n = n;
}

static struct etcd_kvs of_range(struct arena *own, const Pb__RangeResponse *m)
{
    struct etcd_kvs out = {.header = etcd_header_of(m->header), .more = m->more, .count = m->count};
    fill(own, &out, m->kvs, m->n_kvs);
    return out;
}

static struct etcd_kvs of_put(struct arena *own, const Pb__PutResponse *m)
{
    struct etcd_kvs out = {.header = etcd_header_of(m->header)};
    fill(own, &out, &m->prev_kv, m->prev_kv ? 1 : 0);
    return out;
}

static struct etcd_kvs of_delete(struct arena *own, const Pb__DeleteResponse *m)
{
    struct etcd_kvs out = {.header = etcd_header_of(m->header), .count = m->deleted};
    fill(own, &out, m->prev_kvs, m->n_prev_kvs);
    return out;
}

static void hand_out(struct etcd_reply *reply, struct etcd_kvs result, struct etcd_kvs *out)
{
    if (!out) {
        etcd_reply_done(reply);
        return;
    }
    *out = result;
    out->own = TAKE(reply->own);
}

void etcd_kvs_done(struct etcd_kvs *kvs)
{
    if (!kvs)
        return;
    arena_free(kvs->own, false);
    *kvs = (struct etcd_kvs){0};
}

/* --- Calls */

int etcd_get_at(const struct ctx *ctx, struct etcd_client *c, size_t at, const struct etcd_range *r,
                struct etcd_kvs *out, struct err *e)
{
    const Pb__RangeRequest m = range_request(r);
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, at, &rpc_range, &m, &reply, e) < 0)
        return err_wrap(e, "range");
    hand_out(&reply, of_range(reply.own, reply.message), out);
    return 0;
}

int etcd_get(const struct ctx *ctx, struct etcd_client *c, const struct etcd_range *r,
             struct etcd_kvs *out, struct err *e)
{
    return etcd_get_at(ctx, c, ETCD_ANY, r, out, e);
}

int etcd_pages_next(const struct ctx *ctx, struct etcd_client *c, struct etcd_pages *p,
                    struct err *e)
{
    etcd_kvs_done(&p->page);
    if (p->over)
        return 0;
    struct etcd_range r = p->range;
    r.limit = r.limit > 0 ? r.limit : PAGE_DEFAULT;
    r.order = ETCD_SORT_NONE; /* by key, which is what makes the next page findable */
    r.by = ETCD_BY_KEY;
    if (p->from) {
        r.key = (struct str){p->from, p->from_n};
        r.revision = p->revision;
    }
    if (etcd_get(ctx, c, &r, &p->page, e) < 0)
        return -1;
    if (p->revision == 0)
        p->revision = r.revision > 0 ? r.revision : p->page.header.revision;
    p->over = !p->page.more || p->page.n == 0;
    if (!p->over) { /* the smallest key after the last one */
        const struct str last = p->page.v[p->page.n - 1].key;
        p->from = xrealloc_array(p->from, last.n + 1, 1);
        memcpy(p->from, last.p, last.n);
        p->from[last.n] = '\0';
        p->from_n = last.n + 1;
    }
    return p->page.n > 0 ? 1 : 0;
}

void etcd_pages_done(struct etcd_pages *p)
{
    etcd_kvs_done(&p->page);
    free(TAKE(p->from));
    p->over = true;
}

int etcd_put(const struct ctx *ctx, struct etcd_client *c, const struct etcd_put *p,
             struct etcd_kvs *out, struct err *e)
{
    const Pb__PutRequest m = put_request(p);
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_put, &m, &reply, e) < 0)
        return err_wrap(e, "put");
    hand_out(&reply, of_put(reply.own, reply.message), out);
    return 0;
}

int etcd_delete(const struct ctx *ctx, struct etcd_client *c, const struct etcd_delete *d,
                struct etcd_kvs *out, struct err *e)
{
    const Pb__DeleteRequest m = delete_request(d);
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_delete, &m, &reply, e) < 0)
        return err_wrap(e, "delete");
    hand_out(&reply, of_delete(reply.own, reply.message), out);
    return 0;
}

/* --- Transactions */

/* One op with room for whichever request it holds, so that a branch is one array. */
struct op_room {
    Pb__RequestOp op;
    union {
        Pb__RangeRequest range;
        Pb__PutRequest put;
        Pb__DeleteRequest del;
    };
};

static Pb__RequestOp **branch(const struct etcd_op *ops, size_t n, struct op_room **room)
{
    struct op_room *v = xcalloc(n + 1, sizeof(*v));
    Pb__RequestOp **list = xcalloc(n + 1, sizeof(Pb__RequestOp *));
    for (size_t i = 0; i < n; i++) {
        pb__request_op__init(&v[i].op);
        switch (ops[i].type) {
        case ETCD_OP_RANGE:
            v[i].range = range_request(&ops[i].range);
            v[i].op.request_case = PB__REQUEST_OP__REQUEST_RANGE;
            v[i].op.range = &v[i].range;
            break;
        case ETCD_OP_PUT:
            v[i].put = put_request(&ops[i].put);
            v[i].op.request_case = PB__REQUEST_OP__REQUEST_PUT;
            v[i].op.put = &v[i].put;
            break;
        case ETCD_OP_DELETE:
            v[i].del = delete_request(&ops[i].del);
            v[i].op.request_case = PB__REQUEST_OP__REQUEST_DELETE;
            v[i].op.delete_ = &v[i].del;
            break;
        }
        list[i] = &v[i].op;
    }
    *room = v;
    return list;
}

static bool only_reads(const struct etcd_op *ops, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ops[i].type != ETCD_OP_RANGE)
            return false;
    return true;
}

static struct etcd_kvs of_response_op(struct arena *own, const Pb__ResponseOp *op)
{
    switch (op->response_case) {
    case PB__RESPONSE_OP__RESPONSE_RANGE:
        return of_range(own, op->range);
    case PB__RESPONSE_OP__RESPONSE_PUT:
        return of_put(own, op->put);
    case PB__RESPONSE_OP__RESPONSE_DELETE:
        return of_delete(own, op->delete_);
    case PB__RESPONSE_OP__RESPONSE__NOT_SET:
    case _PB__RESPONSE_OP__RESPONSE__CASE_IS_INT_SIZE:
        break;
    }
    return (struct etcd_kvs){0};
}

struct etcd_txn_result etcd_txn_result_of(struct arena *own, const Pb__TxnResponse *r)
{
    struct etcd_kvs *ops = arena_array(own, r->n_responses, sizeof(*ops));
    for (size_t i = 0; i < r->n_responses; i++)
        ops[i] = of_response_op(own, r->responses[i]);
    return (struct etcd_txn_result){
        .header = etcd_header_of(r->header),
        .succeeded = r->succeeded,
        .ops = ops,
        .n_ops = r->n_responses,
        .own = own,
    };
}

int etcd_txn(const struct ctx *ctx, struct etcd_client *c, const struct etcd_txn *t,
             struct etcd_txn_result *out, struct err *e)
{
    if (t->n_compare > TXN_OPS_MAX || t->n_success > TXN_OPS_MAX || t->n_failure > TXN_OPS_MAX)
        return err_set(e, ERR_INVALID, 0, "transaction of more than %d operations", TXN_OPS_MAX);
    auto_free Pb__Compare *compares = xcalloc(t->n_compare + 1, sizeof(*compares));
    auto_free Pb__Compare **compare_list = xcalloc(t->n_compare + 1, sizeof(Pb__Compare *));
    for (size_t i = 0; i < t->n_compare; i++) {
        compares[i] = compare_request(&t->compare[i]);
        compare_list[i] = &compares[i];
    }
    auto_free struct op_room *success_room = NULL, *failure_room = NULL;
    auto_free Pb__RequestOp **success = branch(t->success, t->n_success, &success_room);
    auto_free Pb__RequestOp **failure = branch(t->failure, t->n_failure, &failure_room);
    Pb__TxnRequest m = PB__TXN_REQUEST__INIT;
    m.compare = compare_list;
    m.n_compare = t->n_compare;
    m.success = success;
    m.n_success = t->n_success;
    m.failure = failure;
    m.n_failure = t->n_failure;

    const bool read = only_reads(t->success, t->n_success) && only_reads(t->failure, t->n_failure);
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, read ? &rpc_txn_read : &rpc_txn, &m, &reply, e) < 0)
        return err_wrap(e, "transaction");
    *out = etcd_txn_result_of(reply.own, reply.message);
    return 0;
}

void etcd_txn_result_done(struct etcd_txn_result *r)
{
    arena_free(r->own, false);
    *r = (struct etcd_txn_result){0};
}

int etcd_compact(const struct ctx *ctx, struct etcd_client *c, int64_t revision, bool physical,
                 struct err *e)
{
    Pb__CompactRequest m = PB__COMPACT_REQUEST__INIT;
    m.revision = revision;
    m.physical = physical;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_compact, &m, &reply, e) < 0)
        return err_wrap(e, "compact at %lld", (long long)revision);
    return 0;
}
