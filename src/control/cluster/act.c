/* SPDX-License-Identifier: Apache-2.0
 * Every call carries its precondition (UID, resourceVersion, computed name), so that repeating it
 * after a crash, or sending it late, is refused or harmless. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/kinds.h"
#include "api/names.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/target.h"
#include "etcd/client.h"
#include "etcd/cluster.h"
#include "kube/client.h"

/* Until etcd or the gate is asked again. etcd takes a further member only when those it has have
 * been connected for five seconds, so at first there is no hurry. */
enum { REFUSED_MS = 100, REFUSED_EARLY_MS = 500, EARLY_MS = 3000 };

/* --- Cluster -------------------------------------------------------------------------------- */

static int latch_target(const struct ctx *ctx, struct pass *p, struct err *e)
{
    char deadline[TIME_TEXT_MAX];
    const int64_t seconds = jint(p->cluster, "spec.progressDeadlineSeconds", 600);
    time_print(clock_wall_us(ctx->clock) + seconds * 1000000, TIME_SECONDS, deadline);
    const char *token = jstr(p->cluster, "status.clusterToken", "");
    /* A map owned whole: replaced, because a merge patch cannot remove a key. */
    json_t *status = jget(p->cluster, "status");
    json_t *ops = JARR();
    if (!status)
        (void)json_array_append_new(
            ops, JOBJ(J("op", js("add")), J("path", js("/status")), J("value", JOBJ())));
    (void)json_array_append_new(ops, JOBJ(J("op", js("add")), J("path", js("/status/observed")),
                                          J("value", target_of(p->cluster))));
    (void)json_array_append_new(ops,
                                JOBJ(J("op", js("add")), J("path", js("/status/progressDeadline")),
                                     J("value", js(deadline))));
    if (*token == '\0')
        (void)json_array_append_new(
            ops, JOBJ(J("op", js("add")), J("path", js("/status/clusterToken")),
                      J("value", jsf("%s-%s-%s", p->key->ns, p->key->name, p->ident.uid))));
    const struct kube_patch how = {.type = KUBE_PATCH_JSON,
                                   .sub = "status",
                                   .resource_version =
                                       jstr(p->cluster, "metadata.resourceVersion", NULL)};
    return pass_patch(ctx, p, &kind_clusters, p->key->name, &how, ops, e);
}

static int latch_id(const struct ctx *ctx, struct pass *p, struct err *e)
{
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE,
                                   .sub = "status",
                                   .resource_version =
                                       jstr(p->cluster, "metadata.resourceVersion", NULL)};
    return pass_patch(ctx, p, &kind_clusters, p->key->name, &how,
                      JOBJ(J("status", JOBJ(J("clusterID", jsf("%016" PRIx64, p->seen.found_id))))),
                      e);
}

/* One Service that is missing or drifted, by the views: create it, or put the fields we own back.
 * Views may lag behind our own write, so it is read before it is made again. */
static int ensure_service(const struct ctx *ctx, struct pass *p, json_t *take_want, bool missing,
                          struct err *e)
{
    json_auto_t *want = take_want, *there = NULL;
    const char *name = jstr(want, "metadata.name", "");
    if (!missing) {
        json_t *spec = JOBJ(
            J("selector", json_incref(jget(want, "spec.selector"))),
            J("publishNotReadyAddresses", jb(jbool(want, "spec.publishNotReadyAddresses", false))),
            J("ports", json_incref(jget(want, "spec.ports"))));
        const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
        return pass_patch(ctx, p, &kube_services, name, &how, JOBJ(J("spec", spec)), e);
    }
    if (kube_get(ctx, p->worker->kube, &kube_services, p->key->ns, name, &there, e) == 0)
        return pass_check_owner(&kube_services, want, there, e);
    if (e->code != ERR_NOT_FOUND)
        return err_wrap(e, "read Service %s", name);
    *e = (struct err){0};
    return pass_create(ctx, p, &kube_services, json_incref(want), NULL, e);
}

static int ensure_services(const struct ctx *ctx, struct pass *p, struct err *e)
{
    bool have_peer = false, have_client = false;
    for (size_t i = 0; i < p->service_views.list.n; i++) {
        const bool peer = strcmp(p->service_views.list.v[i]->name, p->key->name) == 0;
        have_peer = have_peer || peer;
        have_client = have_client || !peer;
    }
    if (p->seen.peer_service == NO)
        return ensure_service(ctx, p, object_headless_service(&p->ident), !have_peer, e);
    return ensure_service(ctx, p, object_client_service(&p->ident), !have_client, e);
}

