/* SPDX-License-Identifier: Apache-2.0
 * What a coordination.k8s.io Lease says about leadership, and the patches that change it. The
 * fields are used as other clients use them, so that two different operators that share a Lease
 * never both lead. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"

struct lease {
    char *holder;  /* "" when nobody holds it */
    char *version; /* resourceVersion */
    int64_t duration_ms;
    int64_t transitions;
    char *renewed, *acquired; /* as written; only compared and kept, never believed */
};

void lease_done(struct lease *l); /* idempotent */

/* ERR_INVALID: this is no Lease. */
NODISCARD int lease_read(const json_t *object, struct lease *out, struct err *e);
bool lease_same(const struct lease *a, const struct lease *b); /* nothing happened in between */

/* A whole new object, for a Lease that does not exist. */
json_t *lease_object(const char *ns, const char *name, const char *holder, int64_t duration_ms,
                     int64_t now_us) NONNULL;
/* Merge patches: take it over from whoever had it, stay its holder, let it go. */
json_t *lease_take(const struct lease *old, const char *holder, int64_t duration_ms,
                   int64_t now_us) NONNULL;
json_t *lease_renew(const char *holder, int64_t now_us) NONNULL;
json_t *lease_release(int64_t now_us) NONNULL;
