/* SPDX-License-Identifier: Apache-2.0
 * How a pass changes objects: with a precondition, or so that doing it twice does nothing. */
#include <string.h>

#include "api/kinds.h"
#include "base/ctx.h"
#include "base/log.h"
#include "control/cluster/engine_internal.h"
#include "kube/client.h"

const char *controller_of(const json_t *object)
{
    size_t i = 0;
    const json_t *ref = NULL;
    json_array_foreach(jget(object, "metadata.ownerReferences"), i, ref)
    {
        if (jbool(ref, "controller", false))
            return jstr(ref, "uid", "");
    }
    return "";
}

int pass_read_member(const struct ctx *ctx, struct pass *p, size_t i, json_t **out, struct err *e)
{
    const char *name = pass_member_name(p, i);
    unsigned char uid[VIEW_UID_BYTES];
    json_auto_t *live = NULL;
    if (kube_get(ctx, p->worker->kube, &kind_members, p->key->ns, name, &live, e) < 0)
        return err_wrap(e, "read EtcdMember %s", name);
    if (!uid_parse(jstr(live, "metadata.uid", ""), uid) ||
        !uid_equal(uid, p->members[i].view->head.uid))
        return err_set(e, ERR_CONFLICT, 0, "EtcdMember %s is another by now", name);
    *out = TAKE(live);
    return 0;
}

int pass_check_owner(const struct kube_kind *kind, const json_t *want, const json_t *there,
                     struct err *e)
{
    const char *owner = controller_of(want);
    if (*owner && strcmp(controller_of(there), owner) == 0)
        return 0;
    return err_set(e, ERR_EXISTS, 0, "%s %s is in the way: it belongs to somebody else", kind->kind,
                   jstr(want, "metadata.name", ""));
}

int pass_patch(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
               const char *name, const struct kube_patch *how, json_t *take_patch, struct err *e)
{
    json_auto_t *body = take_patch;
    if (kube_patch(ctx, p->worker->kube, kind, p->key->ns, name, how, body, NULL, e) < 0)
        return err_wrap(e, "patch %s %s", kind->kind, name);
    return 0;
}

int pass_relabel(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
                 const json_t *want, const json_t *there, struct err *e)
{
    json_t *labels = jget(want, "metadata.labels");
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE,
                                   .resource_version =
                                       jstr(there, "metadata.resourceVersion", NULL)};
    if (jlabel(there, API_LABEL_CLUSTER))
        return 0;
    return pass_patch(ctx, p, kind, jstr(want, "metadata.name", ""), &how,
                      JOBJ(J("metadata", JOBJ(J("labels", json_incref(labels))))), e);
}

int pass_create(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
                json_t *take_object, json_t **out, struct err *e)
{
    json_auto_t *object = take_object, *there = NULL;
    const char *name = jstr(object, "metadata.name", "");
    if (kube_create(ctx, p->worker->kube, kind, p->key->ns, object, out, e) == 0)
        return 0;
    if (e->code != ERR_EXISTS)
        return err_wrap(e, "create %s %s", kind->kind, name);
    if (kube_get(ctx, p->worker->kube, kind, p->key->ns, name, &there, e) < 0)
        return err_wrap(e, "read %s %s", kind->kind, name);
    if (pass_check_owner(kind, object, there, e) < 0 ||
        pass_relabel(ctx, p, kind, object, there, e) < 0)
        return -1;
    if (out)
        *out = TAKE(there);
    return 0;
}

/* "Not found", though it was read before, is about the member or about its namespace: one that was
 * finalized too early leaves behind what nobody can change until there is a namespace again. */
static int check_gone(const struct ctx *ctx, struct pass *p, const char *name, struct err *e)
{
    struct err gone = {0};
    json_auto_t *live = NULL;
    if (kube_get(ctx, p->worker->kube, &kind_members, p->key->ns, name, &live, &gone) < 0 &&
        gone.code == ERR_NOT_FOUND)
        return 0;
    return err_wrap(e, "release it");
}

int pass_release(const struct ctx *ctx, struct pass *p, const struct member_view *view,
                 struct err *e)
{
    const char *name = view->head.name;
    unsigned char uid[VIEW_UID_BYTES];
    json_auto_t *live = NULL, *kept = JARR();
    if (kube_get(ctx, p->worker->kube, &kind_members, p->key->ns, name, &live, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : err_wrap(e, "read EtcdMember %s", name);
    if (!uid_parse(jstr(live, "metadata.uid", ""), uid) || !uid_equal(uid, view->head.uid))
        return 0; /* it is gone, and another bears its name */
    if (strcmp(jstr(live, "spec.clusterName", ""), p->key->name) != 0)
        return 0; /* it carries our label and is another cluster's */
    size_t at = 0;
    json_t *finalizer = NULL;
    json_array_foreach(jget(live, "metadata.finalizers"), at, finalizer)
    {
        if (strcmp(json_string_value(finalizer), API_FINALIZER_MEMBER) != 0)
            (void)json_array_append(kept, finalizer); /* fails only without memory */
    }
    const struct kube_patch how = {
        .type = KUBE_PATCH_MERGE, .resource_version = jstr(live, "metadata.resourceVersion", NULL)};
    if (pass_patch(ctx, p, &kind_members, name, &how,
                   JOBJ(J("metadata", JOBJ(J("finalizers", json_incref(kept))))), e) < 0)
        return e->code == ERR_NOT_FOUND ? check_gone(ctx, p, name, e) : -1;
    log_info(ctx->log, "member released", KV("member", name));
    return 0;
}
