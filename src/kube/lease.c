/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/lease.h"

#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "kube/kind.h"

void lease_done(struct lease *l)
{
    free(l->holder);
    free(l->version);
    free(l->renewed);
    free(l->acquired);
    *l = (struct lease){0};
}

int lease_read(const json_t *object, struct lease *out, struct err *e)
{
    const char *version = NULL;
    if (jneed_str(object, "metadata.resourceVersion", &version, e) < 0)
        return err_wrap(e, "lease");
    *out = (struct lease){
        .holder = xstrdup(jstr(object, "spec.holderIdentity", "")),
        .version = xstrdup(version),
        .duration_ms = jint(object, "spec.leaseDurationSeconds", 0) * 1000,
        .transitions = jint(object, "spec.leaseTransitions", 0),
        .renewed = xstrdup(jstr(object, "spec.renewTime", "")),
        .acquired = xstrdup(jstr(object, "spec.acquireTime", "")),
    };
    return 0;
}

bool lease_same(const struct lease *a, const struct lease *b)
{
    return a->version && b->version && strcmp(a->version, b->version) == 0;
}

static json_t *micro_time(int64_t at_us)
{
    char text[TIME_TEXT_MAX];
    return js(time_print(at_us, TIME_MICROS, text));
}

json_t *lease_object(const char *ns, const char *name, const char *holder, int64_t duration_ms,
                     int64_t now_us)
{
    return JOBJ(J("apiVersion", js("coordination.k8s.io/v1")), J("kind", js("Lease")),
                J("metadata", JOBJ(J("namespace", js(ns)), J("name", js(name)))),
                J("spec", JOBJ(J("holderIdentity", js(holder)),
                               J("leaseDurationSeconds", ji(duration_ms / 1000)),
                               J("acquireTime", micro_time(now_us)),
                               J("renewTime", micro_time(now_us)), J("leaseTransitions", ji(0)))));
}

json_t *lease_take(const struct lease *old, const char *holder, int64_t duration_ms, int64_t now_us)
{
    return JOBJ(
        J("spec",
          JOBJ(J("holderIdentity", js(holder)), J("leaseDurationSeconds", ji(duration_ms / 1000)),
               J("acquireTime", micro_time(now_us)), J("renewTime", micro_time(now_us)),
               J("leaseTransitions", ji(old->transitions + 1)))));
}

json_t *lease_renew(const char *holder, int64_t now_us)
{
    return JOBJ(
        J("spec", JOBJ(J("holderIdentity", js(holder)), J("renewTime", micro_time(now_us)))));
}

json_t *lease_release(int64_t now_us)
{
    return JOBJ(J("spec", JOBJ(J("holderIdentity", js("")), J("leaseDurationSeconds", ji(1)),
                               J("renewTime", micro_time(now_us)))));
}
