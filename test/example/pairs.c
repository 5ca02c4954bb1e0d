/* SPDX-License-Identifier: Apache-2.0
 * A small controller on the runtime, for its tests: every ConfigMap labelled as a source gets a
 * copy beside it, kept in step and removed with it.
 *
 *     label pairs.example/role=source           on NAME
 *     labels pairs.example/role=copy, of=NAME   on NAME-copy
 *
 * With --things it also watches the custom resource of that name, which may hold anything.
 * GET /views on the metrics address shows what it knows. SIGUSR1 and SIGUSR2 set its date an hour
 * forward and back. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cfg.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/json.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/metric.h"
#include "control/runtime/event.h"
#include "control/runtime/manager.h"
#include "kube/client.h"
#include "kube/config.h"
#include "net/http.h"

#define ROLE "pairs.example/role"
#define OF "pairs.example/of"

enum { DATA_MAX = 4 * 1024 * 1024 };

static const struct kube_kind things = {.group = "pairs.example",
                                        .version = "v1",
                                        .plural = "things",
                                        .kind = "Thing",
                                        .namespaced = true};

/* --- A clock whose date can be set --- */

static _Atomic int64_t date_shift_us;

static int64_t shifted_wall_us(const struct clock *c)
{
    (void)c;
    return clock_wall_us(&clock_real) + atomic_load(&date_shift_us);
}

static int64_t real_boot_ms(const struct clock *c)
{
    (void)c;
    return clock_boot_ms(&clock_real);
}

static const struct clock shifted = {.wall_us = shifted_wall_us, .boot_ms = real_boot_ms};

static void set_date(int number)
{
    const int64_t hour_us = INT64_C(3600) * 1000000;
    atomic_fetch_add(&date_shift_us, number == SIGUSR1 ? hour_us : -hour_us);
}

/* --- Views --- */

struct pair_view {
    struct view head;
    uint64_t data; /* hash */
    bool copy;
};

static uint64_t fnv(struct str s)
{
    uint64_t h = 14695981039346656037ULL;
    for (size_t i = 0; i < s.n; i++)
        h = (h ^ (unsigned char)s.p[i]) * 1099511628211ULL;
    return h;
}

static int hash_of(const json_t *value, uint64_t *out, struct err *e)
{
    auto_buf struct buf text = BUF_INIT(DATA_MAX);
    json_auto_t *none = json_object();
    if (jdump(value ? value : none, &text, e) < 0)
        return -1;
    *out = fnv(buf_str(&text));
    return 0;
}

static int project_pair(const json_t *object, struct intern *strings, struct view *out,
                        struct err *e)
{
    struct pair_view *v = (struct pair_view *)out;
    const char *role = jlabel(object, ROLE);
    v->copy = role && strcmp(role, "copy") == 0;
    const char *source = v->copy ? jlabel(object, OF) : out->name;
    if (!source)
        return err_set(e, ERR_INVALID, 0, "a copy without the label %s", OF);
    auto_free char *owner = xasprintf("%s/%s", out->ns->text, source);
    out->owner = intern(strings, str_c(owner));
    return hash_of(jget(object, "data"), &v->data, e);
}

static bool same_pair(const struct view *a, const struct view *b)
{
    const struct pair_view *x = (const struct pair_view *)a, *y = (const struct pair_view *)b;
    return x->data == y->data && x->copy == y->copy;
}

static const struct view_kind pair_kind = {.kube = &kube_configmaps,
                                           .size = sizeof(struct pair_view),
                                           .project = project_pair,
                                           .same = same_pair};

static int project_thing(const json_t *object, struct intern *strings, struct view *out,
                         struct err *e)
{
    (void)strings;
    if (jbool(object, "spec.unprojectable", false))
        return err_set(e, ERR_INVALID, 0, "spec.unprojectable is set");
    return hash_of(jget(object, "spec"), &((struct pair_view *)out)->data, e);
}

static const struct view_kind thing_kind = {
    .kube = &things, .size = sizeof(struct pair_view), .project = project_thing};

/* --- Keeping in step --- */

struct pairs {
    struct view_set *configmaps, *things;
    int64_t emit; /* events per pass, all alike */
};

static bool in_step(struct pairs *p, const struct objkey *key)
{
    char owner[OBJKEY_TEXT_MAX];
    AUTO(views_done) struct views all = {0};
    (void)objkey_text(key, owner);
    view_list_owner(p->configmaps, owner, &all);
    uint64_t data[2] = {0};
    size_t seen[2] = {0};
    for (size_t i = 0; i < all.list.n; i++) {
        const struct pair_view *v = (const struct pair_view *)all.list.v[i];
        seen[v->copy]++;
        data[v->copy] = v->data;
    }
    return seen[0] == 1 && seen[1] == 1 && data[0] == data[1];
}

static int remove_copy(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                       const char *name, const json_t *copy, struct err *e)
{
    const struct kube_delete how = {.uid = jstr(copy, "metadata.uid", NULL)};
    if (kube_delete(ctx, w->kube, &kube_configmaps, key->ns, name, &how, e) == 0 ||
        e->code == ERR_NOT_FOUND)
        return 0;
    return -1;
}

