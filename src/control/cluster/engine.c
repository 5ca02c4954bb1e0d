/* SPDX-License-Identifier: Apache-2.0
 * One pass over one cluster, and what the passes stand on. */
#include "control/cluster/engine.h"

#include <string.h>

#include "api/kinds.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "control/cluster/engine_internal.h"
#include "control/runtime/queue.h"
#include "kube/client.h"

/* The prober brings a key back; these are for what it cannot see. */
enum { SAFETY_MS = 10 * 1000, AT_REST_MS = 5 * 60 * 1000, POSTPONED_MS = 1000, STEPPED_MS = 1000 };

/* When to look again, and when to ask the members again. */
static int64_t come_back(const struct ctx *ctx, const struct pass *p, const struct plan *plan)
{
    struct prober *prober = p->engine->prober;
    const bool at_rest = plan_at_rest(plan);
    if (p->seen.exists == NO && p->seen.n_members == 0)
        return 0; /* nothing is left to look after; whatever comes comes as an event */
    int64_t after_ms = at_rest ? AT_REST_MS : SAFETY_MS;
    if (!p->asked) /* the event of what was done comes first; if it does not, there is no hurry */
        after_ms = plan->step == STEP_WAIT ? plan->recheck_ms : STEPPED_MS;
    else if (plan->step != STEP_WAIT)
        prober_stale(prober, p->key, true);
    else
        prober_next(prober, p->key, at_rest ? 0 : plan->recheck_ms, plan->again);
    const int64_t left_ms = (p->seen.deadline_s - clock_now_s(ctx->clock)) * 1000;
    if (p->seen.deadline_s > 0 && left_ms > 0 && left_ms < after_ms)
        after_ms = left_ms;
    return after_ms;
}

static int reconcile(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                     struct outcome *next, struct err *e)
{
    struct engine *g = w->arg;
    AUTO(pass_done) struct pass p = {.engine = g, .worker = w, .key = key};
    pass_observe(ctx, &p, e);
    if (p.seen.exists == UNKNOWN)
        return err_wrap(e, "read EtcdCluster");
    if (p.blind) { /* what etcd does not need to be asked for goes on */
        next->after_ms = SAFETY_MS;
        return pass_chores(ctx, &p, e);
    }
    struct plan plan = cluster_decide(&p.seen, clock_now_s(ctx->clock));
    if (plan.step == STEP_WAIT && (p.seen.exists == NO || cluster_complete(&p.seen)))
        budget_release(g->disruptions, key);
    if (pass_announce(ctx, &p, &plan, e) < 0)
        return -1;
    const int rc = pass_act(ctx, &p, &plan, e);
    if (rc == 0)
        next->after_ms = come_back(ctx, &p, &plan);
    else
        prober_stale(g->prober, key, false); /* the queue says when; then with fresh eyes */
    struct err unreported = {0};
    if (pass_report(ctx, &p, &plan, rc < 0 ? e : NULL, &unreported) < 0 && rc == 0) {
        *e = unreported;
        return -1;
    }
    if (p.postponed && next->after_ms > POSTPONED_MS)
        next->after_ms = POSTPONED_MS;
    return rc;
}

/* An answer of the members, in the prober's thread. */
static void told(void *arg, const struct objkey *key, const struct health *h, bool news)
{
    struct engine *g = arg;
    int64_t largest = 0;
    for (size_t i = 0; i < h->n; i++)
        if (h->members[i].db_bytes > largest)
            largest = h->members[i].db_bytes;
    if (largest > 0)
        metric_set(g->db_bytes, (double)largest, key->ns, key->name);
    if (news)
        wq_add(g->queue, key);
}

/* What we write must be kept: an older CRD would drop it without a word, and what protects a
 * member's disk with it. One field stands for all that came with it. */
