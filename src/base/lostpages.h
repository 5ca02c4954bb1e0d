/* SPDX-License-Identifier: Apache-2.0
 * Pages of a mapped file that cannot be read: it was cut short meanwhile, or the disk failed. The
 * kernel says so with SIGBUS, which would end the process. A handler for the whole process, there
 * from the first watch on, puts zeros where the file was and remembers where; who reads goes on
 * with zeros, and asks before concluding anything from them. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct lostpages; /* one watched mapping */

#define LOSTPAGES_NONE UINT64_MAX

/* Thread-safe. `p` begins a page. ERR_UNAVAILABLE: too many are watched. */
NODISCARD int lostpages_watch(const void *p, size_t n, struct lostpages **out, struct err *e);
/* Before it is unmapped, after its last reader. NULL-safe. */
void lostpages_forget(struct lostpages *l);

/* The offset where a page was lost first, or LOSTPAGES_NONE. */
uint64_t lostpages_first(const struct lostpages *l);
