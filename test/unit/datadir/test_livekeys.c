/* SPDX-License-Identifier: Apache-2.0
 * Live keys against a model, with keys made to be hard to tell apart: long common beginnings,
 * keys that begin other keys, zeros at their ends. */
#include "datadir/livekeys.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/vec.h"
#include "datadir/wire.h"
#include "image.h"
#include "unit.h"

enum { ENTRIES = 3000, KEY_MAX = 120 };

static struct ctx ctx;

struct entry {
    char key[KEY_MAX];
    size_t key_n;
    uint8_t revision[MVCC_TOMBSTONE_KEY_BYTES];
    bool dead;
    struct buf value;
};
static struct entry entries[ENTRIES];

static struct str key_of(const struct entry *e)
{
    return (struct str){e->key, e->key_n};
}

static void fill(struct entry *e, int number, size_t common, uint64_t *seed)
{
    static const char letters[] = {'\0', 'a', 'b', '\xff'};
    static char large[70000];
    memset(e->key, 'c', common);
    e->key_n = common;
    if (test_below(seed, 3) == 0) { /* the same for longer than an entry keeps */
        memset(e->key + common, 'd', 30);
        e->key_n += 30;
    }
    for (uint64_t n = test_below(seed, 5) + (common == 0); n > 0; n--)
        e->key[e->key_n++] = letters[test_below(seed, sizeof(letters))];
    e->dead = test_below(seed, 4) == 0;
    mvcc_revision_encode(number + 2, e->revision);
    e->revision[17] = 't';
    e->value = BUF_INIT(2 * sizeof(large));
    wire_put_bytes(&e->value, 1, key_of(e));
    if (!e->dead)
        wire_put_number(&e->value, 3, (uint64_t)number + 2);
    if (number % 500 == 0)
        wire_put_bytes(&e->value, 5, (struct str){large, sizeof(large)});
}

static int newest_first(const void *a, const void *b)
{
    const struct entry *x = *(const struct entry *const *)a, *y = *(const struct entry *const *)b;
    const int order = bolt_key_cmp(key_of(x), key_of(y));
    return order != 0 ? order : (x < y) - (x > y);
}

struct model {
    VEC(const struct entry *) live;
};

static void settle(struct model *m)
{
    const struct entry *all[ENTRIES];
    for (size_t i = 0; i < ENTRIES; i++)
        all[i] = &entries[i];
    qsort(all, ENTRIES, sizeof(*all), newest_first);
    for (size_t i = 0; i < ENTRIES; i++)
        if ((i == 0 || !str_eq(key_of(all[i - 1]), key_of(all[i]))) && !all[i]->dead)
            vec_push(&m->live, all[i]);
}

static void assert_model(const struct dbfile *f, const struct model *m)
{
    struct err e = {0};
    AUTO(livekeys_done) struct livekeys keys = {0};
    assert_ok(livekeys_find(&ctx, f, (struct str){0}, false, NULL, &keys, &e));
    assert_int_equal(keys.n, m->live.n);
    for (size_t i = 0; i < keys.n; i++) {
        const struct mvcc_kv kv = livekeys_at(&keys, i);
        assert_true(str_eq(kv.key, key_of(m->live.v[i])));
        assert_int_equal(kv.mod_revision, m->live.v[i] - entries + 2);
    }
}

static void assert_in_memory(const struct buf *image, const struct model *m)
{
    struct err e = {0};
    static char name[] = "memory";
    struct dbfile f = {.path = name,
                       .map = {.fd = -1, .p = (const uint8_t *)image->p, .n = image->n},
                       .n = image->n};
    assert_ok(bolt_open(&f.bolt, image->p, image->n, &e));
    assert_model(&f, m);
}

static void assert_in_file(const struct buf *image, const struct model *m)
{
    struct err e = {0};
    char path[] = "/tmp/raftsman-livekeys-XXXXXX";
    auto_close int fd = mkostemp(path, O_CLOEXEC);
    AUTO(dbfile_done) struct dbfile f = {0};
    assert_ok(file_write_at(fd, buf_str(image), 0, &e));
    assert_ok(dbfile_open(&f, path, MAPPING_SHARED, &e));
    assert_int_equal(unlink(path), 0);
    assert_model(&f, m);
}

static void live_keys_come_in_order_each_with_its_newest_entry(void **state)
{
    (void)state;
    static const size_t common[] = {0, 1, 23, 60};
    static struct image_item items[ENTRIES + 1];
    ctx = ctx_root(&clock_real, NULL);
    uint64_t seed = 11;
    for (size_t round = 0; round < COUNT_OF(common); round++) {
        for (int i = 0; i < ENTRIES; i++) {
            fill(&entries[i], i, common[round], &seed);
            items[i] =
                (struct image_item){"key",
                                    {(const char *)entries[i].revision, entries[i].dead ? 18 : 17},
                                    buf_str(&entries[i].value)};
        }
        items[ENTRIES] = (struct image_item){"meta", BYTES("term"), BYTES("\0\0\0\0\0\0\0\1")};
        auto_buf struct buf image = image_of(items, ENTRIES + 1, 4096);
        struct model m = {0};
        settle(&m);
        assert_true(m.live.n > 100);
        assert_in_memory(&image, &m);
        assert_in_file(&image, &m);
        vec_done(&m.live);
        for (int i = 0; i < ENTRIES; i++)
            buf_done(&entries[i].value);
    }
}

TEST_MAIN(TEST(live_keys_come_in_order_each_with_its_newest_entry))
