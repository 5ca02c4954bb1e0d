/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

void rand_bytes(void *out, size_t n)
{
    char *at = out;
    while (n > 0) {
        const ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        at += got;
        n -= (size_t)got;
    }
}

uint64_t rand_u64(void)
{
    uint64_t value = 0;
    rand_bytes(&value, sizeof(value));
    return value;
}
