/* SPDX-License-Identifier: Apache-2.0
 * Steps about one member. Whom a step is about is read live right before it: names are borne again,
 * and what is missing from a view may be there. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/kinds.h"
#include "api/names.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/log.h"
#include "base/mem.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/verdict.h"
#include "etcd/client.h"
#include "etcd/cluster.h"
#include "kube/client.h"

/* --- Who is there --------------------------------------------------------------------------- */

struct live_member {
    char *name, *uid, *version; /* owned; its resourceVersion */
    bool ours, deleting;
};

struct live_members {
    VEC(struct live_member) list; /* with our label, ours or not */
    const char *cluster_uid;
    size_t ours, deleting; /* of ours */
};

static void live_members_done(struct live_members *l)
{
    for (size_t i = 0; i < l->list.n; i++) {
        free(l->list.v[i].name);
        free(l->list.v[i].uid);
        free(l->list.v[i].version);
    }
    vec_done(&l->list);
}

static int take_live(void *arg, json_t *object, struct err *e)
{
    struct live_members *l = arg;
    if (l->list.n >= 4 * (size_t)OBSERVED_MEMBERS_MAX)
        return err_set(e, ERR_TOO_BIG, 0, "more EtcdMembers than a cluster may have");
    const struct live_member m = {
        .name = xstrdup(jstr(object, "metadata.name", "")),
        .uid = xstrdup(jstr(object, "metadata.uid", "")),
        .version = xstrdup(jstr(object, "metadata.resourceVersion", "")),
        .ours = strcmp(controller_of(object), l->cluster_uid) == 0,
        .deleting = jstr(object, "metadata.deletionTimestamp", NULL) != NULL,
    };
    vec_push(&l->list, m);
    l->ours += m.ours;
    l->deleting += m.ours && m.deleting;
    return 0;
}

/* The members as they are now. ERR_NOT_READY: the views lag behind, and so does the decision. */
static int list_live(const struct ctx *ctx, struct pass *p, struct live_members *l, struct err *e)
{
    auto_free char *selector = xasprintf("%s=%s", API_LABEL_CLUSTER, p->key->name);
    const struct kube_list what = {.ns = p->key->ns, .labels = selector};
    size_t deleting = 0;
    for (size_t i = 0; i < p->seen.n_members; i++)
        deleting += p->seen.members[i].deleting;
    if (kube_list(ctx, p->worker->kube, &kind_members, &what, take_live, l, NULL, e) < 0)
        return err_wrap(e, "list members of %s", p->key->name);
    if (l->ours != p->seen.n_members || l->deleting != deleting)
        return err_set(e, ERR_NOT_READY, 0, "members of %s changed meanwhile", p->key->name);
    return 0;
}

static const struct live_member *find_live(const struct live_members *l, const char *name)
{
    for (size_t i = 0; i < l->list.n; i++)
        if (strcmp(l->list.v[i].name, name) == 0)
            return &l->list.v[i];
    return NULL;
}

/* --- Coming --------------------------------------------------------------------------------- */

/* A volume of that name may be left of a member that bore it before and is being collected; such
 * a name is passed over. The seed's is not: it must be the same for everybody, always. */
