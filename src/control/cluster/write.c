/* SPDX-License-Identifier: Apache-2.0
 * How a pass changes objects: with a precondition, or so that doing it twice does nothing. */
#include <string.h>

#include "control/cluster/engine_internal.h"
#include "kube/client.h"

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
    if (strcmp(jstr(there, "metadata.ownerReferences.0.uid", ""),
               jstr(object, "metadata.ownerReferences.0.uid", "-")) != 0)
        return err_set(e, ERR_EXISTS, 0, "%s %s is in the way: it belongs to somebody else",
                       kind->kind, name);
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
