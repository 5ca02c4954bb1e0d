/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/verdict.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "control/cluster/engine_internal.h"
#include "kube/client.h"
#include "kube/condition.h"

void verdict_set(struct verdict *v, const char *status, const char *reason, const char *fmt, ...)
{
    v->status = status;
    v->reason = reason;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(v->message, sizeof(v->message), fmt, ap);
    va_end(ap);
}

void verdict_apply(json_t *conditions, const char *type, const struct verdict *v,
                   int64_t generation, int64_t now_us)
{
    if (!v->status)
        return;
    const struct condition c = {.type = type,
                                .status = v->status,
                                .reason = v->reason,
                                .message = v->message,
                                .generation = generation};
    (void)condition_set(conditions, &c, now_us); /* the whole status is compared afterwards */
}

json_t *conditions_with(const struct ctx *ctx, const json_t *object, const char *type,
                        const struct verdict *v)
{
    json_t *now = jget(object, "status.conditions");
    json_t *list = now ? json_deep_copy(now) : JARR();
    verdict_apply(list, type, v, jint(object, "metadata.generation", 0), clock_wall_us(ctx->clock));
    return list;
}

/* Differences of the top-level fields as a JSON patch: maps and lists are replaced whole. */
static json_t *status_patch(const json_t *now, const json_t *want)
{
    json_t *ops = JARR();
    const char *key = NULL;
    json_t *value = NULL;
    if (!now)
        (void)json_array_append_new(
            ops, JOBJ(J("op", js("add")), J("path", js("/status")), J("value", JOBJ())));
    json_object_foreach((json_t *)want, key, value)
    {
        if (!json_equal(value, json_object_get(now, key)))
            (void)json_array_append_new(ops,
                                        JOBJ(J("op", js("add")), J("path", jsf("/status/%s", key)),
                                             J("value", json_incref(value))));
    }
    json_object_foreach((json_t *)now, key, value)
    {
        if (!json_object_get(want, key))
            (void)json_array_append_new(
                ops, JOBJ(J("op", js("remove")), J("path", jsf("/status/%s", key))));
    }
    return ops;
}

int status_write(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
                 const json_t *object, const json_t *want, struct err *e)
{
    const char *name = jstr(object, "metadata.name", "");
    json_auto_t *ops = status_patch(jget(object, "status"), want);
    if (json_array_size(ops) == 0)
        return 0;
    const struct kube_patch how = {.type = KUBE_PATCH_JSON,
                                   .sub = "status",
                                   .resource_version =
                                       jstr(object, "metadata.resourceVersion", NULL)};
    if (kube_patch(ctx, p->worker->kube, kind, p->key->ns, name, &how, ops, NULL, e) < 0)
        return err_wrap(e, "write status of %s %s", kind->kind, name);
    return 0;
}
