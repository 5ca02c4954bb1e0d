/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/writer.h"

#include "base/mem.h"
#include "base/vec.h"

enum { BUFFER_BYTES = 1024 * 1024 }; /* a large file: large writes */

struct bucket {
    struct str name;
    uint8_t *value; /* owned */
    size_t value_n;
};

struct bolt_writer {
    struct bolt_out out;
    struct bolt_tree tree;
    VEC(struct bucket) buckets;
    struct str last; /* key put last in this bucket */
    bool open;       /* a bucket is being filled */
};

struct bolt_writer *bolt_writer_new(const struct bolt_sink *sink, uint32_t page_size)
{
    struct bolt_writer *w = xcalloc(1, sizeof(*w));
    bolt_out_init(&w->out, sink, page_size, 2, BUFFER_BYTES);
    bolt_tree_init(&w->tree, &w->out);
    w->tree.tells = true;
    return w;
}

void bolt_writer_free(struct bolt_writer *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->buckets.n; i++)
        free(w->buckets.v[i].value);
    vec_done(&w->buckets);
    bolt_tree_done(&w->tree);
    bolt_out_done(&w->out);
    free(w);
}

static int end_bucket(struct bolt_writer *w, struct err *e)
{
    if (!w->open)
        return 0;
    struct bucket *b = &w->buckets.v[w->buckets.n - 1];
    b->value = xmalloc(bolt_inline_max(w->out.page_size));
    w->open = false;
    return bolt_tree_to_bucket(&w->tree, b->value, &b->value_n, e);
}

int bolt_writer_bucket(struct bolt_writer *w, struct str name, struct err *e)
{
    if (end_bucket(w, e) < 0)
        return -1;
    if (w->buckets.n > 0 && bolt_key_cmp(w->buckets.v[w->buckets.n - 1].name, name) >= 0)
        return err_set(e, ERR_INVALID, 0, "bucket %.*s: out of order", STR_ARG(name));
    vec_push(&w->buckets, (struct bucket){.name = name});
    w->last = (struct str){0};
    w->open = true;
    return 0;
}

int bolt_writer_put(struct bolt_writer *w, struct str key, struct str value, struct err *e)
{
    if (!w->open || key.n == 0 || key.n > BOLT_KEY_MAX || value.n > INT32_MAX - 1)
        return err_set(e, ERR_INVALID, 0, "a key of %zu and a value of %zu bytes", key.n, value.n);
    if (w->last.p && bolt_key_cmp(w->last, key) >= 0)
        return err_set(e, ERR_INVALID, 0, "keys out of order");
    w->last = key;
    return bolt_tree_put(&w->tree, key, value, 0, e);
}

/* Both meta pages name the same tree, as in a snapshot that etcd sends. */
static int write_metas(struct bolt_writer *w, uint64_t root, struct err *e)
{
    const uint32_t size = w->out.page_size;
    auto_free uint8_t *pages = xcalloc(2, size);
    for (uint64_t i = 0; i < 2; i++) {
        const struct bolt_meta m = {.page_size = size,
                                    .root = root,
                                    .freelist = BOLT_NO_FREELIST,
                                    .pages = w->out.next,
                                    .txid = 2 - i};
        bolt_meta_encode(&m, i, pages + i * size);
    }
    return w->out.sink->write(w->out.sink->arg, 0, pages, (size_t)size * 2, e);
}

int bolt_writer_finish(struct bolt_writer *w, uint64_t *out_pages, struct err *e)
{
    if (end_bucket(w, e) < 0)
        return -1;
    w->tree.tells = false; /* the tree of buckets is not one of keys */
    for (size_t i = 0; i < w->buckets.n; i++) {
        const struct bucket *b = &w->buckets.v[i];
        const struct str value = {(const char *)b->value, b->value_n};
        if (bolt_tree_put(&w->tree, b->name, value, BOLT_ELEMENT_IS_BUCKET, e) < 0)
            return -1;
    }
    uint64_t root = 0;
    if (bolt_tree_to_page(&w->tree, &root, e) < 0 || bolt_out_flush(&w->out, e) < 0 ||
        write_metas(w, root, e) < 0)
        return -1;
    *out_pages = w->out.next;
    return 0;
}
