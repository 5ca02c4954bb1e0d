/* SPDX-License-Identifier: Apache-2.0
 * The cluster is read live; members, Pods, volumes and Services come from the views. What cannot
 * be learned stays unknown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/kinds.h"
#include "api/names.h"
#include "api/validate.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/target.h"
#include "etcd/version.h"
#include "kube/client.h"

static uint64_t hex_u64(const char *text)
{
    char *end = NULL;
    const unsigned long long value = *text ? strtoull(text, &end, 16) : 0;
    return end && *end == '\0' ? value : 0;
}

static void observe_cluster(struct pass *p)
{
    struct observed *s = &p->seen;
    struct err ignored = {0};
    int64_t deadline_us = 0;
    s->exists = YES;
    s->deleting = jstr(p->cluster, "metadata.deletionTimestamp", NULL) != NULL;
    s->unsupported = api_unsupported(API_CLUSTER, p->cluster);
    s->bad_name = api_cluster_name_problem((struct str){p->key->name, strlen(p->key->name)});
    p->target = jget(p->cluster, "status.observed");
    s->target_latched = p->target && *jstr(p->cluster, "status.clusterToken", "") != '\0';
    s->spec_changed = s->target_latched && target_differs(p->cluster);
    s->want = (int32_t)jint(p->target, "replicas", 0);
    if (time_parse(str_c(jstr(p->cluster, "status.progressDeadline", "")), &deadline_us,
                   &ignored) == 0)
        s->deadline_s = deadline_us / 1000000;
    const char *id = jstr(p->cluster, "status.clusterID", "");
    p->cluster_id = hex_u64(id);
    s->formed = p->cluster_id != 0 ? YES : *id == '\0' ? NO : UNKNOWN; /* it was read live */
    p->ident = (struct cluster_ident){
        .ns = p->key->ns,
        .name = p->key->name,
        .uid = jstr(p->cluster, "metadata.uid", ""),
        .metadata = jget(p->target ? p->target : jget(p->cluster, "spec"), "additionalMetadata")};
}

static const struct view *find_view(const struct views *views, const char *name)
{
    for (size_t i = 0; i < views->list.n; i++)
        if (strcmp(views->list.v[i]->name, name) == 0)
            return views->list.v[i];
    return NULL;
}

static void observe_services(struct pass *p)
{
    char client_name[KUBE_NAME_MAX + 1];
    unsigned char uid[VIEW_UID_BYTES];
    (void)snprintf(client_name, sizeof(client_name), "%.200s-client", p->key->name);
    const struct service_view *headless = NULL, *client = NULL;
    headless = (const struct service_view *)find_view(&p->service_views, p->key->name);
    client = (const struct service_view *)find_view(&p->service_views, client_name);
    (void)uid_parse(p->ident.uid, uid); /* zero matches nobody's controller */
    p->seen.service_foreign = (headless && !uid_equal(headless->owner_uid, uid)) ||
                              (client && !uid_equal(client->owner_uid, uid));
    p->seen.peer_service = headless && headless->headless_ok ? YES : NO;
    p->seen.client_service = client && client->client_ok ? YES : NO;
}

static enum presence presence_of(const unsigned char *owner_uid, const unsigned char *uid)
{
    if (!owner_uid)
        return ABSENT; /* from the views; act looks again before it creates anything */
    return uid_equal(owner_uid, uid) ? OURS : FOREIGN;
}

static void observe_member(struct pass *p, const struct member_view *v)
{
    struct seen_member *m = &p->seen.members[p->seen.n_members];
    struct pass_member *own = &p->members[p->seen.n_members++];
    char claim[KUBE_NAME_MAX + 1];
    (void)snprintf(claim, sizeof(claim), "data-%.200s", v->head.name);
    *own = (struct pass_member){
        .view = v,
        .pod = (const struct pod_view *)find_view(&p->pod_views, v->head.name),
        .pvc = (const struct pvc_view *)find_view(&p->pvc_views, claim),
    };
    const char *service = v->service ? istr_text(v->service) : p->key->name;
    auto_buf struct buf peer = BUF_INIT(ENGINE_TEXT_MAX), client = BUF_INIT(ENGINE_TEXT_MAX);
    api_peer_url(&peer, "http", v->head.name, service, p->key->ns);
    api_client_url(&client, "http", v->head.name, service, p->key->ns);
    own->peer_url = buf_take(&peer);
    own->client_url = buf_take(&client);

    *m = (struct seen_member){
        .created_s = v->created_s,
        .deleting = v->deleting,
        .finalizer = v->finalizer,
        .ownerless = p->cluster && uid_is_zero(v->owner_uid),
        .bootstrap = v->bootstrap,
        .dormant = v->dormant,
        .pending = v->pending,
        .id_recorded = v->member_id != 0,
        .pod = presence_of(own->pod ? own->pod->owner_uid : NULL, v->head.uid),
        .pod_terminating = own->pod && own->pod->terminating,
        .pod_ready = own->pod ? own->pod->ready : NO,
        .pod_labeled_voter = own->pod && own->pod->labeled_voter,
        .pod_ended = own->pod && own->pod->ended,
        .pvc = presence_of(own->pvc ? own->pvc->owner_uid : NULL, v->head.uid),
        .pvc_recorded = !uid_is_zero(v->pvc_uid),
        .pvc_changed = own->pvc && !uid_equal(own->pvc->head.uid, v->pvc_uid),
    };
    (void)snprintf(m->name, sizeof(m->name), "%s", v->head.name);
}

