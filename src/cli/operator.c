/* SPDX-License-Identifier: Apache-2.0
 * `raftsman operator`: the controllers. */
#include <string.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "cli/command.h"
#include "control/cluster/engine.h"
#include "kube/config.h"
#include "kube/domain.h"
#include "net/http.h"

struct options {
    const char *kubeconfig;
    const char *metrics_address, *health_address;
    bool leader_elect;
    const char *lease_namespace;
    const char *image_repo;
    const char *operator_image;
    const char *cluster_domain;
    const char *watch_namespace;
    int64_t max_disruptions;
    const char *zap_level, *zap_stacktrace, *zap_time;
    int zap_encoder; /* enum zap_encoder */
    bool zap_devel;
};

/* In the order of --log-format's choices. */
enum zap_encoder { ZAP_AUTO, ZAP_JSON, ZAP_CONSOLE };
static const char *const zap_encoders[] = {"auto", "json", "console", NULL};

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
        .name = "operator-image",
        .type = CFG_STR,
        .offset = OFFSET(operator_image),
        .arg = "IMAGE",
        .env = "OPERATOR_IMAGE",
        .help = "the image this operator runs from, for Pods that need its binary",
    },
    {
        .name = "cluster-domain",
        .type = CFG_STR,
        .offset = OFFSET(cluster_domain),
        .arg = "DOMAIN",
        .help = "what names of Services end in; otherwise as /etc/resolv.conf tells, else "
                "cluster.local",
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
    {
        .name = "zap-log-level",
        .type = CFG_STR,
        .offset = OFFSET(zap_level),
        .arg = "LEVEL",
        .help = "as --log-level, in upstream's words: debug, info, error, panic, or a number "
                "above 0 for debug",
    },
    {
        .name = "zap-encoder",
        .type = CFG_CHOICE,
        .offset = OFFSET(zap_encoder),
        .dflt = "auto",
        .choices = zap_encoders,
        .help = "as --log-format, in upstream's words",
    },
    {
        .name = "zap-devel",
        .type = CFG_BOOL,
        .offset = OFFSET(zap_devel),
        .help = "log for people: console and debug, unless said otherwise",
    },
    {
        .name = "zap-stacktrace-level",
        .type = CFG_STR,
        .offset = OFFSET(zap_stacktrace),
        .arg = "LEVEL",
        .help = "refused: no stack traces are written",
    },
    {
        .name = "zap-time-encoding",
        .type = CFG_STR,
        .offset = OFFSET(zap_time),
        .arg = "FORM",
        .help = "refused: times are always written as RFC 3339 has them",
    },
};

static int set_zap_level(const char *given, int *out, struct err *e)
{
    static const struct {
        const char *word;
        enum log_level level;
    } levels[] = {
        {"debug", LOG_DEBUG},
        {"info", LOG_INFO},
        {"error", LOG_ERROR},
        {"panic", LOG_ERROR},
    };
    uint64_t number = 0;
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        if (strcmp(given, levels[i].word) == 0) {
            *out = (int)levels[i].level;
            return 0;
        }
    }
    if (!str_u64(str_c(given), &number) || number == 0)
        return err_set(e, ERR_INVALID, 0,
                       "--zap-log-level: \"%s\" is none of debug, info, error, panic, and no "
                       "number above 0",
                       given);
    *out = LOG_DEBUG; /* zap's verbosities: there is nothing below it here */
    return 0;
}

/* The flags of upstream's logger, for those who start us with its arguments. */
static int zap_logging(const void *opts, struct common_options *out, struct err *e)
{
    const struct options *o = opts;
    if (o->zap_stacktrace)
        return err_set(e, ERR_INVALID, 0,
                       "--zap-stacktrace-level: raftsman writes no stack traces; leave it out");
    if (o->zap_time)
        return err_set(e, ERR_INVALID, 0,
                       "--zap-time-encoding: raftsman writes times as RFC 3339 has them; leave it "
                       "out");
    if (o->zap_devel) {
        out->log_level = LOG_DEBUG;
        out->log_format = ZAP_CONSOLE;
    }
    if (o->zap_encoder != ZAP_AUTO)
        out->log_format = o->zap_encoder;
    return o->zap_level ? set_zap_level(o->zap_level, &out->log_level, e) : 0;
}

