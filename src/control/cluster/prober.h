/* SPDX-License-Identifier: Apache-2.0
 * Asks the members of all clusters how they are, so that no worker waits for a silent one.
 *
 * A pass looks at the latest answer. If there is none to its very question, the prober asks at
 * once and tells the key when it has one. Clusters whose members all answer are asked in one
 * thread and one poll loop, those with a silent member in another, so that a silent member delays
 * only its like. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "control/cluster/health.h"
#include "control/runtime/objkey.h"

struct clock;
struct ctx;
struct prober;

enum {
    PROBER_STEADY_MS = 30 * 1000, /* between two questions to a cluster at rest … */
    PROBER_SPREAD_MS = 10,        /* … longer by this for every cluster there is */
    PROBER_SILENT_MS = 1000,      /* nobody answered: twice as long each time … */
    PROBER_SILENT_MAX_MS = 30 * 1000,
    PROBER_EAGER_MAX_MS = 2000,  /* the longest pause while something is under way … */
    PROBER_EAGER_SPREAD_MS = 30, /* … and the shortest, for each other cluster that is so */
    PROBER_FRESH_MS = 500,       /* an answer this young may be looked at twice */
};

struct prober_options {
    const struct clock *clock;
    /* An answer came in. `news`: the key is waited for, or the answer is another than before.
     * Called by the prober's threads; must not block. */
    void (*told)(void *arg, const struct objkey *key, const struct health *health, bool news);
    void *arg;
    /* etcd_probe(), or what stands in for it in a test. */
    int (*probe)(const struct ctx *ctx, const struct etcd_probe_target *targets, size_t n,
                 struct etcd_probe_answer *answers, struct err *e);
};

struct prober *prober_new(const struct prober_options *o) NONNULL;
void prober_free(struct prober *p); /* NULL-safe; joined */
/* The threads end with ctx, which must outlive them. */
NODISCARD int prober_start(const struct ctx *ctx, struct prober *p, struct err *e);
void prober_join(struct prober *p); /* after ctx was cancelled; NULL-safe */

/* --- Thread-safe --- */

/* The latest answer to this question. False: there is none that counts yet; told() follows. */
NODISCARD bool prober_look(struct prober *p, const struct objkey *key, const struct question *q,
                           struct health *out);
/* When the cluster is next asked: in `eager_ms`, longer after some time without a change; or, if
 * that is 0, when the time of a cluster at rest comes. `always`: told() calls every answer news. */
void prober_next(struct prober *p, const struct objkey *key, int64_t eager_ms, bool always);
/* Something was done: what was learned before no longer counts. The members are asked again at
 * once, or when somebody looks. */
void prober_stale(struct prober *p, const struct objkey *key, bool at_once);
void prober_forget(struct prober *p, const struct objkey *key);