static int create_copy(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                       const char *name, const json_t *source, struct err *e)
{
    json_auto_t *data = jget(source, "data") ? json_deep_copy(jget(source, "data")) : json_object();
    json_auto_t *copy = JOBJ(
        J("apiVersion", js("v1")), J("kind", js("ConfigMap")),
        J("metadata",
          JOBJ(J("name", js(name)), J("namespace", js(key->ns)),
               J("labels", JOBJ(J(ROLE, js("copy")), J(OF, js(key->name)))),
               J("ownerReferences", JARR(JOBJ(J("apiVersion", js("v1")), J("kind", js("ConfigMap")),
                                              J("name", js(key->name)),
                                              J("uid", js(jstr(source, "metadata.uid", "")))))))),
        J("data", json_incref(data)));
    return kube_create(ctx, w->kube, &kube_configmaps, key->ns, copy, NULL, e);
}

static int update_copy(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                       const char *name, const json_t *source, const json_t *copy, struct err *e)
{
    json_t *data = jget(source, "data");
    if (data && json_equal(data, jget(copy, "data")))
        return 0;
    json_auto_t *patch = JARR(JOBJ(J("op", js("add")), J("path", js("/data")),
                                   J("value", data ? json_deep_copy(data) : json_object())));
    const struct kube_patch how = {.type = KUBE_PATCH_JSON,
                                   .resource_version = jstr(copy, "metadata.resourceVersion", "")};
    return kube_patch(ctx, w->kube, &kube_configmaps, key->ns, name, &how, patch, NULL, e);
}

static int reconcile(const struct ctx *ctx, struct worker *w, const struct objkey *key,
                     struct outcome *next, struct err *e)
{
    (void)next;
    struct pairs *p = w->arg;
    if (in_step(p, key))
        return 0;
    auto_free char *name = xasprintf("%s-copy", key->name);
    json_auto_t *source = NULL, *copy = NULL;
    if (kube_get(ctx, w->kube, &kube_configmaps, key->ns, key->name, &source, e) < 0 &&
        e->code != ERR_NOT_FOUND)
        return -1;
    if (kube_get(ctx, w->kube, &kube_configmaps, key->ns, name, &copy, e) < 0 &&
        e->code != ERR_NOT_FOUND)
        return -1;
    const char *role = source ? jlabel(source, ROLE) : NULL;
    if (!role || strcmp(role, "source") != 0 || jget(source, "metadata.deletionTimestamp"))
        return copy ? remove_copy(ctx, w, key, name, copy, e) : 0;
    const struct event_subject about = {.kind = &kube_configmaps,
                                        .ns = key->ns,
                                        .name = key->name,
                                        .uid = jstr(source, "metadata.uid", "")};
    for (int64_t i = 0; i < p->emit; i++)
        event_normal(w->events, &about, "Copied", "Copy", "the copy was brought in step");
    return copy ? update_copy(ctx, w, key, name, source, copy, e)
                : create_copy(ctx, w, key, name, source, e);
}

/* --- What it knows --- */

static void add_quarantined(void *arg, const char *key, const char *why)
{
    (void)json_object_set_new(arg, key, js(why));
}

static json_t *describe(struct view_set *set)
{
    AUTO(views_done) struct views all = {0};
    view_list_all(set, &all);
    json_t *views = json_object(), *quarantined = json_object();
    for (size_t i = 0; i < all.list.n; i++) {
        const struct pair_view *v = (const struct pair_view *)all.list.v[i];
        auto_free char *key = xasprintf("%s/%s", v->head.ns->text, v->head.name);
        (void)json_object_set_new(
            views, key,
            JOBJ(J("version", jsf("%llu", (unsigned long long)v->head.version)),
                 J("data", jsf("%016llx", (unsigned long long)v->data))));
    }
    (void)view_quarantined(set, add_quarantined, quarantined);
    return JOBJ(J("views", views), J("quarantined", quarantined));
}

static void answer_views(void *arg, const struct server_query *query, struct server_reply *out)
{
    (void)query;
    const struct pairs *p = arg;
    json_auto_t *all = JOBJ(J("configmaps", describe(p->configmaps)),
                            J_IF(p->things, "things", describe(p->things)));
    struct err e = {0};
    if (jdump(all, &out->body, &e) < 0)
        out->status = 500;
}

/* --- The program --- */

struct options {
    const char *kubeconfig, *namespaces, *lease, *lease_namespace, *identity, *address, *health;
    int64_t lease_ns, renew_ns, retry_ns, idle_ns, workers, emit;
    bool paged, things, debug;
};

#define OPTION(name_, type_, field_, dflt_, help_)                                                 \
    {                                                                                              \
        .name = (name_), .type = (type_), .offset = offsetof(struct options, field_),              \
        .dflt = (dflt_), .help = (help_)                                                           \
    }