static const char *address(const char *given)
{
    return strcmp(given, "0") == 0 ? NULL : given;
}

/* What was given, otherwise what the Pod's resolver is told, otherwise what most clusters use. */
static int find_domain(const struct ctx *ctx, const char *given, char **out, struct err *e)
{
    enum { RESOLV_CONF_MAX = 64 * 1024 };
    struct err ignored = {0};
    if (given && *given) {
        if (kube_domain_check(str_c(given), e) < 0)
            return err_wrap(e, "--cluster-domain");
        *out = xstrdup(given);
        return 0;
    }
    auto_buf struct buf text = BUF_INIT(RESOLV_CONF_MAX);
    if (file_read(ctx, "/etc/resolv.conf", &text, &ignored) < 0)
        log_debug(ctx->log, "no resolver configuration", KV_ERR(&ignored));
    const struct str told = kube_domain_told(buf_str(&text));
    const bool good = kube_domain_check(told, &ignored) == 0;
    *out = good ? str_dup(told) : xstrdup(KUBE_DOMAIN_DEFAULT);
    return 0;
}

static int check_image(const char *image, struct err *e)
{
    /* What upstream's manifests say before a build fills in the image: nothing could run it. */
    if (strcmp(image, "controller:latest") == 0)
        return err_set(e, ERR_DENIED, 0, "--operator-image: %s is a placeholder, not an image",
                       image);
    return 0;
}

/* So that a person sees what it was started as. */
static void tell_settings(const struct ctx *ctx, const struct engine_options *o)
{
    struct metric *info = metric_register(
        o->metrics, &(struct metric_desc){.name = "raftsman_operator_info",
                                          .help = "1; how the operator is set.",
                                          .type = METRIC_GAUGE,
                                          .labels = {"cluster_domain", "operator_image"}});
    metric_set(info, 1, o->cluster_domain, o->operator_image);
    log_info(ctx->log, "operator starts", KV("cluster_domain", o->cluster_domain),
             KV("operator_image", o->operator_image));
}

static int run(const struct ctx *ctx, const void *opts, size_t n_args, const char *const *args,
               struct err *e)
{
    const struct options *o = opts;
    if (n_args > 0)
        return err_set(e, ERR_INVALID, 0, "unexpected argument %s", args[0]);
    auto_free char *domain = NULL;
    const char *image = o->operator_image ? o->operator_image : "";
    if (check_image(image, e) < 0 || find_domain(ctx, o->cluster_domain, &domain, e) < 0)
        return -1;
    if (http_setup(e) < 0)
        return -1;
    AUTO(kube_config_free_auto) struct kube_config *config = NULL;
    AUTO(metrics_free_auto) struct metrics *metrics = metrics_new();
    const struct kube_config_source source = {.kubeconfig = o->kubeconfig, .env = getenv};
    if (kube_config_load(ctx, &source, &config, e) < 0)
        return -1;
    const struct engine_options engine = {
        .config = config,
        .metrics = metrics,
        .image_repo = o->image_repo,
        .operator_image = image,
        .cluster_domain = domain,
        .watch_namespace = o->watch_namespace,
        .max_disruptions = o->max_disruptions,
        .health_address = address(o->health_address),
        .metrics_address = address(o->metrics_address),
        .leader_elect = o->leader_elect,
        .lease_ns = o->lease_namespace ? o->lease_namespace : kube_config_namespace(config),
    };
    tell_settings(ctx, &engine);
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
    .logging = zap_logging,
    .run = run,
};
