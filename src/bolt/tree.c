/* SPDX-License-Identifier: Apache-2.0 */
#include "bolt/tree.h"

#include <assert.h>

#include "base/mem.h"

enum { COUNT_MAX = 0xFFF0 };

void bolt_out_init(struct bolt_out *o, const struct bolt_sink *sink, uint32_t page_size,
                   uint64_t first, size_t buffer_bytes)
{
    *o = (struct bolt_out){
        .sink = sink,
        .page_size = page_size,
        .next = first,
        .offset = first * page_size,
        .buffer = sink->buffer ? sink->buffer(sink->arg, buffer_bytes) : xmalloc(buffer_bytes),
        .size = buffer_bytes,
    };
}

void bolt_out_done(struct bolt_out *o)
{
    uint8_t *buffer = TAKE(o->buffer);
    if (buffer && !o->sink->buffer)
        free(buffer);
}

int bolt_out_flush(struct bolt_out *o, struct err *e)
{
    const struct bolt_sink *sink = o->sink;
    if (o->used == 0)
        return 0;
    if (sink->write(sink->arg, o->offset, o->buffer, o->used, e) < 0)
        return -1;
    if (sink->buffer)
        o->buffer = sink->buffer(sink->arg, o->size);
    o->offset += o->used;
    o->used = 0;
    return 0;
}

static void encode_header(uint8_t *p, uint64_t page, bool leaf, size_t count, uint64_t overflow)
{
    bolt_put64(p, page);
    bolt_put16(p + 8, leaf ? BOLT_LEAF : BOLT_BRANCH);
    bolt_put16(p + 10, (uint16_t)count);
    bolt_put32(p + 12, (uint32_t)overflow);
}

/* `pos` counts from the element itself to its key. */
static void encode_element(uint8_t *p, const struct bolt_entry *entry, bool leaf, size_t pos)
{
    if (leaf) {
        bolt_put32(p, entry->flags);
        bolt_put32(p + 4, (uint32_t)pos);
        bolt_put32(p + 8, (uint32_t)entry->key.n);
        bolt_put32(p + 12, (uint32_t)entry->value.n);
    } else {
        bolt_put32(p, (uint32_t)pos);
        bolt_put32(p + 4, (uint32_t)entry->key.n);
        bolt_put64(p + 8, entry->child);
    }
}

/* Copies are made in pieces: for longer ones the C library turns to an instruction that some
 * processors run at a quarter of the speed when the two sides are not aligned alike. */
static uint8_t *copy(uint8_t *to, struct str from)
{
    enum { COPY_BYTES = 1024 };
    for (size_t n; from.n > 0; from = str_from(from, n), to += n) {
        n = from.n < COPY_BYTES ? from.n : COPY_BYTES;
        memcpy(to, from.p, n);
    }
    return to;
}

static int out_piece(struct bolt_out *o, struct str bytes, struct err *e)
{
    while (bytes.n > 0) {
        if (o->used == o->size && bolt_out_flush(o, e) < 0)
            return -1;
        const struct str part = str_first(bytes, o->size - o->used);
        (void)copy(o->buffer + o->used, part);
        o->used += part.n;
        bytes = str_from(bytes, part.n);
    }
    return 0;
}

/* A node in one piece: header, elements, keys and values. Returns where it ends. */
static uint8_t *encode_node(const struct bolt_level *l, size_t n, bool leaf, uint64_t page,
                            uint64_t overflow, uint8_t *p)
{
    encode_header(p, page, leaf, n, overflow);
    p += BOLT_HEADER_BYTES;
    uint8_t *data = p + n * BOLT_ELEMENT_BYTES;
    for (size_t i = 0; i < n; i++, p += BOLT_ELEMENT_BYTES) {
        encode_element(p, &l->v[i], leaf, (size_t)(data - p));
        data = copy(copy(data, l->v[i].key), l->v[i].value);
    }
    return data;
}

/* The same piece by piece, for one that is larger than the buffer. */
static int out_pieces(struct bolt_out *o, const struct bolt_level *l, size_t n, bool leaf,
                      uint64_t page, uint64_t overflow, struct err *e)
{
    uint8_t p[BOLT_HEADER_BYTES];
    const struct str piece = {(const char *)p, sizeof(p)};
    encode_header(p, page, leaf, n, overflow);
    if (out_piece(o, piece, e) < 0)
        return -1;
    size_t pos = n * BOLT_ELEMENT_BYTES;
    for (size_t i = 0; i < n; i++) {
        encode_element(p, &l->v[i], leaf, pos);
        if (out_piece(o, piece, e) < 0)
            return -1;
        pos += l->v[i].key.n + l->v[i].value.n - BOLT_ELEMENT_BYTES;
    }
    for (size_t i = 0; i < n; i++)
        if (out_piece(o, l->v[i].key, e) < 0 || out_piece(o, l->v[i].value, e) < 0)
            return -1;
    return 0;
}