static int by_name(const void *a, const void *b)
{
    const struct view *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

/* A member that nobody controls is this cluster's if it has its token, which no other has. */
static bool is_member(const struct pass *p, const struct member_view *v, const unsigned char *uid)
{
    const char *token = jstr(p->cluster, "status.clusterToken", "");
    if (!uid_is_zero(v->owner_uid))
        return uid_equal(v->owner_uid, uid);
    return *token && v->token && strcmp(istr_text(v->token), token) == 0;
}

/* Members whose controller is this cluster. Those of a cluster that is gone belong to nobody, and
 * are let go. */
static void observe_members(struct pass *p)
{
    unsigned char uid[VIEW_UID_BYTES] = {0};
    if (p->cluster)
        (void)uid_parse(p->ident.uid, uid);
    p->seen.members_known = YES;
    /* Always in the same order, so that what is reported of them is the same after a restart. */
    if (p->member_views.list.n > 1)
        qsort(p->member_views.list.v, p->member_views.list.n, sizeof(*p->member_views.list.v),
              by_name);
    for (size_t i = 0; i < p->member_views.list.n; i++) {
        const struct member_view *v = (const struct member_view *)p->member_views.list.v[i];
        if (p->cluster && !is_member(p, v, uid)) {
            p->seen.remains++;
            continue;
        }
        if (p->seen.n_members == OBSERVED_MEMBERS_MAX) {
            p->seen.members_known = UNKNOWN;
            p->seen.crowded = true;
            return;
        }
        observe_member(p, v);
    }
}

/* A volume that is missing from the views, or another there, need not be so: only the server's word
 * makes it lost. */
static void confirm_volumes(const struct ctx *ctx, struct pass *p)
{
    for (size_t i = 0; i < p->seen.n_members; i++) {
        struct seen_member *m = &p->seen.members[i];
        if (!member_volume_lost(m))
            continue;
        json_auto_t *live = NULL;
        struct err e = {0};
        unsigned char uid[VIEW_UID_BYTES], owner[VIEW_UID_BYTES];
        auto_free char *claim = xasprintf("data-%s", m->name);
        if (kube_get(ctx, p->worker->kube, &kube_pvcs, p->key->ns, claim, &live, &e) < 0) {
            m->pvc = e.code == ERR_NOT_FOUND ? ABSENT : PRESENCE_UNKNOWN;
            continue;
        }
        (void)uid_parse(jstr(live, "metadata.uid", ""), uid);
        (void)uid_parse(controller_of(live), owner);
        m->pvc = presence_of(owner, p->members[i].view->head.uid);
        m->pvc_changed = !uid_equal(uid, p->members[i].view->pvc_uid);
        m->pvc_hidden = !jlabel(live, API_LABEL_CLUSTER);
    }
}

/* Pods that carry our label and belong to no member of ours. */
static void observe_remains(struct pass *p)
{
    for (size_t i = 0; i < p->pod_views.list.n; i++) {
        const struct pod_view *pod = (const struct pod_view *)p->pod_views.list.v[i];
        bool ours = false;
        for (size_t k = 0; k < p->seen.n_members; k++)
            ours = ours || uid_equal(pod->owner_uid, p->members[k].view->head.uid);
        p->seen.remains += !ours;
    }
}

/* A new member's binary may not be older than the cluster, nor more than one minor newer. */
static void observe_version(struct pass *p)
{
    struct etcd_version lowest = {0}, each, wanted;
    struct err *e = &p->version_err;
    struct err ignored = {0};
    bool any = false;
    for (size_t i = 0; i < p->health.n; i++) {
        if (etcd_version_parse(str_c(pass_member_version(p, i)), &each, &ignored) < 0)
            continue;
        if (!any || etcd_version_cmp(each, lowest) < 0)
            lowest = each;
        any = true;
    }
    if (!any)
        return;
    p->seen.version_refused =
        etcd_version_parse(str_c(jstr(p->target, "version", "")), &wanted, e) < 0 ||
        etcd_join_check(wanted, lowest, NULL, e) < 0;
}

void pass_observe(const struct ctx *ctx, struct pass *p, struct err *e)
{
    struct engine *g = p->engine;
    char owner[OBJKEY_TEXT_MAX];
    (void)objkey_text(p->key, owner);
    if (kube_get(ctx, p->worker->kube, &kind_clusters, p->key->ns, p->key->name, &p->cluster, e) <
        0) {
        if (e->code != ERR_NOT_FOUND)
            return; /* exists stays unknown */
        p->seen.exists = NO;
        *e = (struct err){0};
    }
    view_list_owner(g->members, owner, &p->member_views);
    view_list_owner(g->pods, owner, &p->pod_views);
    view_list_owner(g->pvcs, owner, &p->pvc_views);
    view_list_owner(g->services, owner, &p->service_views);
    if (p->cluster) {
        observe_cluster(p);
        observe_services(p);
    }
    observe_members(p);
    observe_remains(p);
    confirm_volumes(ctx, p);
    if (p->cluster && !p->seen.deleting) {
        pass_look(p);
        observe_version(p);
    } else {
        prober_forget(g->prober, p->key); /* whatever etcd says, everything goes */
    }
}

void pass_done(struct pass *p)
{
    for (size_t i = 0; i < p->seen.n_members; i++) {
        free(p->members[i].peer_url);
        free(p->members[i].client_url);
    }
    views_done(&p->member_views);
    views_done(&p->pod_views);
    views_done(&p->pvc_views);
    views_done(&p->service_views);
    json_decref(p->cluster);
}
