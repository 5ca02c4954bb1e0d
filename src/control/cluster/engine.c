/* SPDX-License-Identifier: Apache-2.0
 * One pass over one cluster, and what the passes stand on. */
#include "control/cluster/engine.h"

#include <string.h>

#include "api/kinds.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/str.h"
#include "control/cluster/engine_internal.h"

static int reconcile(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                     struct outcome *next, struct err *e)
{
    struct engine *g = w->arg;
    AUTO(pass_done) struct pass p = {.engine = g, .worker = w, .key = key};
    pass_observe(ctx, &p, e);
    if (p.seen.exists == UNKNOWN)
        return err_wrap(e, "read EtcdCluster");
    struct plan plan = cluster_decide(&p.seen, clock_now_s(ctx->clock));
    const int rc = pass_act(ctx, &p, &plan, e);
    next->after_ms = plan.recheck_ms;
    struct err unreported = {0};
    if (pass_report(ctx, &p, &plan, rc < 0 ? e : NULL, &unreported) < 0 && rc == 0) {
        *e = unreported;
        return -1;
    }
    return rc;
}

static void register_metrics(struct engine *g, struct metrics *m)
{
    g->members_by_state =
        metric_register(m, &(struct metric_desc){.name = "raftsman_cluster_members",
                                                 .help = "Members that should run, by state.",
                                                 .type = METRIC_GAUGE,
                                                 .labels = {"namespace", "cluster", "state"}});
    g->has_leader =
        metric_register(m, &(struct metric_desc){.name = "raftsman_cluster_has_leader",
                                                 .help = "1 if a member says that it leads.",
                                                 .type = METRIC_GAUGE,
                                                 .labels = {"namespace", "cluster"}});
    g->quorum_margin = metric_register(
        m, &(struct metric_desc){.name = "raftsman_cluster_quorum_margin",
                                 .help = "Healthy voters beyond quorum; below 0 there is none.",
                                 .type = METRIC_GAUGE,
                                 .labels = {"namespace", "cluster"}});
    g->db_bytes =
        metric_register(m, &(struct metric_desc){.name = "raftsman_cluster_db_bytes",
                                                 .help = "Size of the largest member's database.",
                                                 .type = METRIC_GAUGE,
                                                 .labels = {"namespace", "cluster"}});
    g->steps = metric_register(m, &(struct metric_desc){.name = "raftsman_steps_total",
                                                        .help = "Steps taken, by kind.",
                                                        .labels = {"step"}});
}

/* One source per kind and watched namespace. */
static size_t add_sources(const struct engine *g, const char *ns, struct watch_source *out)
{
    const struct watch_source sources[] = {
        {.set = g->clusters, .kind = &view_clusters, .ns = ns},
        {.set = g->members, .kind = &view_members, .ns = ns, .labels = API_LABEL_CLUSTER},
        {.set = g->pods, .kind = &view_pods, .ns = ns, .labels = API_LABEL_CLUSTER},
        {.set = g->pvcs, .kind = &view_pvcs, .ns = ns, .labels = API_LABEL_CLUSTER},
        {.set = g->services, .kind = &view_services, .ns = ns, .labels = API_LABEL_CLUSTER},
        {.set = g->pdbs, .kind = &view_pdbs, .ns = ns, .labels = API_LABEL_CLUSTER},
    };
    memcpy(out, sources, sizeof(sources));
    return COUNT_OF(sources);
}

int engine_run(const struct ctx *ctx, const struct engine_options *o, struct err *e)
{
    struct engine g = {.options = o,
                       .clusters = view_set_new(&view_clusters),
                       .members = view_set_new(&view_members),
                       .pods = view_set_new(&view_pods),
                       .pvcs = view_set_new(&view_pvcs),
                       .services = view_set_new(&view_services),
                       .pdbs = view_set_new(&view_pdbs)};
    struct watch_source sources[MANAGER_SOURCES_MAX];
    register_metrics(&g, o->metrics);
    const size_t n = add_sources(&g, o->watch_namespace, sources);
    const struct manager_options manager = {
        .config = o->config,
        .metrics = o->metrics,
        .controller = {.name = "etcdcluster", .reconcile = reconcile, .arg = &g},
        .sources = sources,
        .n_sources = n,
        .lease_ns = o->lease_ns,
        .lease = o->leader_elect ? API_LEASE : NULL,
        .health_address = o->health_address,
        .metrics_address = o->metrics_address,
    };
    const int rc = manager_run(ctx, &manager, e);
    view_set_free(g.clusters);
    view_set_free(g.members);
    view_set_free(g.pods);
    view_set_free(g.pvcs);
    view_set_free(g.services);
    view_set_free(g.pdbs);
    return rc;
}