/* --- Members -------------------------------------------------------------------------------- */

struct live_members {
    VEC(char *) uids;
    VEC(char *) names;
    const char *cluster_uid;
    size_t ours;
};

static void live_members_done(struct live_members *l)
{
    for (size_t i = 0; i < l->uids.n; i++)
        free(l->uids.v[i]);
    for (size_t i = 0; i < l->names.n; i++)
        free(l->names.v[i]);
    vec_done(&l->uids);
    vec_done(&l->names);
}

static int take_live(void *arg, json_t *object, struct err *e)
{
    struct live_members *l = arg;
    if (l->names.n >= 4 * (size_t)OBSERVED_MEMBERS_MAX)
        return err_set(e, ERR_TOO_BIG, 0, "more EtcdMembers than a cluster may have");
    vec_push(&l->names, xstrdup(jstr(object, "metadata.name", "")));
    if (strcmp(jstr(object, "metadata.ownerReferences.0.uid", ""), l->cluster_uid) == 0) {
        vec_push(&l->uids, xstrdup(jstr(object, "metadata.uid", "")));
        l->ours++;
    }
    return 0;
}

static bool name_taken(const struct live_members *l, const char *name)
{
    for (size_t i = 0; i < l->names.n; i++)
        if (strcmp(l->names.v[i], name) == 0)
            return true;
    return false;
}

/* A volume of that name may be left of a member that bore it before and is being collected; such
 * a name is passed over. The seed's is not: it must be the same for everybody, always. */
static int free_name(const struct ctx *ctx, struct pass *p, const struct live_members *live,
                     bool seed, char out[API_MEMBER_NAME_MAX + 1], struct err *e)
{
    enum { SALTS = 16 };
    for (unsigned salt = 0; salt < SALTS; salt++) {
        api_member_name(p->key->name, p->ident.uid, (const char *const *)live->uids.v, live->uids.n,
                        salt, out);
        if (name_taken(live, out))
            continue;
        if (seed)
            return 0;
        json_auto_t *left = NULL;
        auto_free char *claim = xasprintf("data-%s", out);
        if (kube_get(ctx, p->worker->kube, &kube_pvcs, p->key->ns, claim, &left, e) < 0)
            return e->code == ERR_NOT_FOUND ? 0 : err_wrap(e, "look for %s", claim);
    }
    return err_set(e, ERR_EXISTS, 0, "no free name for a member of %s", p->key->name);
}

/* The name follows from who is there, by a live list: whoever is late or racing computes the same
 * and is refused. A view that lags behind ends the pass. */
static int create_member(const struct ctx *ctx, struct pass *p, bool seed, struct err *e)
{
    AUTO(live_members_done) struct live_members live = {.cluster_uid = p->ident.uid};
    auto_free char *selector = xasprintf("%s=%s", API_LABEL_CLUSTER, p->key->name);
    const struct kube_list what = {.ns = p->key->ns, .labels = selector};
    if (kube_list(ctx, p->worker->kube, &kind_members, &what, take_live, &live, NULL, e) < 0)
        return err_wrap(e, "list members of %s", p->key->name);
    if (live.ours != p->seen.n_members)
        return err_set(e, ERR_NOT_READY, 0, "members of %s changed meanwhile", p->key->name);

    char name[API_MEMBER_NAME_MAX + 1];
    if (free_name(ctx, p, &live, seed, name, e) < 0)
        return -1;
    auto_buf struct buf initial = BUF_INIT(ENGINE_TEXT_MAX);
    if (seed) {
        buf_addf(&initial, "%s=", name);
        api_peer_url(&initial, "http", name, p->key->name, p->key->ns);
    }
    return pass_create(ctx, p, &kind_members,
                       object_member(&p->ident, p->target, name,
                                     jstr(p->cluster, "status.clusterToken", ""), seed,
                                     buf_cstr(&initial)),
                       NULL, e);
}

static int text_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* "--initial-cluster" as etcd's own list has it: each member's first peer URL, verbatim. A member
 * that has not started has no name yet; its host name is it. */
