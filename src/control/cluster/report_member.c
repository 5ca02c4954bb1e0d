/* SPDX-License-Identifier: Apache-2.0
 * What a person sees of one member. */
#include <inttypes.h>
#include <string.h>

#include "api/kinds.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "control/cluster/engine_internal.h"
#include "control/cluster/verdict.h"
#include "control/runtime/watch.h"
#include "kube/client.h"

/* The member ID is recorded once the member itself has answered with it: from then on it has a log
 * of its own, and its Pod is started with nobody else in --initial-cluster. */
static bool has_joined(const struct pass *p, size_t i)
{
    const struct seen_member *m = &p->seen.members[i];
    return m->listed == YES && p->health.members[i].id == m->id;
}

static void judge_member(const struct pass *p, size_t i, struct verdict *v)
{
    const struct seen_member *m = &p->seen.members[i];
    if (m->dormant)
        verdict_set(v, "False", "Paused", "the cluster is paused; the volume is kept");
    else if (member_volume_lost(m))
        verdict_set(v, "False", "VolumeLost", "the volume it was started on is gone");
    else if (m->pod == FOREIGN)
        verdict_set(v, "False", "PodNotReady", "a Pod of that name belongs to somebody else");
    else if (m->pvc == FOREIGN)
        verdict_set(v, "False", "PodNotReady",
                    "PersistentVolumeClaim data-%s belongs to somebody else", m->name);
    else if (m->pod != OURS)
        verdict_set(v, "False", "PodNotReady", "it has no Pod");
    else if (m->pod_ready != YES)
        verdict_set(v, "False", "PodNotReady", "its Pod is not ready; phase %s",
                    p->members[i].pod->phase ? istr_text(p->members[i].pod->phase) : "unknown");
    else if (!has_joined(p, i) && !m->id_recorded)
        verdict_set(v, "False", "DiscoveringMemberID", "etcd does not list it yet%s%s",
                    p->health.err.code != ERR_NONE ? ": " : "", p->health.err.text);
    else
        verdict_set(v, "True", "PodReady", "%s", "");
}

/* For information: nothing acts on it. Status NULL while it cannot be said. */
static void judge_version(const struct pass *p, size_t i, const struct verdict *ready,
                          struct verdict *v)
{
    const struct istr *wanted = p->members[i].view->wanted;
    const char *runs = p->health.members[i].version;
    if (strcmp(ready->status, "True") != 0 || !wanted || !*runs)
        return;
    const bool same = strcmp(istr_text(wanted), runs) == 0;
    verdict_set(v, same ? "False" : "True", same ? "VersionMatched" : "VersionMismatch",
                "it runs %s, its spec says %s", runs, istr_text(wanted));
}

enum { SETTLED_MS = 5000 };

/* Whether the view already says what the status should say, so that nothing needs to be read. */
static bool up_to_date(const struct pass *p, size_t i, const struct member_view *view,
                       const struct verdict *v, const struct verdict *drift)
{
    const struct seen_member *m = &p->seen.members[i];
    const struct pod_view *pod = p->members[i].pod;
    const char *version = p->health.members[i].version;
    const bool voter = member_votes(m);
    if (strcmp(istr_text(view->ready), v->reason) != 0)
        return false;
    if (has_joined(p, i) && view->member_id != m->id)
        return false;
    /* That it votes is written together with its readiness, which follows in a moment. */
    if (m->listed == YES && view->voter != voter &&
        (m->pod_ready == YES || p->health.stable_ms >= SETTLED_MS))
        return false;
    /* Which Pod it is gets written with the next change: a new one is not ready at first. */
    if (m->pod == OURS && !m->dormant && m->pod_ready == YES &&
        !uid_equal(view->pod_uid, pod->head.uid))
        return false;
    if (m->dormant && !uid_is_zero(view->pod_uid))
        return false;
    if (drift->status && view->drifted != (strcmp(drift->status, "True") == 0 ? YES : NO))
        return false;
    return !*version || strcmp(istr_text(view->version), version) == 0;
}

static char *uid_print(const unsigned char uid[VIEW_UID_BYTES])
{
    auto_buf struct buf text = BUF_INIT(64);
    for (size_t i = 0; i < VIEW_UID_BYTES; i++)
        buf_addf(&text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uid[i]);
    return buf_take(&text);
}

/* The same of the object itself: the view lags behind what we just wrote. */
static bool live_up_to_date(const struct pass *p, size_t i, const json_t *live,
                            const struct verdict *v, const struct verdict *drift)
{
    struct view *view = NULL;
    struct err ignored = {0};
    if (view_make(&view_members, live, watcher_strings(p->worker->watcher), &view, &ignored) < 0)
        return false;
    const bool same = up_to_date(p, i, (const struct member_view *)view, v, drift);
    view_unref(view);
    return same;
}

int report_member(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    const struct seen_member *m = &p->seen.members[i];
    const char *name = m->name, *version = p->health.members[i].version;
    struct verdict ready = {0}, drift = {0};
    json_auto_t *live = NULL;
    judge_member(p, i, &ready);
    judge_version(p, i, &ready, &drift);
    if (up_to_date(p, i, p->members[i].view, &ready, &drift))
        return 0;
    if (kube_get(ctx, p->worker->kube, &kind_members, p->key->ns, name, &live, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : err_wrap(e, "read EtcdMember %s", name);
    if (live_up_to_date(p, i, live, &ready, &drift))
        return 0;
    json_t *now = jget(live, "status");
    json_auto_t *status = now ? json_deep_copy(now) : JOBJ();
    json_t *conditions = json_object_get(status, "conditions");
    if (!conditions) {
        conditions = JARR();
        (void)json_object_set_new(status, "conditions", conditions);
    }
    const int64_t generation = jint(live, "metadata.generation", 0);
    const int64_t now_us = clock_wall_us(ctx->clock);
    verdict_apply(conditions, "Ready", &ready, generation, now_us);
    verdict_apply(conditions, "VersionDrifted", &drift, generation, now_us);
    if (has_joined(p, i))
        (void)json_object_set_new(status, "memberID", jsf("%016" PRIx64, m->id));
    if (m->listed == YES)
        (void)json_object_set_new(status, "isVoter", jb(!m->learner));
    if (m->pod == OURS && !m->dormant) {
        auto_free char *uid = uid_print(p->members[i].pod->head.uid);
        (void)json_object_set_new(status, "podName", js(name));
        (void)json_object_set_new(status, "podUID", js(uid));
        (void)json_object_set_new(status, "replicas", ji(1));
    } else if (m->dormant) {
        (void)json_object_del(status, "podName");
        (void)json_object_del(status, "podUID");
        (void)json_object_set_new(status, "replicas", ji(0));
    }
    (void)json_object_set_new(
        status, "selector",
        jsf("%s=%s,%s=%s", API_LABEL_CLUSTER, p->key->name, API_LABEL_COMPONENT, name));
    if (*version)
        (void)json_object_set_new(status, "version", js(version));
    return status_write(ctx, p, &kind_members, live, status, e);
}