static const struct cfg_option table[] = {
    OPTION("kubeconfig", CFG_STR, kubeconfig, NULL, "kubeconfig file"),
    OPTION("namespaces", CFG_STR, namespaces, NULL, "comma list; none means all"),
    OPTION("lease", CFG_STR, lease, NULL, "elect a leader by this Lease"),
    OPTION("lease-namespace", CFG_STR, lease_namespace, "default", "where it is"),
    OPTION("identity", CFG_STR, identity, NULL, "who we are"),
    OPTION("lease-duration", CFG_DURATION, lease_ns, "15s", "how long it holds"),
    OPTION("renew-deadline", CFG_DURATION, renew_ns, "10s", "when to give up"),
    OPTION("retry-period", CFG_DURATION, retry_ns, "2s", "how often to renew"),
    OPTION("idle-limit", CFG_DURATION, idle_ns, "2m", "of a silent watch"),
    OPTION("workers", CFG_INT, workers, "4", "how many"),
    OPTION("emit", CFG_INT, emit, "0", "events per pass"),
    OPTION("address", CFG_STR, address, NULL, "for metrics and views"),
    OPTION("health", CFG_STR, health, NULL, "for health"),
    OPTION("paged", CFG_BOOL, paged, NULL, "list by pages"),
    OPTION("debug", CFG_BOOL, debug, NULL, "log everything"),
    OPTION("things", CFG_BOOL, things, NULL, "watch things as well"),
};

static struct cancel interrupted;

static void on_signal(int number)
{
    (void)number;
    cancel_fire(&interrupted);
}

static void add_sources(const struct options *o, const struct pairs *p, struct watch_source *out,
                        size_t *n, char *ns)
{
    for (char *at = ns; at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        const char *here = o->namespaces ? at : NULL;
        out[(*n)++] = (struct watch_source){
            .set = p->configmaps, .kind = &pair_kind, .ns = here, .labels = ROLE};
        if (p->things)
            out[(*n)++] = (struct watch_source){
                .set = p->things, .kind = &thing_kind, .ns = here, .labels = ROLE};
        at = comma ? comma + 1 : NULL;
    }
}

static int run(const struct ctx *ctx, const struct options *o, struct err *e)
{
    const struct kube_config_source source = {.kubeconfig = o->kubeconfig, .env = getenv};
    AUTO(kube_config_free_auto) struct kube_config *config = NULL;
    AUTO(metrics_free_auto) struct metrics *metrics = metrics_new();
    if (kube_config_load(ctx, &source, &config, e) < 0)
        return -1;
    struct pairs pairs = {.configmaps = view_set_new(&pair_kind),
                          .things = o->things ? view_set_new(&thing_kind) : NULL,
                          .emit = o->emit};
    struct watch_source sources[MANAGER_SOURCES_MAX];
    size_t n = 0;
    auto_free char *namespaces = xstrdup(o->namespaces ? o->namespaces : "");
    add_sources(o, &pairs, sources, &n, namespaces);
    const struct server_route routes[] = {{"/views", answer_views, &pairs}};
    const struct manager_options options = {
        .config = config,
        .metrics = metrics,
        .controller = {.name = "pairs", .reconcile = reconcile, .arg = &pairs},
        .sources = sources,
        .n_sources = n,
        .workers = (int)o->workers,
        .idle_ms = o->idle_ns / 1000000,
        .paged_lists = o->paged,
        .lease_ns = o->lease_namespace,
        .lease = o->lease,
        .identity = o->identity,
        .lease_ms = o->lease_ns / 1000000,
        .renew_ms = o->renew_ns / 1000000,
        .retry_ms = o->retry_ns / 1000000,
        .health_address = o->health,
        .metrics_address = o->address,
        .routes = routes,
        .n_routes = COUNT_OF(routes),
    };
    const int rc = manager_run(ctx, &options, e);
    view_set_free(pairs.configmaps);
    view_set_free(pairs.things);
    return rc;
}

int main(int argc, char **argv)
{
    mem_setup();
    json_setup();
    struct err e = {0};
    struct options o = {0};
    const struct cfg_section section = {.options = table, .n = COUNT_OF(table), .into = &o};
    AUTO(cfg_parsed_done) struct cfg_parsed parsed = {0};
    if (!cfg_parse(&section, 1, argc - 1, (const char *const *)argv + 1, getenv, &parsed) ||
        cancel_init(&interrupted, &e) < 0 || http_setup(&e) < 0) {
        (void)fprintf(stderr, "%s\n", parsed.problems.n > 0 ? parsed.problems.v[0] : e.text);
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGUSR1, set_date);
    (void)signal(SIGUSR2, set_date);
    struct log_sink sink;
    log_sink_init(&sink, 2, LOG_JSON, o.debug ? LOG_DEBUG : LOG_INFO, &clock_real);
    const struct log lg = {.sink = &sink};
    const struct ctx plain = ctx_root(&shifted, &lg);
    const struct ctx ctx = ctx_with_cancel(&plain, &interrupted);
    const int rc = run(&ctx, &o, &e);
    if (rc < 0)
        log_error(&lg, "ended", KV_ERR(&e));
    log_sink_done(&sink);
    return rc < 0 ? 1 : 0;
}
