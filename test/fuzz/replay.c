/* SPDX-License-Identifier: Apache-2.0
 * Runs a fuzz target over every file of its corpus, and over each prefix of it: a cut-off input
 * is the commonest damage there is. */
#include <dirent.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "fuzz.h"

enum { INPUT_MAX = 4 * 1024 * 1024, PREFIXES_MAX = 2000 };

/* A copy of exactly this size, so that a read past its end is seen. */
static void run_once(const char *bytes, size_t n)
{
    auto_free uint8_t *copy = xmalloc(n);
    if (n > 0)
        memcpy(copy, bytes, n);
    (void)LLVMFuzzerTestOneInput(copy, n);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    const struct ctx ctx = ctx_root(&clock_real, NULL);
    DIR *dir = opendir(argv[1]);
    if (!dir) {
        (void)fprintf(stderr, "%s: no corpus\n", argv[1]);
        return 1;
    }
    size_t inputs = 0;
    for (const struct dirent *entry = NULL; (entry = readdir(dir));) {
        if (entry->d_name[0] == '.')
            continue;
        struct err e = {0};
        auto_free char *path = xasprintf("%s/%s", argv[1], entry->d_name);
        auto_buf struct buf input = BUF_INIT(INPUT_MAX);
        if (file_read(&ctx, path, &input, &e) < 0) {
            (void)fprintf(stderr, "%s\n", e.text);
            return 1;
        }
        const size_t step = input.n / PREFIXES_MAX + 1;
        for (size_t n = 0; n < input.n; n += step)
            run_once(input.p, n);
        run_once(input.p, input.n);
        inputs++;
    }
    (void)closedir(dir);
    (void)printf("%zu inputs\n", inputs);
    return inputs > 0 ? 0 : 1;
}
