/* SPDX-License-Identifier: Apache-2.0
 * The small work that keeps a member alive and disturbs nobody: its volume, its Pod, its label.
 * Everything a Pod depends on is read live first. */
#include <string.h>

#include "api/kinds.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "control/cluster/engine_internal.h"
#include "kube/client.h"
#include "kube/condition.h"

enum { CHORES_MAX = 8 }; /* of one member in one pass */

/* The objects of one member, as they were last read or written. What a Pod depends on is never
 * taken from a view. */
struct tended {
    size_t i;
    json_t *member, *pvc; /* owned; NULL: not read yet */
};

static void tended_done(struct tended *t)
{
    json_decref(t->member);
    json_decref(t->pvc);
}

static int need_member(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    return t->member ? 0 : pass_read_member(ctx, p, t->i, &t->member, e);
}

/* Reads the volume. One that is gone while the view still has it is no error: look again. */
static int need_pvc(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    auto_free char *name = xasprintf("data-%s", pass_member_name(p, t->i));
    if (t->pvc || kube_get(ctx, p->worker->kube, &kube_pvcs, p->key->ns, name, &t->pvc, e) == 0)
        return 0;
    if (e->code == ERR_NOT_FOUND)
        e->code = ERR_CONFLICT;
    return err_wrap(e, "read PersistentVolumeClaim %s", name);
}

static int patch_member(const struct ctx *ctx, struct pass *p, struct tended *t, const char *sub,
                        json_t *take_patch, struct err *e)
{
    json_auto_t *body = take_patch, *before = TAKE(t->member);
    const char *name = pass_member_name(p, t->i);
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE,
                                   .sub = sub,
                                   .resource_version =
                                       jstr(before, "metadata.resourceVersion", NULL)};
    if (kube_patch(ctx, p->worker->kube, &kind_members, p->key->ns, name, &how, body, &t->member,
                   e) < 0)
        return err_wrap(e, "patch EtcdMember %s", name);
    return 0;
}

static int create_pvc(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    if (need_member(ctx, p, t, e) < 0)
        return -1;
    if (*jstr(t->member, "status.pvcUID", "") != '\0')
        return err_set(e, ERR_CONFLICT, 0, "%s had a volume before", pass_member_name(p, t->i));
    return pass_create(ctx, p, &kube_pvcs, object_pvc(&p->ident, t->member), &t->pvc, e);
}

static int record_pvc(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    if (need_member(ctx, p, t, e) < 0 || need_pvc(ctx, p, t, e) < 0)
        return -1;
    if (*jstr(t->member, "status.pvcUID", "") != '\0' ||
        strcmp(controller_of(t->pvc), jstr(t->member, "metadata.uid", "")) != 0)
        return err_set(e, ERR_CONFLICT, 0, "volume of %s changed meanwhile",
                       pass_member_name(p, t->i));
    /* The first word about its readiness goes with it, to save a write. */
    json_auto_t *conditions = JARR();
    const struct condition unready = {.type = "Ready",
                                      .status = "False",
                                      .reason = "PodNotReady",
                                      .message = "it has no Pod yet",
                                      .generation = jint(t->member, "metadata.generation", 0)};
    (void)condition_set(conditions, &unready, clock_wall_us(ctx->clock));
    const bool first = !jget(t->member, "status.conditions");
    return patch_member(
        ctx, p, t, "status",
        JOBJ(J("status", JOBJ(J("pvcName", json_incref(jget(t->pvc, "metadata.name"))),
                              J("pvcUID", json_incref(jget(t->pvc, "metadata.uid"))),
                              J_IF(first, "conditions", json_incref(conditions))))),
        e);
}

static int label_pvc(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    if (need_member(ctx, p, t, e) < 0 || need_pvc(ctx, p, t, e) < 0)
        return -1;
    json_auto_t *want = object_pvc(&p->ident, t->member);
    return pass_relabel(ctx, p, &kube_pvcs, want, t->pvc, e);
}

