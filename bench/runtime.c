/* SPDX-License-Identifier: Apache-2.0
 * The runtime with nothing on top, for bench/watch and bench/idle: it knows every Pod that
 * carries a label, prints "synced SECONDS COUNT", and stays. With "all" as the third argument it
 * watches all kinds an operator would, leads, and serves health and metrics.
 *
 *     bench_runtime KUBECONFIG SELECTOR [all] */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "control/runtime/manager.h"
#include "kube/config.h"
#include "net/http.h"

static struct cancel interrupted;
static int64_t began_ms;
static struct view_set *pods;

static void on_signal(int number)
{
    (void)number;
    cancel_fire(&interrupted);
}

/* What deciding about an etcd member needs of its Pod. */
struct pod_view {
    struct view head;
    const struct istr *node, *phase;
    char *ip;
    int64_t generation, restarts;
    bool ready, deleting;
};

static bool is_ready(const json_t *object)
{
    size_t i = 0;
    json_t *c = NULL;
    json_array_foreach(jget(object, "status.conditions"), i,
                       c) if (strcmp(jstr(c, "type", ""), "Ready") ==
                              0) return strcmp(jstr(c, "status", ""), "True") == 0;
    return false;
}

static int project_pod(const json_t *object, struct intern *strings, struct view *out,
                       struct err *e)
{
    (void)e;
    struct pod_view *v = (struct pod_view *)out;
    const char *cluster = jlabel(object, "bench.example/cluster");
    const char *ip = jstr(object, "status.podIP", NULL);
    v->node = intern(strings, str_c(jstr(object, "spec.nodeName", "")));
    v->phase = intern(strings, str_c(jstr(object, "status.phase", "")));
    v->ip = ip ? xstrdup(ip) : NULL;
    v->generation = jint(object, "metadata.generation", 0);
    v->restarts = jint(object, "status.containerStatuses.0.restartCount", 0);
    v->ready = is_ready(object);
    v->deleting = jget(object, "metadata.deletionTimestamp") != NULL;
    if (cluster) {
        auto_free char *owner = xasprintf("%s/%s", out->ns->text, cluster);
        out->owner = intern(strings, str_c(owner));
    }
    return 0;
}

static bool same_pod(const struct view *a, const struct view *b)
{
    const struct pod_view *x = (const struct pod_view *)a, *y = (const struct pod_view *)b;
    const bool same_ip = x->ip && y->ip ? strcmp(x->ip, y->ip) == 0 : !x->ip && !y->ip;
    return x->node == y->node && x->phase == y->phase && same_ip &&
           x->generation == y->generation && x->restarts == y->restarts && x->ready == y->ready &&
           x->deleting == y->deleting;
}

static void done_pod(struct view *v)
{
    struct pod_view *p = (struct pod_view *)v;
    istr_unref(p->node);
    istr_unref(p->phase);
    free(p->ip);
}

static const char *const pod_unread[] = {"spec.containers", "spec.tolerations", "spec.volumes",
                                         NULL};

static int project_nothing(const json_t *object, struct intern *strings, struct view *out,
                           struct err *e)
{
    (void)object;
    (void)strings;
    (void)out;
    (void)e;
    return 0;
}

static const struct view_kind pod_kind = {.kube = &kube_pods,
                                          .size = sizeof(struct pod_view),
                                          .unread = pod_unread,
                                          .project = project_pod,
                                          .done = done_pod,
                                          .same = same_pod};

#define PLAIN(kind_)                                                                               \
    {                                                                                              \
        .kube = (kind_), .size = sizeof(struct view), .project = project_nothing                   \
    }

static const struct view_kind others[] = {
    PLAIN(&kube_pvcs),       PLAIN(&kube_services), PLAIN(&kube_pdbs),   PLAIN(&kube_jobs),
    PLAIN(&kube_configmaps), PLAIN(&kube_leases),   PLAIN(&kube_events), PLAIN(&kube_namespaces),
};

static int reconcile(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                     struct outcome *next, struct err *e)
{
    (void)ctx;
    (void)w;
    (void)key;
    (void)next;
    (void)e;
    static atomic_bool said;
    if (!atomic_exchange(&said, true)) { /* workers begin when the lists are complete */
        (void)printf("synced %.3f %zu\n", (double)(clock_boot_ms(&clock_real) - began_ms) / 1000,
                     view_count(pods));
        (void)fflush(stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct log_sink sink;
    mem_setup();
    json_setup();
    began_ms = clock_boot_ms(&clock_real);
    log_sink_init(&sink, 2, LOG_JSON, LOG_WARN, &clock_real);
    const struct log lg = {.sink = &sink};
    const struct ctx plain = ctx_root(&clock_real, &lg);
    if (argc < 3 || cancel_init(&interrupted, &e) < 0 || http_setup(&e) < 0)
        return 2;
    const struct ctx ctx = ctx_with_cancel(&plain, &interrupted);
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGPIPE, SIG_IGN);
    const bool all = argc > 3;
    const struct kube_config_source source = {.kubeconfig = argv[1], .env = getenv};
    AUTO(kube_config_free_auto) struct kube_config *config = NULL;
    AUTO(metrics_free_auto) struct metrics *metrics = metrics_new();
    if (kube_config_load(&ctx, &source, &config, &e) < 0) {
        (void)fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    struct watch_source sources[1 + COUNT_OF(others)] = {
        {.set = pods = view_set_new(&pod_kind), .kind = &pod_kind, .labels = argv[2]}};
    size_t n = 1;
    for (size_t i = 0; all && i < COUNT_OF(others); i++)
        sources[n++] = (struct watch_source){
            .set = view_set_new(&others[i]), .kind = &others[i], .labels = argv[2]};
    const struct manager_options options = {
        .config = config,
        .metrics = metrics,
        .controller = {.name = "bench", .reconcile = reconcile},
        .sources = sources,
        .n_sources = n,
        .lease_ns = "default",
        .lease = all ? "bench" : NULL,
        .health_address = all ? "127.0.0.1:0" : NULL,
        .metrics_address = all ? "127.0.0.1:0" : NULL,
    };
    const int rc = manager_run(&ctx, &options, &e);
    for (size_t i = 0; i < n; i++)
        view_set_free(sources[i].set);
    if (rc < 0)
        (void)fprintf(stderr, "%s\n", e.text);
    return rc < 0 ? 1 : 0;
}
