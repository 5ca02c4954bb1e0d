/* SPDX-License-Identifier: Apache-2.0
 * Counters, gauges and histograms, in Prometheus' text format.
 *
 * A family is registered once at start and never goes away; its series appear when first touched
 * and go with metric_drop() (a deleted cluster). Thread-safe. Values are doubles, as in
 * Prometheus. */
#pragma once
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct buf;
struct metrics; /* a registry */
struct metric;  /* a family in it; lives as long as the registry */

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

enum {
    METRIC_LABELS_MAX = 6,
    METRIC_BUCKETS_MAX = 20,
    /* Series of one family. Past it new ones are not kept, and the registry counts them in
     * raftsman_metric_series_refused_total: cardinality is a budget, not an accident. */
    METRIC_SERIES_MAX = 50000,
};

struct metric_desc {
    const char *name; /* raftsman_…, base units, _total for counters */
    const char *help;
    enum metric_type type;
    const char *labels[METRIC_LABELS_MAX + 1]; /* ends in NULL */
    double buckets[METRIC_BUCKETS_MAX + 1];    /* histogram: upper bounds, rising, end in 0 */
};

struct metrics *metrics_new(void) NONNULL;
void metrics_free(struct metrics *m); /* NULL-safe */
AUTO_DEFINE(struct metrics, metrics_free)

/* A family without labels starts at zero at once. A second family of one name is a bug. */
struct metric *metric_register(struct metrics *m, const struct metric_desc *desc) NONNULL;

/* The label values follow in the order of the description: metric_add(reconciles, 1, "ok"). */
#define metric_add(m, by, ...) metric_add_to(m, by, METRIC_LABELS_(__VA_ARGS__))
#define metric_set(m, to, ...) metric_set_to(m, to, METRIC_LABELS_(__VA_ARGS__))
#define metric_observe(m, value, ...) metric_observe_in(m, value, METRIC_LABELS_(__VA_ARGS__))
#define metric_drop(m, ...) metric_drop_series(m, METRIC_LABELS_(__VA_ARGS__))
#define METRIC_LABELS_(...) ((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

void metric_add_to(struct metric *m, double by, const char *const *values); /* counter, gauge */
void metric_set_to(struct metric *m, double to, const char *const *values); /* gauge */
void metric_observe_in(struct metric *m, double value, const char *const *values);
void metric_drop_series(struct metric *m, const char *const *values);

/* Appends the exposition text (version 0.0.4). ERR_TOO_BIG past the buffer's ceiling. */
NODISCARD int metrics_render(struct metrics *m, struct buf *out, struct err *e);
