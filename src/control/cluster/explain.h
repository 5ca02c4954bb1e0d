/* SPDX-License-Identifier: Apache-2.0
 * Why a cluster waits, in words for the person who looks: which object, and what to do. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "control/cluster/observed.h"

struct pass;
struct plan;

enum { EXPLAIN_MAX = 500 };

/* Always writes something. */
void explain_wait(const struct pass *p, const struct plan *plan, char out[EXPLAIN_MAX]);

/* "a, b and 2 more": the names of the members for which `is` holds; "nobody" if there is none. */
void explain_names(const struct observed *s, bool (*is)(const struct seen_member *m),
                   char out[EXPLAIN_MAX]);
