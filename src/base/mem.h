/* SPDX-License-Identifier: Apache-2.0
 * Small allocations. They abort when memory is gone: the process is restartable by design
 * (docs/adr/0001). Anything sized by input goes through a capped struct buf instead. */
#pragma once
#include <stddef.h>

#include "base/attr.h"

/* Before the first thread: one heap for all of them, given back to the system when it shrinks. Our
 * threads spend their time waiting, so they need not have one each. Pages that only the dynamic
 * linker read (symbols, relocations) are let go; those still needed come back by themselves. */
void mem_setup(void);

void *xmalloc(size_t n) NONNULL __attribute__((malloc, alloc_size(1)));
void *xcalloc(size_t n, size_t size) NONNULL __attribute__((malloc, alloc_size(1, 2)));
/* n * size is checked for overflow; an overflow aborts like a failed allocation. */
void *xrealloc_array(void *p, size_t n, size_t size) NONNULL __attribute__((alloc_size(2, 3)));
char *xstrdup(const char *s) NONNULL __attribute__((malloc));
char *xasprintf(const char *fmt, ...) FORMAT(1, 2) NONNULL __attribute__((malloc));

/* Overwrites a secret so that it does not linger in freed memory, then frees it. NULL-safe. */
void secret_free(char *secret);
