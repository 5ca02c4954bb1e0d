/* SPDX-License-Identifier: Apache-2.0
 * What the parts of a report share: a verdict becomes a condition, a status is written if it
 * differs. */
#pragma once
#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"

struct ctx;
struct kube_kind;
struct pass;

/* Status NULL: the condition stays as it is. */
struct verdict {
    const char *status, *reason;
    char message[600];
};

void verdict_set(struct verdict *v, const char *status, const char *reason, const char *fmt, ...)
    FORMAT(4, 5);
void verdict_apply(json_t *conditions, const char *type, const struct verdict *v,
                   int64_t generation, int64_t now_us);

/* Writes what differs between the status of an object, as it was read, and the wanted one. */
NODISCARD int status_write(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
                           const json_t *object, const json_t *want, struct err *e);

/* The conditions of an object with this one set, as a list of its own. */
json_t *conditions_with(const struct ctx *ctx, const json_t *object, const char *type,
                        const struct verdict *v);

/* The PodDisruptionBudget. */
NODISCARD int report_budget(const struct ctx *ctx, struct pass *p, struct err *e);
/* The status of one EtcdMember. */
NODISCARD int report_member(const struct ctx *ctx, struct pass *p, size_t i, struct err *e);
