/* SPDX-License-Identifier: Apache-2.0
 * One lock for the whole registry: an update is a map lookup and an addition, and a scrape of
 * thousands of series is a few milliseconds every half minute. */
#include "base/metric.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/vec.h"

enum { LABEL_TEXT_MAX = 4096 }; /* all labels of one series, rendered */

struct series {
    struct series *next, *prev; /* in order of appearance: a scrape reads the same twice */
    char *labels;               /* rendered once: `a="x",b="y"` */
    double value;               /* histogram: sum */
    uint64_t count;             /* histogram */
    uint64_t *buckets;          /* histogram: not cumulative */
};

struct metric {
    struct metrics *registry;
    struct metric_desc desc;
    size_t n_labels, n_buckets;
    struct map by_labels; /* rendered labels → struct series */
    struct series *first, *last;
};

struct metrics {
    pthread_mutex_t lock; /* guards: everything below and every series */
    VEC(struct metric *) families;
    struct metric *refused;
};

static void series_free(struct series *s)
{
    free(s->labels);
    free(s->buckets);
    free(s);
}

/* Backslash, line feed and, in label values, the quote. */
static void add_escaped(struct buf *b, const char *s, bool quote)
{
    for (; *s; s++) {
        if (*s == '\n')
            buf_add_c(b, "\\n");
        else if (*s == '\\' || (quote && *s == '"'))
            buf_addf(b, "\\%c", *s);
        else
            buf_add_char(b, *s);
    }
}

static void add_labels(struct buf *b, const struct metric *m, const char *const *values)
{
    for (size_t i = 0; i < m->n_labels; i++) {
        assert(values[i] && "fewer label values than labels");
        buf_addf(b, "%s%s=\"", i > 0 ? "," : "", m->desc.labels[i]);
        add_escaped(b, values[i], true);
        buf_add_char(b, '"');
    }
    assert(!values[m->n_labels] && "more label values than labels");
}

/* Finds or makes the series; NULL when the family is full. The lock is held. */
static struct series *series_of(struct metric *m, const char *const *values)
{
    auto_buf struct buf labels = BUF_INIT(LABEL_TEXT_MAX);
    add_labels(&labels, m, values);
    struct series *s = labels.over ? NULL : map_get(&m->by_labels, buf_str(&labels));
    if (s)
        return s;
    if (labels.over || m->by_labels.n >= METRIC_SERIES_MAX) {
        m->registry->refused->first->value++;
        return NULL;
    }
    s = xcalloc(1, sizeof(*s));
    if (m->n_buckets > 0)
        s->buckets = xcalloc(m->n_buckets, sizeof(*s->buckets));
    map_put(&m->by_labels, buf_str(&labels), s);
    s->labels = buf_take(&labels);
    s->prev = m->last;
    *(m->last ? &m->last->next : &m->first) = s;
    m->last = s;
    return s;
}

struct metrics *metrics_new(void)
{
    struct metrics *m = xcalloc(1, sizeof(*m));
    (void)pthread_mutex_init(&m->lock, NULL); /* cannot fail with default attributes */
    m->refused = metric_register(
        m, &(struct metric_desc){
               .name = "raftsman_metric_series_refused_total",
               .help = "Updates of series that were not kept because their family was full.",
           });
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->families.n; i++) {
        struct metric *f = m->families.v[i];
        for (struct series *s = f->first, *next = NULL; s; s = next) {
            next = s->next;
            series_free(s);
        }
        map_done(&f->by_labels);
        free(f);
    }
    vec_done(&m->families);
    (void)pthread_mutex_destroy(&m->lock);
    free(m);
}

struct metric *metric_register(struct metrics *m, const struct metric_desc *desc)
{
    MUTEX_HOLD(&m->lock);
    for (size_t i = 0; i < m->families.n; i++)
        assert(strcmp(m->families.v[i]->desc.name, desc->name) != 0 && "registered twice");

    struct metric *f = xcalloc(1, sizeof(*f));
    f->registry = m;
    f->desc = *desc;
    while (desc->labels[f->n_labels])
        f->n_labels++;
    while (desc->type == METRIC_HISTOGRAM && desc->buckets[f->n_buckets] != 0)
        f->n_buckets++;
    vec_push(&m->families, f);
    if (f->n_labels == 0)
        (void)series_of(f, METRIC_LABELS_()); /* a fresh family has room */
    return f;
}