static int check_crds(const struct ctx *ctx, struct kube_client *kube, struct err *e)
{
    static const struct {
        const struct kube_kind *kind;
        const char *field;
    } needed[] = {{&kind_members, "status.pvcUID"}, {&kind_clusters, "status.members"}};
    for (size_t i = 0; i < COUNT_OF(needed); i++) {
        bool there = false;
        if (kube_crd_has_field(ctx, kube, needed[i].kind, needed[i].field, &there, e) < 0) {
            if (e->code != ERR_DENIED)
                return err_wrap(e, "look at the CRD of %s", needed[i].kind->kind);
            log_warn(ctx->log, "may not look at the CRDs: taking them for this release's",
                     KV_ERR(e));
            *e = (struct err){0};
            return 0;
        }
        if (!there)
            return err_set(e, ERR_INVALID, 0,
                           "the CRD of %s has no field %s: it is older than this operator; apply "
                           "deploy/crds of this release first",
                           needed[i].kind->kind, needed[i].field);
    }
    return 0;
}

static void prepare(const struct ctx *ctx, struct kube_client *kube, void *arg)
{
    struct engine *g = arg;
    struct err ignored = {0};
    g->crds_checked = check_crds(ctx, kube, &ignored) == 0;
}

static int start(const struct ctx *ctx, struct wq *queue, void *arg, struct err *e)
{
    struct engine *g = arg;
    g->queue = queue;
    if (!g->crds_checked) { /* they may have come since: those of what was seen are there */
        AUTO(kube_client_free_auto) struct kube_client *kube = NULL;
        if (kube_client_new(ctx, g->options->config, &kube, e) < 0 || check_crds(ctx, kube, e) < 0)
            return -1;
    }
    return prober_start(ctx, g->prober, e);
}

static void stop(void *arg)
{
    struct engine *g = arg;
    prober_join(g->prober);
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
                                                 .help = "1 if the members follow a leader.",
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

enum { KINDS = 6, NAMESPACES_MAX = 64 };
_Static_assert((int)KINDS *NAMESPACES_MAX <= (int)MANAGER_SOURCES_MAX, "sources fit");

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

/* Cuts the list into names the sources borrow. Returns how many sources; -1: ERR_INVALID. */
static int add_namespaces(const struct engine *g, char *list, struct watch_source *out,
                          struct err *e)
{
    size_t n = 0;
    struct str rest = str_c(list), each;
    while (rest.n > 0) {
        (void)str_cut(rest, ',', &each, &rest);
        each = str_trim(each);
        if (each.n == 0)
            continue;
        if (each.n > KUBE_NAMESPACE_MAX || n / KINDS == NAMESPACES_MAX)
            return err_set(e, ERR_INVALID, 0,
                           "--watch-namespace: at most %d namespaces, each of "
                           "at most %d characters",
                           NAMESPACES_MAX, KUBE_NAMESPACE_MAX);
        char *ns = list + (each.p - list);
        ns[each.n] = '\0'; /* over the comma or blank behind it */
        n += add_sources(g, ns, out + n);
    }
    return (int)(n > 0 ? n : add_sources(g, NULL, out));
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
    auto_free char *namespaces = xstrdup(o->watch_namespace ? o->watch_namespace : "");
    struct watch_source sources[MANAGER_SOURCES_MAX];
    g.prober = prober_new(&(struct prober_options){
        .clock = ctx->clock, .told = told, .arg = &g, .probe = etcd_probe});
    g.disruptions = budget_new(ctx->clock, (size_t)o->max_disruptions);
    register_metrics(&g, o->metrics);
    const int n = add_namespaces(&g, namespaces, sources, e);
    const struct manager_options manager = {
        .config = o->config,
        .metrics = o->metrics,
        .controller = {.name = "etcdcluster",
                       .reconcile = reconcile,
                       .prepare = prepare,
                       .start = start,
                       .stop = stop,
                       .arg = &g},
        .sources = sources,
        .n_sources = (size_t)n,
        .lease_ns = o->lease_ns,
        .lease = o->leader_elect ? API_LEASE : NULL,
        .health_address = o->health_address,
        .metrics_address = o->metrics_address,
    };
    const int rc = n < 0 ? -1 : manager_run(ctx, &manager, e);
    prober_free(g.prober);
    budget_free(g.disruptions);
    view_set_free(g.clusters);
    view_set_free(g.members);
    view_set_free(g.pods);
    view_set_free(g.pvcs);
    view_set_free(g.services);
    view_set_free(g.pdbs);
    return rc;
}
