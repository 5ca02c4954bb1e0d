/* SPDX-License-Identifier: Apache-2.0
 * boltwalk FILE...: what our reader makes of a file, in the form tools/go/bboltcheck prints what
 * bbolt makes of it. */
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mapping.h"
#include "base/sha256.h"
#include "bolt/walk.h"

static void add(struct sha256 *h, struct str bytes)
{
    const uint64_t n = htole64(bytes.n);
    sha256_add(h, (struct str){(const char *)&n, sizeof(n)});
    sha256_add(h, bytes);
}

static int on_bucket(void *arg, struct str name, uint64_t page, struct err *e)
{
    (void)page;
    (void)e;
    add(arg, name);
    return 0;
}

static int on_item(void *arg, const struct bolt_item *item, struct err *e)
{
    (void)e;
    add(arg, item->key);
    add(arg, item->value);
    return 0;
}

static int read_file(const char *path, struct err *e)
{
    AUTO(mapping_done) struct mapping map = {.fd = -1};
    AUTO(sha256_free_auto) struct sha256 *h = sha256_new();
    struct bolt b;
    struct bolt_totals totals;
    const struct bolt_visitor v = {.arg = h, .bucket = on_bucket, .item = on_item};
    if (mapping_open(&map, path, MAPPING_SHARED, e) < 0 || bolt_open(&b, map.p, map.n, e) < 0 ||
        bolt_walk(&b, &v, &totals, e) < 0)
        return err_wrap(e, "%s", path);
    unsigned char sum[SHA256_BYTES];
    char text[SHA256_HEX_MAX];
    sha256_finish(h, sum);
    (void)printf("%s %" PRIu64 "\n", sha256_print(sum, text), totals.items);
    return 0;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        struct err e = {0};
        if (read_file(argv[i], &e) < 0) {
            (void)fprintf(stderr, "%s\n", e.text);
            return 1;
        }
    }
    return 0;
}