static int out_zeros(struct bolt_out *o, size_t n, struct err *e)
{
    static const char zeros[BOLT_PAGE_MIN];
    for (size_t part; n > 0; n -= part) {
        part = n < sizeof(zeros) ? n : sizeof(zeros);
        if (out_piece(o, (struct str){zeros, part}, e) < 0)
            return -1;
    }
    return 0;
}

static uint64_t pages_of(size_t bytes, uint32_t page_size)
{
    return (bytes + page_size - 1) / page_size;
}

/* The first n entries of a level as one node of `bytes`, in pages of its own. */
static int out_node(struct bolt_out *o, const struct bolt_level *l, size_t n, bool leaf,
                    size_t bytes, struct err *e)
{
    const uint64_t span = pages_of(bytes, o->page_size), page = o->next;
    const size_t room = (size_t)(span * o->page_size);
    if (span > UINT32_MAX)
        return err_set(e, ERR_TOO_BIG, 0, "a node of %zu bytes", bytes);
    o->next += span;
    if (room > o->size)
        return out_pieces(o, l, n, leaf, page, span - 1, e) < 0 ? -1
                                                                : out_zeros(o, room - bytes, e);
    if (room > o->size - o->used && bolt_out_flush(o, e) < 0)
        return -1;
    uint8_t *end = encode_node(l, n, leaf, page, span - 1, o->buffer + o->used);
    memset(end, 0, room - bytes);
    o->used += room;
    return 0;
}

static size_t entry_bytes(const struct bolt_entry *entry)
{
    return BOLT_ELEMENT_BYTES + entry->key.n + entry->value.n;
}

static int level_add(struct bolt_tree *t, unsigned level, const struct bolt_entry *entry,
                     struct err *e);

/* Keys of branches are copies: the page a key came from is long let go when its branch is
 * written, and reading it again would map it again. */
static void release_keys(struct bolt_level *l, unsigned level, size_t n)
{
    for (size_t i = 0; level > 0 && i < n; i++)
        free((char *)l->v[i].key.p);
}

/* Writes the first n entries of a level as one node and tells the level above. */
static int emit(struct bolt_tree *t, unsigned level, size_t n, struct err *e)
{
    struct bolt_level *l = &t->levels[level];
    struct bolt_out *o = t->out;
    size_t bytes = BOLT_HEADER_BYTES;
    for (size_t i = 0; i < n; i++)
        bytes += entry_bytes(&l->v[i]);
    const struct bolt_entry above = {.key = n > 0 ? l->v[0].key : (struct str){0},
                                     .child = o->next};
    if (out_node(o, l, n, level == 0, bytes, e) < 0)
        return -1;
    if (level == 1 && t->tells && o->sink->subtree)
        o->sink->subtree(o->sink->arg, above.child, o->next);
    auto_free char *first = n > 0 ? str_dup(above.key) : NULL; /* outlives its own level */
    const struct bolt_entry up = {.key = {first, above.key.n}, .child = above.child};
    release_keys(l, level, n);
    memmove(l->v, l->v + n, (l->n - n) * sizeof(*l->v));
    l->n -= n;
    l->bytes -= bytes - BOLT_HEADER_BYTES;
    return level_add(t, level + 1, &up, e);
}

/* Entries of more than a few hundred bytes do not fill pages: one to a leaf, those of 2 KiB leave
 * half of the file empty. So a leaf goes on over the next page as long as much of its last one is
 * empty. Not for ever: who deletes one of its keys writes all of it again. */
static bool leaf_takes(const struct bolt_level *l, uint32_t page_size, size_t bytes)
{
    enum { LEAF_PAGES_MAX = 16, EMPTY_PART = 16 };
    const size_t with = l->bytes + bytes, span = pages_of(l->bytes, page_size) * page_size;
    if (with > (size_t)LEAF_PAGES_MAX * page_size)
        return l->n == 0;
    return with <= span || (span - l->bytes) * EMPTY_PART > span;
}

static bool branch_takes(const struct bolt_level *l, uint32_t page_size, size_t bytes)
{
    enum { CHILDREN_MIN = 3 }; /* so that two are left when the last one goes */
    return l->n < CHILDREN_MIN || l->bytes + bytes <= page_size;
}

