/* SPDX-License-Identifier: Apache-2.0
 * mkdb FILE KEYS VALUE_BYTES [REVISIONS]: a snapshot as etcd 3.6 would send it, with that many
 * keys written that many times, compacted half way if they were written more than once. Only for
 * benchmarks and tests: an etcd takes hours to make what this makes in seconds. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/sha256.h"
#include "base/str.h"
#include "bolt/writer.h"
#include "datadir/mvcc.h"
#include "datadir/wire.h"

enum { RING_BYTES = 64 * 1024 * 1024, KEY_BYTES = 64 };

struct output {
    FILE *file;
};

static int write_at(void *arg, uint64_t offset, const void *bytes, size_t n, struct err *e)
{
    struct output *o = arg;
    if (fseeko(o->file, (off_t)offset, SEEK_SET) < 0 || fwrite(bytes, 1, n, o->file) != n)
        return err_set(e, ERR_IO, 0, "write");
    return 0;
}

/* Values are borrowed by the writer until their page is out, which is far less than the ring;
 * keys until the whole tree is. */
struct ring {
    char *p;
    size_t at;
};

static struct str keep(struct ring *r, const void *bytes, size_t n)
{
    if (r->at + n > RING_BYTES)
        r->at = 0;
    char *to = r->p + r->at;
    memcpy(to, bytes, n);
    r->at += n;
    return (struct str){to, n};
}

static void entry(struct buf *out, uint64_t key, int64_t created, int64_t modified, int64_t version,
                  const char *value, size_t value_n)
{
    char name[KEY_BYTES];
    const int n = snprintf(name, sizeof(name), "/registry/pods/namespace-%03u/pod-%010" PRIu64,
                           (unsigned)(key * 2654435761U % 1000), key);
    buf_reset(out);
    wire_put_bytes(out, 1, (struct str){name, (size_t)n});
    wire_put_number(out, 2, (uint64_t)created);
    wire_put_number(out, 3, (uint64_t)modified);
    wire_put_number(out, 4, (uint64_t)version);
    wire_put_bytes(out, 5, (struct str){value, value_n});
}

static int put_all(struct bolt_writer *w, uint64_t keys, size_t value_n, uint64_t rounds,
                   struct ring *ring, void **out_keys, struct err *e)
{
    auto_buf struct buf out = BUF_INIT(value_n + 1024);
    auto_free char *value = malloc(value_n + 8);
    uint8_t(*revs)[MVCC_PUT_KEY_BYTES] = malloc(keys * rounds * sizeof(*revs) + 1);
    *out_keys = revs;
    uint64_t x = 88172645463325252ULL;
    int64_t revision = 1;
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint64_t key = 0; key < keys; key++) {
            for (size_t i = 0; i < value_n; i += 8) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                memcpy(value + i, &x, 8);
            }
            revision++;
            entry(&out, key, (int64_t)key + 2, revision, (int64_t)round + 1, value, value_n);
            uint8_t *rev = revs[revision - 2];
            mvcc_revision_encode(revision, rev);
            const struct str kept = {(const char *)rev, MVCC_PUT_KEY_BYTES};
            if (bolt_writer_put(w, kept, keep(ring, out.p, out.n), e) < 0)
                return -1;
        }
    }
    return 0;
}

static int put_meta(struct bolt_writer *w, uint64_t keys, uint64_t rounds, struct err *e)
{
    static uint64_t index, term;
    static uint8_t compact[MVCC_PUT_KEY_BYTES];
    index = htobe64(keys * rounds + 4);
    term = htobe64(2);
    mvcc_revision_encode((int64_t)(keys * rounds / 2 + 1), compact);
    const struct str mark = {(const char *)compact, sizeof(compact)};
    if (bolt_writer_bucket(w, STR("meta"), e) < 0 ||
        bolt_writer_put(w, STR("consistent_index"), (struct str){(char *)&index, 8}, e) < 0)
        return -1;
    if (rounds > 1 && (bolt_writer_put(w, STR("finishedCompactRev"), mark, e) < 0 ||
                       bolt_writer_put(w, STR("scheduledCompactRev"), mark, e) < 0))
        return -1;
    if (bolt_writer_put(w, STR("storageVersion"), STR("3.6.0"), e) < 0)
        return -1;
    return bolt_writer_put(w, STR("term"), (struct str){(char *)&term, 8}, e);
}

static int add_hash(FILE *file, struct err *e)
{
    AUTO(sha256_free_auto) struct sha256 *h = sha256_new();
    unsigned char sum[SHA256_BYTES];
    auto_free char *bytes = malloc(1 << 20);
    size_t n = 0;
    if (fflush(file) != 0 || fseeko(file, 0, SEEK_SET) < 0)
        return err_set(e, ERR_IO, 0, "flush");
    while ((n = fread(bytes, 1, 1 << 20, file)) > 0)
        sha256_add(h, (struct str){bytes, n});
    sha256_finish(h, sum);
    if (fseeko(file, 0, SEEK_END) < 0 || fwrite(sum, 1, sizeof(sum), file) != sizeof(sum))
        return err_set(e, ERR_IO, 0, "write");
    return 0;
}

static int make(const char *path, uint64_t keys, uint64_t value_n, uint64_t rounds, struct err *e)
{
    static const char *const before[] = {"alarm", "auth",  "authRoles", "authUsers",      "cluster",
                                         "key",   "lease", "members",   "members_removed"};
    struct output o = {fopen(path, "w+")};
    if (!o.file)
        return err_set(e, ERR_IO, 0, "create %s", path);
    struct ring ring = {.p = malloc(RING_BYTES)};
    void *revs = NULL;
    const struct bolt_sink sink = {&o, write_at};
    AUTO(bolt_writer_free_auto) struct bolt_writer *w = bolt_writer_new(&sink, 4096);
    uint64_t pages = 0;
    int rc = 0;
    for (size_t i = 0; i < COUNT_OF(before) && rc == 0; i++) {
        rc = bolt_writer_bucket(w, str_c(before[i]), e);
        if (rc == 0 && strcmp(before[i], "key") == 0)
            rc = put_all(w, keys, (size_t)value_n, rounds, &ring, &revs, e);
        if (rc == 0 && strcmp(before[i], "cluster") == 0)
            rc = bolt_writer_put(w, STR("clusterVersion"), STR("3.6.0"), e);
    }
    if (rc == 0)
        rc = put_meta(w, keys, rounds, e);
    if (rc == 0)
        rc = bolt_writer_finish(w, &pages, e);
    if (rc == 0)
        rc = add_hash(o.file, e);
    free(ring.p);
    free(revs);
    return fclose(o.file) == 0 ? rc : err_set(e, ERR_IO, 0, "close %s", path);
}

int main(int argc, char **argv)
{
    uint64_t keys = 0, value_n = 0, rounds = 1;
    struct err e = {0};
    if (argc < 4 || !str_u64(str_c(argv[2]), &keys) || !str_u64(str_c(argv[3]), &value_n) ||
        (argc > 4 && !str_u64(str_c(argv[4]), &rounds))) {
        (void)fprintf(stderr, "usage: mkdb FILE KEYS VALUE_BYTES [REVISIONS]\n");
        return 2;
    }
    if (make(argv[1], keys, value_n, rounds, &e) < 0) {
        (void)fprintf(stderr, "mkdb: %s\n", e.text);
        return 1;
    }
    return 0;
}
