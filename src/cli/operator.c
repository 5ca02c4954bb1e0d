/* SPDX-License-Identifier: Apache-2.0
 * `raftsman operator`: the controllers. */
#include <string.h>

#include "base/ctx.h"
#include "base/metric.h"
#include "cli/command.h"
#include "control/cluster/engine.h"
#include "kube/config.h"
#include "net/http.h"

struct options {
    const char *kubeconfig;
    const char *metrics_address, *health_address;
    bool leader_elect;
    const char *lease_namespace;
    const char *image_repo;
    const char *watch_namespace;
    int64_t max_disruptions;
};

#define OFFSET(field) offsetof(struct options, field)

static const struct cfg_option table[] = {
    {
        .name = "kubeconfig",
        .type = CFG_FILE,
        .offset = OFFSET(kubeconfig),
        .help =
            "how to reach the API server; otherwise KUBECONFIG, the Pod's account, ~/.kube/config",
    },
    {
        .name = "metrics-bind-address",
        .type = CFG_STR,
        .offset = OFFSET(metrics_address),
        .dflt = ":8080",
        .arg = "ADDRESS",
        .help = "where /metrics is served; 0 for nowhere",
    },
    {
        .name = "health-probe-bind-address",
        .type = CFG_STR,
        .offset = OFFSET(health_address),
        .dflt = ":8081",
        .arg = "ADDRESS",
        .help = "where /healthz and /readyz are served; 0 for nowhere",
    },
    {
        .name = "leader-elect",
        .type = CFG_BOOL,
        .offset = OFFSET(leader_elect),
        .help = "let only one of several operators act",
    },
    {
        .name = "lease-namespace",
        .type = CFG_STR,
        .offset = OFFSET(lease_namespace),
        .arg = "NAMESPACE",
        .help = "where the leader's Lease is; otherwise the operator's own namespace",
    },
    {
        .name = "etcd-image-repository",
        .type = CFG_STR,
        .offset = OFFSET(image_repo),
        .dflt = "quay.io/coreos/etcd",
        .arg = "REPOSITORY",
        .env = "ETCD_IMAGE_REPOSITORY",
        .help = "where etcd's images are; the tag is v and the version",
    },
    {
        .name = "watch-namespace",
        .type = CFG_STR,
        .offset = OFFSET(watch_namespace),
        .arg = "NAMESPACES",
        .env = "WATCH_NAMESPACE",
        .help = "look after these namespaces only; otherwise all",
    },
    {
        .name = "max-concurrent-disruptions",
        .type = CFG_INT,
        .offset = OFFSET(max_disruptions),
        .dflt = "5",
        .min = 1,
        .max = 10000,
        .arg = "N",
        .help = "clusters from which members may be removed at the same time",
    },
};

static const char *address(const char *given)
{
    return strcmp(given, "0") == 0 ? NULL : given;
}

static int run(const struct ctx *ctx, const void *opts, size_t n_args, const char *const *args,
               struct err *e)
{
    const struct options *o = opts;
    if (n_args > 0)
        return err_set(e, ERR_INVALID, 0, "unexpected argument %s", args[0]);
    http_setup();
    AUTO(kube_config_free_auto) struct kube_config *config = NULL;
    AUTO(metrics_free_auto) struct metrics *metrics = metrics_new();
    const struct kube_config_source source = {.kubeconfig = o->kubeconfig, .env = getenv};
    if (kube_config_load(ctx, &source, &config, e) < 0)
        return -1;
    const struct engine_options engine = {
        .config = config,
        .metrics = metrics,
        .image_repo = o->image_repo,
        .watch_namespace = o->watch_namespace,
        .max_disruptions = o->max_disruptions,
        .health_address = address(o->health_address),
        .metrics_address = address(o->metrics_address),
        .leader_elect = o->leader_elect,
        .lease_ns = o->lease_namespace ? o->lease_namespace : kube_config_namespace(config),
    };
    return engine_run(ctx, &engine, e);
}

const struct command command_operator = {
    .name = "operator",
    .summary = "keep EtcdClusters as their specs say, on a Kubernetes cluster",
    .about = "Watches EtcdClusters and their members, and brings each to what its spec says: one\n"
             "step at a time, and none that the other voters could not bear.",
    .options = table,
    .n_options = COUNT_OF(table),
    .options_bytes = sizeof(struct options),
    .run = run,
};