static void initial_cluster_of(const struct etcd_members *list, struct buf *out)
{
    VEC(char *) parts = {0};
    for (size_t i = 0; i < list->n; i++) {
        const struct etcd_member *m = &list->v[i];
        if (m->n_peer_urls == 0)
            continue;
        struct str host = str_c(m->peer_urls[0]), head;
        const char *scheme = strstr(m->peer_urls[0], "://");
        if (scheme)
            host = str_c(scheme + 3);
        (void)str_cut(host, '.', &head, &host);
        if (m->name && *m->name)
            head = str_c(m->name);
        if (head.n > 0)
            vec_push(&parts, xasprintf("%.*s=%s", STR_ARG(head), m->peer_urls[0]));
    }
    if (parts.n > 0)
        qsort(parts.v, parts.n, sizeof(*parts.v), text_order);
    for (size_t i = 0; i < parts.n; i++) {
        buf_addf(out, "%s%s", i > 0 ? "," : "", parts.v[i]);
        free(parts.v[i]);
    }
    vec_done(&parts);
}

static int write_initial_cluster(const struct ctx *ctx, struct pass *p, size_t i,
                                 const struct etcd_members *list, struct err *e)
{
    auto_buf struct buf initial = BUF_INIT(ENGINE_TEXT_MAX);
    initial_cluster_of(list, &initial);
    if (buf_check(&initial, "initial cluster", e) < 0)
        return -1;
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
    return pass_patch(ctx, p, &kind_members, pass_member_name(p, i), &how,
                      JOBJ(J("spec", JOBJ(J("initialCluster", js(buf_cstr(&initial)))))), e);
}

/* Each voter judges by its own connections whether it has been in touch with a majority for long
 * enough, so one may take what another refuses. A refusal is certain: nothing was done. */
static int ask_to_add(const struct ctx *ctx, struct pass *p, size_t i, uint64_t *out_id,
                      struct etcd_members *out, struct err *e)
{
    size_t voters[OBSERVED_MEMBERS_MAX];
    const size_t n = pass_askable(p, i, voters);
    const struct ctx limited = ctx_with_timeout(ctx, ENGINE_ETCD_MS);
    int rc = err_set(e, ERR_UNAVAILABLE, 0, "no member of %s has an address", p->key->name);
    for (size_t k = 0; k < n; k++) {
        AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
        *e = (struct err){0};
        rc = pass_dial_one(ctx, p, voters[k], &c, e);
        if (rc == 0)
            rc = etcd_member_add(&limited, c, p->members[i].peer_url, true, out_id, out, e);
        if (rc == 0 || (e->code != ERR_NOT_READY && e->code != ERR_UNAVAILABLE))
            break;
    }
    return rc;
}

static int add_learner(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(etcd_members_done) struct etcd_members list = {0};
    uint64_t id = 0;
    if (ask_to_add(ctx, p, i, &id, &list, e) < 0)
        return err_wrap(e, "add %s to etcd", pass_member_name(p, i));
    log_info(ctx->log, "learner added", KV("member", pass_member_name(p, i)), KV_HEX("id", id));
    return write_initial_cluster(ctx, p, i, &list, e);
}

static int complete_member(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
    AUTO(etcd_members_done) struct etcd_members list = {0};
    const struct ctx limited = ctx_with_timeout(ctx, ENGINE_ETCD_MS);
    if (pass_dial(ctx, p, i, &c, e) < 0)
        return -1;
    if (etcd_member_list(&limited, c, true, &list, e) < 0)
        return err_wrap(e, "list members of %s", p->key->name);
    return write_initial_cluster(ctx, p, i, &list, e);
}

static int promote(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
    const struct ctx limited = ctx_with_timeout(ctx, ENGINE_ETCD_MS);
    if (pass_dial(ctx, p, i, &c, e) < 0)
        return -1;
    if (etcd_member_promote(&limited, c, p->seen.members[i].id, e) < 0)
        return err_wrap(e, "promote %s", pass_member_name(p, i));
    log_info(ctx->log, "learner promoted", KV("member", pass_member_name(p, i)),
             KV_HEX("id", p->seen.members[i].id));
    return 0;
}

static int delete_member(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    json_auto_t *live = NULL;
    if (p->seen.members[i].listed == YES && pass_gate(ctx, p, i, e) < 0)
        return -1;
    if (kube_get(ctx, p->worker->kube, &kind_members, p->key->ns, pass_member_name(p, i), &live,
                 e) < 0)
        return err_wrap(e, "read EtcdMember %s", pass_member_name(p, i));
    const struct kube_delete how = {.uid = jstr(live, "metadata.uid", NULL),
                                    .resource_version =
                                        jstr(live, "metadata.resourceVersion", NULL)};
    if (kube_delete(ctx, p->worker->kube, &kind_members, p->key->ns, pass_member_name(p, i), &how,
                    e) < 0 &&
        e->code != ERR_NOT_FOUND)
        return err_wrap(e, "delete EtcdMember %s", pass_member_name(p, i));
    log_info(ctx->log, "member to be removed", KV("member", pass_member_name(p, i)));
    return 0;
}

