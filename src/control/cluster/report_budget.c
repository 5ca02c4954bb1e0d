/* SPDX-License-Identifier: Apache-2.0
 * The PodDisruptionBudget: from the first voter on, until none is left. */
#include <string.h>

#include "api/kinds.h"
#include "base/ctx.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/verdict.h"
#include "kube/client.h"

static int create(const struct ctx *ctx, struct pass *p, int min, struct err *e)
{
    return pass_create(ctx, p, &kube_pdbs, object_pdb(&p->ident, min), NULL, e);
}

static int change(const struct ctx *ctx, struct pass *p, int min, struct err *e)
{
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
    return pass_patch(
        ctx, p, &kube_pdbs, p->key->name, &how,
        JOBJ(J("spec", JOBJ(J("minAvailable", ji(min)), J("maxUnavailable", json_null())))), e);
}

static int drop(const struct ctx *ctx, struct pass *p, struct err *e)
{
    json_auto_t *live = NULL;
    if (kube_get(ctx, p->worker->kube, &kube_pdbs, p->key->ns, p->key->name, &live, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : err_wrap(e, "read it");
    if (strcmp(controller_of(live), p->ident.uid) != 0)
        return 0; /* somebody else's */
    const struct kube_delete how = {.uid = jstr(live, "metadata.uid", NULL)};
    if (kube_delete(ctx, p->worker->kube, &kube_pdbs, p->key->ns, p->key->name, &how, e) < 0 &&
        e->code != ERR_NOT_FOUND)
        return err_wrap(e, "delete it");
    return 0;
}

int report_budget(const struct ctx *ctx, struct pass *p, struct err *e)
{
    enum { NONE = -2 };
    const bool asleep = p->seen.want == 0 && cluster_complete(&p->seen);
    if ((p->seen.quorum != YES && !asleep) || p->seen.unsupported)
        return 0; /* how many voters there are is not known: leave it as it is */
    const size_t voters = p->seen.quorum == YES ? cluster_voters(&p->seen) : 0;
    const int min = object_pdb_min_available(voters, p->seen.want);
    const struct view *view = view_get(p->engine->pdbs, p->key->ns, p->key->name);
    const struct pdb_view *pdb = (const struct pdb_view *)view;
    unsigned char uid[VIEW_UID_BYTES];
    const bool ours = pdb && uid_parse(p->ident.uid, uid) && uid_equal(pdb->owner_uid, uid);
    const int64_t have = pdb ? pdb->min_available : NONE;
    view_unref(view);
    int rc = 0;
    if (have == NONE)
        rc = min > 0 ? create(ctx, p, min, e) : 0;
    else if (!ours)
        rc = err_set(e, ERR_EXISTS, 0, "it is in the way: it belongs to somebody else");
    else if (min == 0)
        rc = drop(ctx, p, e);
    else if (have != min)
        rc = change(ctx, p, min, e);
    return rc < 0 ? err_wrap(e, "PodDisruptionBudget %s", p->key->name) : 0;
}