static int create_pod(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    if (need_member(ctx, p, t, e) < 0 || need_pvc(ctx, p, t, e) < 0)
        return -1;
    if (strcmp(jstr(t->pvc, "metadata.uid", ""), jstr(t->member, "status.pvcUID", "-")) != 0 ||
        jstr(t->pvc, "metadata.deletionTimestamp", NULL))
        return err_set(e, ERR_CONFLICT, 0, "volume of %s is not the one it was started on",
                       pass_member_name(p, t->i));
    const struct seen_member *m = &p->seen.members[t->i];
    /* Without etcd's word, what it said last; the founder votes from its first moment. */
    const bool was_voter = p->members[t->i].view->voter || (m->bootstrap && p->seen.formed == NO);
    const struct pod_input in = {
        .member = t->member,
        .image_repo = p->engine->options->image_repo,
        .formed = p->seen.formed == YES,
        .voter = m->listed == YES ? !m->learner : m->listed == UNKNOWN && was_voter,
    };
    return pass_create(ctx, p, &kube_pods, object_pod(&p->ident, &in), NULL, e);
}

/* A Pod that ended for good, or of a member that sleeps: both by what stands there now. */
static int delete_pod(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    const char *name = pass_member_name(p, t->i);
    json_auto_t *live = NULL;
    if (need_member(ctx, p, t, e) < 0)
        return -1;
    if (kube_get(ctx, p->worker->kube, &kube_pods, p->key->ns, name, &live, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : err_wrap(e, "read Pod %s", name);
    const bool asleep = jbool(t->member, "spec.dormant", false);
    if (strcmp(controller_of(live), jstr(t->member, "metadata.uid", "")) != 0 ||
        !(asleep || pod_ended(jstr(live, "status.phase", ""))))
        return err_set(e, ERR_CONFLICT, 0, "Pod %s is another by now", name);
    const struct kube_delete how = {.uid = jstr(live, "metadata.uid", NULL),
                                    .resource_version =
                                        jstr(live, "metadata.resourceVersion", NULL)};
    if (kube_delete(ctx, p->worker->kube, &kube_pods, p->key->ns, name, &how, e) < 0 &&
        e->code != ERR_NOT_FOUND)
        return err_wrap(e, "delete Pod %s", name);
    return 0;
}

static int label_pod(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    const struct seen_member *m = &p->seen.members[i];
    const bool voter = member_votes(m);
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
    return pass_patch(
        ctx, p, &kube_pods, pass_member_name(p, i), &how,
        JOBJ(J("metadata",
               JOBJ(J("labels", JOBJ(J(API_LABEL_ROLE, voter ? js("voter") : json_null())))))),
        e);
}

static int add_finalizer(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    if (need_member(ctx, p, t, e) < 0)
        return -1;
    json_t *all = JARR();
    json_t *have = jget(t->member, "metadata.finalizers");
    if (have)
        (void)json_array_extend(all, have);
    (void)json_array_append_new(all, js(API_FINALIZER_MEMBER));
    return patch_member(ctx, p, t, NULL, JOBJ(J("metadata", JOBJ(J("finalizers", all)))), e);
}

/* Its owner makes it go with the cluster, and its events reach us. */
static int adopt(const struct ctx *ctx, struct pass *p, struct tended *t, struct err *e)
{
    if (need_member(ctx, p, t, e) < 0)
        return -1;
    if (*controller_of(t->member) != '\0' ||
        strcmp(jstr(t->member, "spec.clusterName", ""), p->key->name) != 0)
        return err_set(e, ERR_CONFLICT, 0, "EtcdMember %s is not ours to adopt",
                       pass_member_name(p, t->i));
    json_t *owners = object_owners(&p->ident);
    json_t *have = jget(t->member, "metadata.ownerReferences");
    if (have)
        (void)json_array_extend(owners, have);
    return patch_member(ctx, p, t, NULL, JOBJ(J("metadata", JOBJ(J("ownerReferences", owners)))),
                        e);
}

static int do_chore(const struct ctx *ctx, struct pass *p, struct tended *t, enum chore chore,
                    struct err *e)
{
    switch (chore) {
    case CHORE_NONE:
        return 0;
    case CHORE_ADD_FINALIZER:
        return add_finalizer(ctx, p, t, e);
    case CHORE_ADOPT:
        return adopt(ctx, p, t, e);
    case CHORE_CREATE_PVC:
        return create_pvc(ctx, p, t, e);
    case CHORE_RECORD_PVC:
        return record_pvc(ctx, p, t, e);
    case CHORE_LABEL_PVC:
        return label_pvc(ctx, p, t, e);
    case CHORE_CREATE_POD:
        return create_pod(ctx, p, t, e);
    case CHORE_DELETE_POD:
        return delete_pod(ctx, p, t, e);
    case CHORE_LABEL_POD:
        return label_pod(ctx, p, t->i, e);
    }
    return err_set(e, ERR_BUG, 0, "chore %d", (int)chore);
}

/* What is true of a member once its chore is done, so that the next one can follow at once. */
static void note_chore(struct seen_member *m, enum chore chore)
{
    switch (chore) {
    case CHORE_ADD_FINALIZER:
        m->finalizer = true;
        break;
    case CHORE_ADOPT:
        m->ownerless = false;
        break;
    case CHORE_CREATE_PVC:
        m->pvc = OURS;
        break;
    case CHORE_RECORD_PVC:
        m->pvc_recorded = true;
        m->pvc_changed = false; /* it is the one that was recorded */
        break;
    case CHORE_LABEL_PVC:
        m->pvc_hidden = false;
        break;
    case CHORE_CREATE_POD:
        m->pod = OURS;
        m->listed = UNKNOWN; /* its label was just set by what is known */
        break;
    case CHORE_DELETE_POD:
        m->pod_terminating = true;
        m->pod_ended = false;
        break;
    case CHORE_LABEL_POD:
        m->pod_labeled_voter = !m->pod_labeled_voter;
        break;
    case CHORE_NONE:
        break;
    }
}

/* All chores of one member, from its volume to its Pod. */
static int do_chores(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(tended_done) struct tended t = {.i = i};
    struct seen_member m = p->seen.members[i]; /* the pass goes on with what it observed */
    for (int n = 0; n < CHORES_MAX; n++) {
        const enum chore chore = member_decide(&p->seen, &m);
        if (chore == CHORE_NONE)
            break;
        if (do_chore(ctx, p, &t, chore, e) < 0)
            return -1;
        note_chore(&m, chore);
    }
    return 0;
}

/* Members whose cluster is gone: the one of that name, read live, has another UID. They have nobody
 * else to let them go, and their Pods stay as long as they do. */
static int release_remains(const struct ctx *ctx, struct pass *p, struct err *e)
{
    unsigned char uid[VIEW_UID_BYTES];
    if (!p->cluster || !uid_parse(p->ident.uid, uid))
        return 0;
    for (size_t i = 0; i < p->member_views.list.n; i++) {
        const struct member_view *v = (const struct member_view *)p->member_views.list.v[i];
        const bool anothers = !uid_is_zero(v->owner_uid) && !uid_equal(v->owner_uid, uid);
        if (anothers && v->deleting && v->finalizer && pass_release(ctx, p, v, e) < 0)
            return -1;
    }
    return 0;
}

int pass_chores(const struct ctx *ctx, struct pass *p, struct err *e)
{
    int rc = release_remains(ctx, p, e);
    for (size_t i = 0; i < p->seen.n_members; i++) {
        struct err one = {0};
        if (do_chores(ctx, p, i, &one) < 0 && rc == 0) {
            *e = one;
            rc = -1;
        }
    }
    return rc;
}
