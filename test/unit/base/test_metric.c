/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metric.h"

#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/thread.h"
#include "unit.h"

static const struct metric_desc passes_desc = {
    .name = "raftsman_passes_total",
    .help = "Passes by \\ result.\nSecond line.",
    .labels = {"controller", "result"},
};
static const struct metric_desc plain_desc = {
    .name = "raftsman_members", .help = "Members.", .type = METRIC_GAUGE};
static const struct metric_desc seconds_desc = {.name = "raftsman_pass_seconds",
                                                .help = "Duration.",
                                                .type = METRIC_HISTOGRAM,
                                                .labels = {"controller"},
                                                .buckets = {0.01, 0.1, 1}};

static char *rendered(struct metrics *m)
{
    struct err e = {0};
    auto_buf struct buf out = BUF_INIT(10000000);
    assert_ok(metrics_render(m, &out, &e));
    return buf_take(&out);
}

static void assert_has(struct metrics *m, const char *part)
{
    auto_free char *text = rendered(m);
    if (!strstr(text, part))
        fail_msg("%s\nis not in\n%s", part, text);
}

static void counters_and_gauges_render_with_escaped_labels(void **state)
{
    (void)state;
    AUTO(metrics_free_auto) struct metrics *m = metrics_new();
    struct metric *passes = metric_register(m, &passes_desc);
    struct metric *members = metric_register(m, &plain_desc);
    assert_has(m, "# TYPE raftsman_members gauge\nraftsman_members 0\n"); /* registered at zero */
    metric_add(passes, 1, "cluster", "ok");
    metric_add(passes, 2.5, "cluster", "ok");
    metric_add(passes, 1, "a\"b\\c\nd", "");
    metric_set(members, 7);
    metric_add(members, -2);
    assert_has(m, "# HELP raftsman_passes_total Passes by \\\\ result.\\nSecond line.\n"
                  "# TYPE raftsman_passes_total counter\n"
                  "raftsman_passes_total{controller=\"cluster\",result=\"ok\"} 3.5\n"
                  "raftsman_passes_total{controller=\"a\\\"b\\\\c\\nd\",result=\"\"} 1\n");
    assert_has(m, "raftsman_members 5\n");
}

static void histograms_are_cumulative(void **state)
{
    (void)state;
    AUTO(metrics_free_auto) struct metrics *m = metrics_new();
    struct metric *seconds = metric_register(m, &seconds_desc);
    static const double samples[] = {0.005, 0.01, 0.05, 0.5, 3, INFINITY};
    for (size_t i = 0; i < COUNT_OF(samples) - 1; i++)
        metric_observe(seconds, samples[i], "cluster");
    assert_has(m, "raftsman_pass_seconds_bucket{controller=\"cluster\",le=\"0.01\"} 2\n"
                  "raftsman_pass_seconds_bucket{controller=\"cluster\",le=\"0.1\"} 3\n"
                  "raftsman_pass_seconds_bucket{controller=\"cluster\",le=\"1\"} 4\n"
                  "raftsman_pass_seconds_bucket{controller=\"cluster\",le=\"+Inf\"} 5\n"
                  "raftsman_pass_seconds_sum{controller=\"cluster\"} 3.565\n"
                  "raftsman_pass_seconds_count{controller=\"cluster\"} 5\n");
}

static void numbers_read_back_exactly(void **state)
{
    (void)state;
    AUTO(metrics_free_auto) struct metrics *m = metrics_new();
    struct metric *g = metric_register(m, &plain_desc);
    static const struct {
        double value;
        const char *want;
    } rows[] = {
        {0.1, "raftsman_members 0.1\n"},
        {1e15, "raftsman_members 1e+15\n"},
        {9007199254740993.0, "raftsman_members 9007199254740992\n"},
        {NAN, "raftsman_members NaN\n"},
        {-INFINITY, "raftsman_members -Inf\n"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        metric_set(g, rows[i].value);
        assert_has(m, rows[i].want);
    }
}

static void dropped_series_are_gone_and_may_return(void **state)
{
    (void)state;
    AUTO(metrics_free_auto) struct metrics *m = metrics_new();
    struct metric *passes = metric_register(m, &passes_desc);
    metric_add(passes, 1, "a", "x");
    metric_add(passes, 2, "b", "x");
    metric_add(passes, 3, "c", "x");
    metric_drop(passes, "b", "x");
    metric_drop(passes, "never", "x");
    auto_free char *text = rendered(m);
    assert_null(strstr(text, "\"b\""));
    metric_drop(passes, "c", "x");
    metric_add(passes, 9, "d", "x");
    metric_add(passes, 4, "b", "x");
    assert_has(m, "{controller=\"a\",result=\"x\"} 1\n"
                  "raftsman_passes_total{controller=\"d\",result=\"x\"} 9\n"
                  "raftsman_passes_total{controller=\"b\",result=\"x\"} 4\n");
}

static void a_full_family_refuses_and_counts(void **state)
{
    (void)state;
    AUTO(metrics_free_auto) struct metrics *m = metrics_new();
    struct metric *passes = metric_register(m, &passes_desc);
    for (int i = 0; i < METRIC_SERIES_MAX + 10; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%d", i);
        metric_add(passes, 1, name, "x");
    }
    assert_has(m, "raftsman_metric_series_refused_total 10\n");
}

static void rendering_honours_the_ceiling(void **state)
{
    (void)state;
    struct err e = {0};
    AUTO(metrics_free_auto) struct metrics *m = metrics_new();
    auto_buf struct buf small = BUF_INIT(20);
    assert_err(metrics_render(m, &small, &e), ERR_TOO_BIG, "metrics: more than 20 bytes");
}

static void add_many(void *arg)
{
    for (int i = 0; i < 2000; i++)
        metric_add(arg, 1, i % 2 ? "odd" : "even", "x");
}

static void threads_add_up(void **state)
{
    (void)state;
    struct err e = {0};
    AUTO(metrics_free_auto) struct metrics *m = metrics_new();
    struct metric *passes = metric_register(m, &passes_desc);
    struct thread threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_ok(thread_start(&threads[i], "adder", add_many, passes, &e));
    for (int i = 0; i < 20; i++)
        free(rendered(m));
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        thread_join(&threads[i]);
    assert_has(m, "raftsman_passes_total{controller=\"even\",result=\"x\"} 4000\n");
    assert_has(m, "raftsman_passes_total{controller=\"odd\",result=\"x\"} 4000\n");
}

TEST_MAIN(TEST(counters_and_gauges_render_with_escaped_labels), TEST(histograms_are_cumulative),
          TEST(numbers_read_back_exactly), TEST(dropped_series_are_gone_and_may_return),
          TEST(a_full_family_refuses_and_counts), TEST(rendering_honours_the_ceiling),
          TEST(threads_add_up))
