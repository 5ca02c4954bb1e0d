/* SPDX-License-Identifier: Apache-2.0
 * Every call carries its precondition (UID, resourceVersion, computed name), so that repeating it
 * after a crash, or sending it late, is refused or harmless. */
#include <inttypes.h>
#include <string.h>

#include "api/kinds.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/target.h"
#include "control/cluster/verdict.h"
#include "kube/client.h"

/* Until etcd or the gate is asked again. etcd takes a further member only when those it has have
 * been connected for five seconds, so at first there is no hurry. */
enum { REFUSED_MS = 25, REFUSED_EARLY_MS = 500, EARLY_MS = 3000 };

/* --- Cluster -------------------------------------------------------------------------------- */

static json_t *op_add(const char *path, json_t *take_value)
{
    return JOBJ(J("op", js("add")), J("path", js(path)), J("value", take_value));
}

static int latch_target(const struct ctx *ctx, struct pass *p, const char *reason, struct err *e)
{
    char deadline[TIME_TEXT_MAX];
    const int64_t seconds = jint(p->cluster, "spec.progressDeadlineSeconds", 600);
    time_print(clock_wall_us(ctx->clock) + seconds * 1000000, TIME_SECONDS, deadline);
    const char *token = jstr(p->cluster, "status.clusterToken", "");
    /* A map owned whole: replaced, because a merge patch cannot remove a key. */
    json_t *status = jget(p->cluster, "status");
    json_t *ops = JARR();
    struct verdict progressing = {0};
    verdict_set(&progressing, "True", reason, "the spec was adopted as the target");
    if (!status)
        (void)json_array_append_new(ops, op_add("/status", JOBJ()));
    (void)json_array_append_new(ops, op_add("/status/observed", target_of(p->cluster)));
    (void)json_array_append_new(ops, op_add("/status/progressDeadline", js(deadline)));
    (void)json_array_append_new(
        ops, op_add("/status/conditions",
                    conditions_with(ctx, p->cluster, "Progressing", &progressing)));
    if (*token == '\0')
        (void)json_array_append_new(
            ops, op_add("/status/clusterToken",
                        jsf("%s-%s-%s", p->key->ns, p->key->name, p->ident.uid)));
    const struct kube_patch how = {.type = KUBE_PATCH_JSON,
                                   .sub = "status",
                                   .resource_version =
                                       jstr(p->cluster, "metadata.resourceVersion", NULL)};
    return pass_patch(ctx, p, &kind_clusters, p->key->name, &how, ops, e);
}

static int latch_id(const struct ctx *ctx, struct pass *p, struct err *e)
{
    auto_free char *id = xasprintf("%016" PRIx64, p->seen.found_id);
    struct verdict available = {0};
    verdict_set(&available, "True", "ClusterDiscovered", "etcd cluster %s has formed", id);
    json_t *status =
        JOBJ(J("clusterID", js(id)),
             J("conditions", conditions_with(ctx, p->cluster, "Available", &available)));
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE,
                                   .sub = "status",
                                   .resource_version =
                                       jstr(p->cluster, "metadata.resourceVersion", NULL)};
    return pass_patch(ctx, p, &kind_clusters, p->key->name, &how, JOBJ(J("status", status)), e);
}

/* One Service that is missing from the views, or drifted: by what stands there now. */
static int ensure_service(const struct ctx *ctx, struct pass *p, json_t *take_want, struct err *e)
{
    json_auto_t *want = take_want, *there = NULL;
    const char *name = jstr(want, "metadata.name", "");
    if (kube_get(ctx, p->worker->kube, &kube_services, p->key->ns, name, &there, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return err_wrap(e, "read Service %s", name);
        *e = (struct err){0};
        return pass_create(ctx, p, &kube_services, json_incref(want), NULL, e);
    }
    if (pass_check_owner(&kube_services, want, there, e) < 0)
        return -1;
    json_t *repair = object_service_repair(want, there);
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE,
                                   .resource_version =
                                       jstr(there, "metadata.resourceVersion", NULL)};
    return repair ? pass_patch(ctx, p, &kube_services, name, &how, repair, e) : 0;
}

static int ensure_services(const struct ctx *ctx, struct pass *p, struct err *e)
{
    return ensure_service(ctx, p,
                          p->seen.peer_service == NO ? object_headless_service(&p->ident)
                                                     : object_client_service(&p->ident),
                          e);
}

/* --- Dispatch ------------------------------------------------------------------------------- */

static int take_step(const struct ctx *ctx, struct pass *p, const struct plan *plan, struct err *e)
{
    switch (plan->step) {
    case STEP_WAIT:
        return 0;
    case STEP_LATCH_TARGET:
        return latch_target(ctx, p, plan->reason, e);
    case STEP_ENSURE_SERVICES:
        return ensure_services(ctx, p, e);
    case STEP_CREATE_SEED:
        return member_create(ctx, p, true, e);
    case STEP_LATCH_ID:
        return latch_id(ctx, p, e);
    case STEP_CREATE_MEMBER:
        return member_create(ctx, p, false, e);
    case STEP_ADD_LEARNER:
        return member_add_learner(ctx, p, plan->member, e);
    case STEP_COMPLETE:
        return member_complete(ctx, p, plan->member, e);
    case STEP_PROMOTE:
        return member_promote(ctx, p, plan->member, e);
    case STEP_WAKE:
        return member_set_dormant(ctx, p, plan->member, false, e);
    case STEP_SLEEP:
        return member_set_dormant(ctx, p, plan->member, true, e);
    case STEP_DELETE_MEMBER:
        return member_delete(ctx, p, plan, e);
    case STEP_REMOVE:
        return member_remove(ctx, p, plan->member, e);
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