/* A full branch is written without its last entry, so that no branch begins with one child. */
static int make_room(struct bolt_tree *t, unsigned level, size_t bytes, struct err *e)
{
    const struct bolt_level *l = &t->levels[level];
    const uint32_t page_size = t->out->page_size;
    const bool takes =
        level == 0 ? leaf_takes(l, page_size, bytes) : branch_takes(l, page_size, bytes);
    if (takes && l->n < COUNT_MAX)
        return 0;
    return emit(t, level, level == 0 ? l->n : l->n - 1, e);
}

static int level_add(struct bolt_tree *t, unsigned level, const struct bolt_entry *entry,
                     struct err *e)
{
    if (level >= BOLT_DEPTH_MAX)
        return err_set(e, ERR_TOO_BIG, 0, "a tree of more than %d levels", BOLT_DEPTH_MAX);
    if (make_room(t, level, entry_bytes(entry), e) < 0)
        return -1;
    struct bolt_level *l = &t->levels[level];
    if (l->n == l->cap) {
        l->cap = l->cap > 0 ? l->cap * 2 : 64;
        l->v = xrealloc_array(l->v, l->cap, sizeof(*l->v));
    }
    struct bolt_entry own = *entry;
    if (level > 0 && entry->key.n > 0)
        own.key.p = memcpy(xmalloc(entry->key.n), entry->key.p, entry->key.n);
    l->v[l->n++] = own;
    l->bytes += entry_bytes(entry);
    if (t->height <= level)
        t->height = level + 1;
    return 0;
}

void bolt_tree_init(struct bolt_tree *t, struct bolt_out *out)
{
    *t = (struct bolt_tree){.out = out};
    for (unsigned i = 0; i < BOLT_DEPTH_MAX; i++)
        t->levels[i].bytes = BOLT_HEADER_BYTES;
}

void bolt_tree_done(struct bolt_tree *t)
{
    for (unsigned i = 0; i < BOLT_DEPTH_MAX; i++) {
        release_keys(&t->levels[i], i, t->levels[i].n);
        t->levels[i].n = 0;
        free(TAKE(t->levels[i].v));
    }
}

int bolt_tree_put(struct bolt_tree *t, struct str key, struct str value, uint32_t flags,
                  struct err *e)
{
    assert(key.n > 0 && key.n <= BOLT_KEY_MAX);
    const struct bolt_entry entry = {.key = key, .value = value, .flags = flags};
    return level_add(t, 0, &entry, e);
}

int bolt_tree_break(struct bolt_tree *t, unsigned height, struct err *e)
{
    for (unsigned level = 0; level < height; level++)
        if (t->levels[level].n > 0 && emit(t, level, t->levels[level].n, e) < 0)
            return -1;
    return 0;
}

int bolt_tree_graft(struct bolt_tree *t, unsigned height, struct str first_key, uint64_t page,
                    struct err *e)
{
    const struct bolt_entry entry = {.key = first_key, .child = page};
    if (bolt_tree_break(t, height, e) < 0)
        return -1;
    return level_add(t, height, &entry, e);
}

static void reset(struct bolt_tree *t)
{
    for (unsigned i = 0; i < t->height; i++) {
        release_keys(&t->levels[i], i, t->levels[i].n);
        t->levels[i].n = 0;
        t->levels[i].bytes = BOLT_HEADER_BYTES;
    }
    t->height = 0;
}

/* Ends level after level until one page is left on top. */
int bolt_tree_to_page(struct bolt_tree *t, uint64_t *out_page, struct err *e)
{
    if (t->height == 0 && emit(t, 0, 0, e) < 0)
        return -1;
    for (unsigned level = 0;; level++) {
        const struct bolt_level *l = &t->levels[level];
        const bool top = level + 1 >= t->height;
        if (level > 0 && top && l->n == 1) {
            *out_page = l->v[0].child;
            reset(t);
            return 0;
        }
        if (l->n > 0 && emit(t, level, l->n, e) < 0)
            return -1;
    }
}

static size_t encode_inline(const struct bolt_level *l, uint8_t *value)
{
    memset(value, 0, BOLT_BUCKET_BYTES);
    return (size_t)(encode_node(l, l->n, true, 0, 0, value + BOLT_BUCKET_BYTES) - value);
}

int bolt_tree_to_bucket(struct bolt_tree *t, uint8_t *value, size_t *out_n, struct err *e)
{
    const struct bolt_level *leaves = &t->levels[0];
    if (t->height <= 1 && leaves->bytes <= t->out->page_size / 4) {
        *out_n = encode_inline(leaves, value);
        reset(t);
        return 0;
    }
    uint64_t page = 0;
    if (bolt_tree_to_page(t, &page, e) < 0)
        return -1;
    memset(value, 0, BOLT_BUCKET_BYTES);
    bolt_put64(value, page);
    *out_n = BOLT_BUCKET_BYTES;
    return 0;
}
