/* SPDX-License-Identifier: Apache-2.0
 * How a pass changes objects: with a precondition, or so that doing it twice does nothing. */
#include <string.h>

#include "api/kinds.h"
#include "base/ctx.h"
#include "base/log.h"
#include "control/cluster/engine_internal.h"
#include "kube/client.h"

int pass_check_owner(const struct kube_kind *kind, const json_t *want, const json_t *there,
                     struct err *e)
{
    if (strcmp(jstr(there, "metadata.ownerReferences.0.uid", ""),
               jstr(want, "metadata.ownerReferences.0.uid", "-")) == 0)
        return 0;
    return err_set(e, ERR_EXISTS, 0, "%s %s is in the way: it belongs to somebody else", kind->kind,
                   jstr(want, "metadata.name", ""));
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
    if (pass_check_owner(kind, object, there, e) < 0)
        return -1;
    if (out)
        *out = TAKE(there);
    return 0;
}

int pass_patch(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
               const char *name, const struct kube_patch *how, json_t *take_patch, struct err *e)
{
    json_auto_t *body = take_patch;
    if (kube_patch(ctx, p->worker->kube, kind, p->key->ns, name, how, body, NULL, e) < 0)
        return err_wrap(e, "patch %s %s", kind->kind, name);
    return 0;
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
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    log_info(ctx->log, "member released", KV("member", name));
    return 0;
}