void metric_add_to(struct metric *m, double by, const char *const *values)
{
    assert(m->desc.type != METRIC_HISTOGRAM && (m->desc.type == METRIC_GAUGE || by >= 0));
    MUTEX_HOLD(&m->registry->lock);
    struct series *s = series_of(m, values);
    if (s)
        s->value += by;
}

void metric_set_to(struct metric *m, double to, const char *const *values)
{
    assert(m->desc.type == METRIC_GAUGE);
    MUTEX_HOLD(&m->registry->lock);
    struct series *s = series_of(m, values);
    if (s)
        s->value = to;
}

void metric_observe_in(struct metric *m, double value, const char *const *values)
{
    assert(m->desc.type == METRIC_HISTOGRAM);
    MUTEX_HOLD(&m->registry->lock);
    struct series *s = series_of(m, values);
    if (!s)
        return;
    s->value += value;
    s->count++;
    for (size_t i = 0; i < m->n_buckets; i++) {
        if (value <= m->desc.buckets[i]) {
            s->buckets[i]++;
            break;
        }
    }
}

void metric_drop_series(struct metric *m, const char *const *values)
{
    auto_buf struct buf labels = BUF_INIT(LABEL_TEXT_MAX);
    MUTEX_HOLD(&m->registry->lock);
    add_labels(&labels, m, values);
    struct series *s = labels.over ? NULL : map_del(&m->by_labels, buf_str(&labels));
    if (!s)
        return;
    *(s->prev ? &s->prev->next : &m->first) = s->next;
    *(s->next ? &s->next->prev : &m->last) = s->prev;
    series_free(s);
}

/* Shortest form that reads back equal: integers without a point, no 0.1000000000000000055. */
static void add_number(struct buf *b, double v)
{
    if (isnan(v)) {
        buf_add_c(b, "NaN");
    } else if (isinf(v)) {
        buf_add_c(b, v > 0 ? "+Inf" : "-Inf");
    } else {
        char text[40];
        for (int digits = 15; digits <= 17; digits++) {
            (void)snprintf(text, sizeof(text), "%.*g", digits, v);
            if (strtod(text, NULL) == v)
                break;
        }
        buf_add_c(b, text);
    }
}

static void add_sample(struct buf *b, const struct metric *m, const char *suffix,
                       const char *labels, double value)
{
    buf_addf(b, *labels ? "%s%s{%s} " : "%s%s%s ", m->desc.name, suffix, labels);
    add_number(b, value);
    buf_add_char(b, '\n');
}

static void add_bucket(struct buf *b, const struct metric *m, const struct series *s, double bound,
                       uint64_t cumulative)
{
    buf_addf(b, "%s_bucket{%s%sle=\"", m->desc.name, s->labels, *s->labels ? "," : "");
    add_number(b, bound);
    buf_addf(b, "\"} %" PRIu64 "\n", cumulative);
}

static void add_histogram(struct buf *b, const struct metric *m, const struct series *s)
{
    uint64_t cumulative = 0;
    for (size_t i = 0; i < m->n_buckets; i++) {
        cumulative += s->buckets[i];
        add_bucket(b, m, s, m->desc.buckets[i], cumulative);
    }
    add_bucket(b, m, s, INFINITY, s->count);
    add_sample(b, m, "_sum", s->labels, s->value);
    add_sample(b, m, "_count", s->labels, (double)s->count);
}

static void add_family(struct buf *b, const struct metric *m)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    buf_addf(b, "# HELP %s ", m->desc.name);
    add_escaped(b, m->desc.help, false);
    buf_addf(b, "\n# TYPE %s %s\n", m->desc.name, types[m->desc.type]);
    for (const struct series *s = m->first; s; s = s->next) {
        if (m->desc.type == METRIC_HISTOGRAM)
            add_histogram(b, m, s);
        else
            add_sample(b, m, "", s->labels, s->value);
    }
}

int metrics_render(struct metrics *m, struct buf *out, struct err *e)
{
    MUTEX_HOLD(&m->lock);
    for (size_t i = 0; i < m->families.n; i++)
        add_family(out, m->families.v[i]);
    return buf_check(out, "metrics", e);
}