static int remove_member(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
    const struct ctx limited = ctx_with_timeout(ctx, ENGINE_ETCD_MS);
    if (pass_gate(ctx, p, i, e) < 0)
        return -1;
    if (pass_dial(ctx, p, i, &c, e) < 0)
        return -1;
    /* "Not found" comes from a verified cluster and means: already gone. */
    if (etcd_member_remove(&limited, c, p->seen.members[i].id, e) < 0 && e->code != ERR_NOT_FOUND)
        return err_wrap(e, "remove %s from etcd", pass_member_name(p, i));
    log_info(ctx->log, "member removed", KV("member", pass_member_name(p, i)),
             KV_HEX("id", p->seen.members[i].id));
    return pass_release(ctx, p, p->members[i].view, e);
}

static int set_dormant(const struct ctx *ctx, struct pass *p, size_t i, bool dormant, struct err *e)
{
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
    return pass_patch(ctx, p, &kind_members, pass_member_name(p, i), &how,
                      JOBJ(J("spec", JOBJ(J("dormant", dormant ? jb(true) : json_null())))), e);
}

static int take_step(const struct ctx *ctx, struct pass *p, const struct plan *plan, struct err *e)
{
    switch (plan->step) {
    case STEP_WAIT:
        return 0;
    case STEP_LATCH_TARGET:
        return latch_target(ctx, p, e);
    case STEP_ENSURE_SERVICES:
        return ensure_services(ctx, p, e);
    case STEP_CREATE_SEED:
        return create_member(ctx, p, true, e);
    case STEP_LATCH_ID:
        return latch_id(ctx, p, e);
    case STEP_CREATE_MEMBER:
        return create_member(ctx, p, false, e);
    case STEP_ADD_LEARNER:
        return add_learner(ctx, p, plan->member, e);
    case STEP_COMPLETE:
        return complete_member(ctx, p, plan->member, e);
    case STEP_PROMOTE:
        return promote(ctx, p, plan->member, e);
    case STEP_WAKE:
        return set_dormant(ctx, p, plan->member, false, e);
    case STEP_SLEEP:
        return set_dormant(ctx, p, plan->member, true, e);
    case STEP_DELETE_MEMBER:
        return delete_member(ctx, p, plan->member, e);
    case STEP_REMOVE:
        return remove_member(ctx, p, plan->member, e);
    case STEP_RELEASE:
        return pass_release(ctx, p, p->members[plan->member].view, e);
    case STEP_COUNT:
        break;
    }
    return err_set(e, ERR_BUG, 0, "step %d", (int)plan->step);
}

int pass_act(const struct ctx *ctx, struct pass *p, struct plan *plan, struct err *e)
{
    /* Chores first: they keep alive what the step may need. One that fails does not stop the
     * step; the first failure is the pass's. */
    struct err first = {0};
    (void)!pass_chores(ctx, p, &first);
    if (take_step(ctx, p, plan, e) < 0) {
        if (e->code != ERR_NOT_READY)
            return -1;
        const bool early = plan->step == STEP_ADD_LEARNER && p->health.stable_ms < EARLY_MS;
        /* "Not now" is an answer, not a failure. */
        log_debug(ctx->log, "step refused for now", KV("step", step_name(plan->step)), KV_ERR(e));
        *plan = (struct plan){.step = STEP_WAIT,
                              .member = PLAN_NO_MEMBER,
                              .reason = p->refused ? p->refused : plan->reason,
                              .recheck_ms = early ? REFUSED_EARLY_MS : REFUSED_MS,
                              .again = true};
        *e = (struct err){0};
    } else if (plan->step != STEP_WAIT) {
        log_info(ctx->log, "step taken", KV("step", step_name(plan->step)),
                 KV("reason", plan->reason),
                 KV("member",
                    plan->member == PLAN_NO_MEMBER ? NULL : pass_member_name(p, plan->member)));
        metric_add(p->engine->steps, 1, step_name(plan->step));
    }
    if (first.code != ERR_NONE) {
        *e = first;
        return -1;
    }
    return 0;
}