static int free_name(const struct ctx *ctx, struct pass *p, const struct live_members *live,
                     bool seed, char out[API_MEMBER_NAME_MAX + 1], struct err *e)
{
    enum { SALTS = 16 };
    const char *uids[4 * OBSERVED_MEMBERS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < live->list.n; i++)
        if (live->list.v[i].ours)
            uids[n++] = live->list.v[i].uid;
    for (unsigned salt = 0; salt < SALTS; salt++) {
        api_member_name(p->key->name, p->ident.uid, uids, n, salt, out);
        if (find_live(live, out))
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
 * and is refused. */
int member_create(const struct ctx *ctx, struct pass *p, bool seed, struct err *e)
{
    AUTO(live_members_done) struct live_members live = {.cluster_uid = p->ident.uid};
    char name[API_MEMBER_NAME_MAX + 1];
    if (list_live(ctx, p, &live, e) < 0 || free_name(ctx, p, &live, seed, name, e) < 0)
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

/* Changes the spec of the very member the pass is about, as it stands now. */
static int patch_spec(const struct ctx *ctx, struct pass *p, size_t i, json_t *take_spec,
                      struct err *e)
{
    json_auto_t *spec = take_spec, *live = NULL;
    if (pass_read_member(ctx, p, i, &live, e) < 0)
        return -1;
    const struct kube_patch how = {
        .type = KUBE_PATCH_MERGE, .resource_version = jstr(live, "metadata.resourceVersion", NULL)};
    return pass_patch(ctx, p, &kind_members, pass_member_name(p, i), &how,
                      JOBJ(J("spec", json_incref(spec))), e);
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
    return patch_spec(ctx, p, i, JOBJ(J("initialCluster", js(buf_cstr(&initial)))), e);
}

/* Each voter judges by its own connections whether it has been in touch with a majority for long
 * enough, so one may take what another refuses. A refusal is certain: nothing was done. */
static int ask_to_add(const struct ctx *ctx, struct pass *p, size_t i, uint64_t *out_id,
                      struct etcd_members *out, struct err *e)
{
    size_t voters[OBSERVED_MEMBERS_MAX];
    const size_t n = pass_askable(p, i, voters);
    struct ctx limited;
    int rc = err_set(e, ERR_UNAVAILABLE, 0, "no member of %s has an address", p->key->name);
    for (size_t k = 0; k < n; k++) {
        AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
        *e = (struct err){0};
        rc = pass_dial_one(ctx, p, voters[k], &c, e);
        if (rc == 0 && pass_begin_change(ctx, p, &limited, e) < 0)
            return -1;
        if (rc == 0)
            rc = etcd_member_add(&limited, c, p->members[i].peer_url, true, out_id, out, e);
        if (rc == 0 || (e->code != ERR_NOT_READY && e->code != ERR_UNAVAILABLE))
            break;
    }
    return rc;
}

int member_add_learner(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(etcd_members_done) struct etcd_members list = {0};
    uint64_t id = 0;
    if (ask_to_add(ctx, p, i, &id, &list, e) < 0)
        return err_wrap(e, "add %s to etcd", pass_member_name(p, i));
    log_info(ctx->log, "learner added", KV("member", pass_member_name(p, i)), KV_HEX("id", id));
    return write_initial_cluster(ctx, p, i, &list, e);
}

int member_complete(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
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

/* From its first vote on, a member may come back only on the disk it voted with: its ID is on
 * record before, so that its next Pod starts with nobody else in --initial-cluster. */
int member_promote(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
    struct ctx limited;
    if (!p->seen.members[i].id_recorded && report_member(ctx, p, i, e) < 0)
        return -1;
    if (pass_dial(ctx, p, i, &c, e) < 0 || pass_begin_change(ctx, p, &limited, e) < 0)
        return -1;
    if (etcd_member_promote(&limited, c, p->seen.members[i].id, e) < 0)
        return err_wrap(e, "promote %s", pass_member_name(p, i));
    log_info(ctx->log, "learner promoted", KV("member", pass_member_name(p, i)),
             KV_HEX("id", p->seen.members[i].id));
    return 0;
}

int member_set_dormant(const struct ctx *ctx, struct pass *p, size_t i, bool dormant, struct err *e)
{
    return patch_spec(ctx, p, i, JOBJ(J("dormant", dormant ? jb(true) : json_null())), e);
}

/* --- Going ---------------------------------------------------------------------------------- */

/* That etcd does not list it, by its own word now. */
static int check_left_etcd(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    pass_ask(ctx, p);
    if (p->seen.quorum == YES && p->seen.unmanaged == 0 && p->seen.members[i].listed == NO)
        return 0;
    return err_set(e, ERR_NOT_READY, 0, "%s may be part of etcd", pass_member_name(p, i));
}

int member_delete(const struct ctx *ctx, struct pass *p, const struct plan *plan, struct err *e)
{
    AUTO(live_members_done) struct live_members live = {.cluster_uid = p->ident.uid};
    const size_t i = plan->member;
    const char *name = pass_member_name(p, i);
    unsigned char uid[VIEW_UID_BYTES];
    if (list_live(ctx, p, &live, e) < 0)
        return -1;
    const struct live_member *m = find_live(&live, name);
    if (!m || !uid_parse(m->uid, uid) || !uid_equal(uid, p->members[i].view->head.uid))
        return err_set(e, ERR_CONFLICT, 0, "EtcdMember %s is another by now", name);
    if (strcmp(plan->reason, "LeftEtcd") == 0 && check_left_etcd(ctx, p, i, e) < 0)
        return -1;
    if (p->seen.members[i].listed == YES && pass_gate(ctx, p, i, e) < 0)
        return -1;
    const struct kube_delete how = {.uid = m->uid, .resource_version = m->version};
    if (kube_delete(ctx, p->worker->kube, &kind_members, p->key->ns, name, &how, e) < 0 &&
        e->code != ERR_NOT_FOUND)
        return err_wrap(e, "delete EtcdMember %s", name);
    log_info(ctx->log, "member to be removed", KV("member", name));
    return 0;
}

/* Whoever etcd lists under the member's address must be the member that is to go: an earlier or a
 * later one of that name has another ID. */
static int check_identity(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    json_auto_t *live = NULL;
    char id[17];
    if (pass_read_member(ctx, p, i, &live, e) < 0)
        return -1;
    (void)snprintf(id, sizeof(id), "%016" PRIx64, p->seen.members[i].id);
    const char *recorded = jstr(live, "status.memberID", "");
    if (jstr(live, "metadata.deletionTimestamp", NULL) &&
        (*recorded == '\0' || strcmp(recorded, id) == 0))
        return 0;
    return err_set(e, ERR_CONFLICT, 0, "EtcdMember %s is not the one to be removed",
                   pass_member_name(p, i));
}

int member_remove(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
    struct ctx limited;
    if (pass_gate(ctx, p, i, e) < 0 || check_identity(ctx, p, i, e) < 0)
        return -1;
    if (pass_dial(ctx, p, i, &c, e) < 0 || pass_begin_change(ctx, p, &limited, e) < 0)
        return -1;
    /* "Not found" comes from a verified cluster and means: already gone. */
    if (etcd_member_remove(&limited, c, p->seen.members[i].id, e) < 0 && e->code != ERR_NOT_FOUND)
        return err_wrap(e, "remove %s from etcd", pass_member_name(p, i));
    log_info(ctx->log, "member removed", KV("member", pass_member_name(p, i)),
             KV_HEX("id", p->seen.members[i].id));
    return pass_release(ctx, p, p->members[i].view, e);
}
