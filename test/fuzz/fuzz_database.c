/* SPDX-License-Identifier: Apache-2.0
 * A whole etcd database in memory, damaged by the fuzzer: scan, hashkv and the listing of keys stay
 * in bounds and end. What the strict scan finds nothing wrong with, all others read, and they
 * agree about it. */
#include "base/clock.h"
#include "base/ctx.h"
#include "base/json.h"
#include "damage.h"
#include "datadir/hashkv.h"
#include "datadir/livekeys.h"
#include "datadir/scan.h"
#include "datadir/wire.h"
#include "fuzz.h"

enum { PAGE = 1024, ENTRIES = 40, IMAGE_BYTES_MAX = 64 * 1024 };

static struct ctx ctx;

/* Eight keys again and again, leased and deleted now and then; compacted at revision 9. */
static struct buf sound(void)
{
    static uint8_t revisions[ENTRIES][MVCC_TOMBSTONE_KEY_BYTES];
    static struct buf values[ENTRIES];
    static struct image_item items[ENTRIES + 8];
    size_t n = 0;
    items[n++] = (struct image_item){"cluster", BYTES("clusterVersion"), BYTES("3.6.0")};
    for (int i = 0; i < ENTRIES; i++) {
        const bool dead = i % 11 == 10;
        const char key[] = {'k', (char)('0' + i)};
        values[i] = BUF_INIT(4096);
        mvcc_revision_encode(i + 2, revisions[i]);
        revisions[i][MVCC_PUT_KEY_BYTES] = 't';
        wire_put_bytes(&values[i], 1, (struct str){key, sizeof(key)});
        if (!dead) {
            wire_put_number(&values[i], 2, (uint64_t)i + 2);
            wire_put_number(&values[i], 3, (uint64_t)i + 2);
            wire_put_number(&values[i], 4, 1);
            if (i % 5 == 4)
                wire_put_number(&values[i], 6, 777);
        }
        items[n++] = (struct image_item){
            "key",
            {(const char *)revisions[i], dead ? MVCC_TOMBSTONE_KEY_BYTES : MVCC_PUT_KEY_BYTES},
            buf_str(&values[i])};
    }
    items[n++] =
        (struct image_item){"lease", BYTES("\0\0\0\0\0\0\3\x09"), BYTES("\x08\x89\6\x10\xa0\x38")};
    items[n++] = (struct image_item){"meta", BYTES("consistent_index"), BYTES("\0\0\0\0\0\0\0\3")};
    items[n++] = (struct image_item){"meta", BYTES("finishedCompactRev"),
                                     BYTES("\0\0\0\0\0\0\0\x09_\0\0\0\0\0\0\0\0")};
    return image_of(items, n, PAGE);
}

static int count(void *arg, const struct scan_finding *finding, struct err *e)
{
    (void)e;
    FUZZ_CHECK(finding->what[0] != '\0');
    (*(uint64_t *)arg)++;
    return 0;
}

/* Only what is about the bytes, never about us. */
static void check_error(const struct err *e)
{
    FUZZ_CHECK(e->text[0] != '\0');
    FUZZ_CHECK(e->code == ERR_CORRUPT || e->code == ERR_EXPIRED || e->code == ERR_INVALID);
}

static bool scan(const struct dbfile *f, struct scan_result *out)
{
    struct err e = {0};
    uint64_t findings = 0;
    const struct scan_options o = {.hash = true,
                                   .keys = true,
                                   .strict = true,
                                   .history = true,
                                   .found = count,
                                   .arg = &findings};
    if (scan_db(&ctx, f, &o, out, &e) < 0) {
        check_error(&e);
        return false;
    }
    FUZZ_CHECK(findings == out->fatal + out->odd);
    return findings == 0;
}

static void list(const struct dbfile *f, bool clean, const struct scan_result *r)
{
    struct err e = {0};
    struct livekeys keys = {0};
    if (livekeys_find(&ctx, f, (struct str){0}, false, NULL, &keys, &e) < 0) {
        FUZZ_CHECK(!clean);
        check_error(&e);
        return;
    }
    struct str before = {0};
    for (size_t i = 0; i < keys.n; i++) {
        const struct mvcc_kv kv = livekeys_at(&keys, i);
        FUZZ_CHECK(!before.p || bolt_key_cmp(before, kv.key) < 0);
        before = kv.key;
    }
    /* The entry of a revision bump has no key, and is listed by none. */
    FUZZ_CHECK(!clean || keys.n == r->total_keys || keys.n + 1 == r->total_keys);
    livekeys_done(&keys);
}

static bool read_all(const struct dbfile *f)
{
    struct err e = {0};
    struct scan_result strict = {0}, plain = {0};
    struct hashkv h;
    const bool clean = scan(f, &strict);
    const struct scan_options o = {.hash = true, .keys = true};
    if (scan_db(&ctx, f, &o, &plain, &e) == 0)
        FUZZ_CHECK(!clean || (plain.hash == strict.hash && plain.total_keys == strict.total_keys));
    else
        FUZZ_CHECK(!clean);
    e = (struct err){0};
    if (hashkv_of(&ctx, f, 0, NULL, &h, &e) < 0) {
        FUZZ_CHECK(!clean);
        check_error(&e);
    }
    list(f, clean, &strict);
    return clean;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct buf original;
    static char name[] = "memory";
    if (!original.p) {
        json_setup();
        ctx = ctx_root(&clock_real, NULL);
        original = sound();
    }
    auto_buf struct buf image = BUF_INIT(IMAGE_BYTES_MAX);
    FUZZ_CHECK(buf_add(&image, original.p, original.n));
    fuzz_damage(&image, PAGE, data, size);
    struct err e = {0};
    struct dbfile f = {
        .path = name, .map = {.fd = -1, .p = (const uint8_t *)image.p, .n = image.n}, .n = image.n};
    const bool clean = bolt_open(&f.bolt, image.p, image.n, &e) == 0 && read_all(&f);
    FUZZ_CHECK(clean || size >= 3); /* less is no damage */
    return 0;
}
