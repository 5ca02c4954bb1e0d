/* SPDX-License-Identifier: Apache-2.0
 * What a person sees: status of cluster and members, budget, events, metrics. Runs in every pass,
 * also in one that failed or only waited, and writes only what differs. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/kinds.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "control/cluster/engine_internal.h"
#include "control/runtime/event.h"
#include "kube/client.h"
#include "kube/condition.h"

/* --- Facts about the whole ------------------------------------------------------------------ */

struct sums {
    size_t running, ready, voters, healthy_voters, sick_voters;
};

static bool member_ready(const struct seen_member *m)
{
    return m->pod == OURS && m->pod_ready == YES && m->listed == YES;
}

static struct sums sum_up(const struct pass *p)
{
    struct sums n = {0};
    for (size_t i = 0; i < p->seen.n_members; i++) {
        const struct seen_member *m = &p->seen.members[i];
        const bool voter = m->listed == YES && !m->learner;
        n.voters += voter;
        n.healthy_voters += voter && m->healthy == YES;
        n.sick_voters += voter && m->healthy == NO;
        if (m->deleting || m->dormant)
            continue;
        n.running++;
        n.ready += member_ready(m);
    }
    return n;
}

static bool is_parked(const struct plan *plan)
{
    return strcmp(plan->reason, "BootstrapFailed") == 0 ||
           strcmp(plan->reason, "DeadlineExceeded") == 0;
}

/* --- Conditions ----------------------------------------------------------------------------- */

struct verdict {
    const char *status, *reason;
    char message[600];
};

static void set_verdict(struct verdict *v, const char *status, const char *reason, const char *fmt,
                        ...) FORMAT(4, 5);
static void set_verdict(struct verdict *v, const char *status, const char *reason, const char *fmt,
                        ...)
{
    v->status = status;
    v->reason = reason;
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(v->message, sizeof(v->message), fmt, ap);
    va_end(ap);
}

static void judge_paused(const struct pass *p, struct verdict *v)
{
    for (size_t i = 0; i < p->seen.n_members; i++) {
        if (p->seen.members[i].dormant) {
            set_verdict(v, "False", "Paused",
                        "paused; the data is preserved in PersistentVolumeClaim data-%s",
                        p->seen.members[i].name);
            return;
        }
    }
    set_verdict(v, "False", "Paused", "%s",
                p->seen.n_members > 0 ? "pausing: members are being removed"
                                      : "paused before anything was written");
}

/* That nobody listens yet is how every start begins, and worth no write. */
static void judge_seed(const struct pass *p, const struct plan *plan, struct verdict *v)
{
    const bool worth_it = p->health.err.code != ERR_NONE && p->health.err.code != ERR_UNAVAILABLE;
    set_verdict(v, "False", plan->reason, "the first member does not answer yet%s%s",
                worth_it ? ": " : "", worth_it ? p->health.err.text : "");
}

/* Status NULL: leave the condition as it is. */
static void judge_available(const struct pass *p, const struct plan *plan, const struct sums *n,
                            struct verdict *v)
{
    const struct observed *s = &p->seen;
    if (s->unsupported)
        set_verdict(v, "False", "Unsupported",
                    "%s is not supported by this release; nothing is done to this cluster",
                    s->unsupported);
    else if (is_parked(plan) && n->ready < (size_t)s->want)
        set_verdict(v, "False", plan->reason,
                    "%zu of %d members are ready, and the time for it is over; edit the spec, or "
                    "move status.progressDeadline",
                    n->ready, s->want);
    else if (s->want == 0)
        judge_paused(p, v);
    else if (s->formed != YES)
        judge_seed(p, plan, v);
    else if (s->quorum == NO)
        set_verdict(v, "False", "QuorumLost", "%zu/%d members ready: quorum lost", n->ready,
                    s->want);
    else if (s->quorum == YES && n->ready == (size_t)s->want)
        set_verdict(v, "True", "QuorumHealthy", "all %d members are ready", s->want);
    else if (s->quorum == YES)
        set_verdict(v, "True", "QuorumAvailable", "%zu/%d members are ready", n->ready, s->want);
}

static void judge_progressing(const struct pass *p, const struct plan *plan, const struct sums *n,
                              const struct err *failed, struct verdict *v)
{
    const struct observed *s = &p->seen;
    if (s->unsupported)
        return;
    if (failed)
        set_verdict(v, "True", plan->reason, "%s", failed->text);
    else if (is_parked(plan))
        set_verdict(v, "False", plan->reason, "given up after the progress deadline");
    else if (cluster_complete(s) && s->want == 0)
        set_verdict(v, "False", "Paused", "%s", "");
    else if (cluster_complete(s))
        set_verdict(v, "False", "Reconciled", "the target is reached");
    else if (p->refused)
        set_verdict(v, "True", p->refused, "%s", p->refused_text);
    else if (s->version_refused && n->running < (size_t)s->want)
        set_verdict(v, "True", "VersionRefused", "no member is added: %s", p->version_err.text);
    else if (s->formed == YES && n->running < (size_t)s->want)
        set_verdict(v, "True", "ScalingUp", "%zu of %d members", n->running, s->want);
    else if (s->formed == YES && n->running > (size_t)s->want)
        set_verdict(v, "True", "ScalingDown", "%zu members, %d wanted", n->running, s->want);
    else
        set_verdict(v, "True", plan->reason, "%zu of %d members are ready", n->ready, s->want);
}

static void judge_degraded(const struct pass *p, const struct sums *n, struct verdict *v)
{
    const struct observed *s = &p->seen;
    if (s->unsupported || s->formed != YES)
        return;
    if (s->want == 0)
        set_verdict(v, "False", "Paused", "%s", "");
    else if (s->quorum == NO)
        set_verdict(v, "True", "QuorumLost", "%s", "");
    else if (s->quorum == YES && n->sick_voters > 0)
        set_verdict(v, "True", "MembersUnhealthy", "%zu of %zu voters are not healthy",
                    n->sick_voters, n->voters);
    else if (s->quorum == YES)
        set_verdict(v, "False", "QuorumHealthy", "%s", "");
}

static void apply(json_t *conditions, const char *type, const struct verdict *v, int64_t generation,
                  int64_t now_us)
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

/* --- Cluster status -------------------------------------------------------------------------- */

static const char *phase_of(const struct pass *p, const struct plan *plan, const struct sums *n)
{
    const struct observed *s = &p->seen;
    if (s->unsupported)
        return "Unsupported";
    if (s->deleting)
        return "Deleting";
    if (is_parked(plan))
        return "Failed";
    if (s->formed != YES)
        return s->want == 0 ? "Paused" : "Bootstrapping";
    if (s->want == 0)
        return cluster_complete(s) ? "Paused" : "Pausing";
    if (s->quorum == NO)
        return n->running == 0 ? "Resuming" : "QuorumLost";
    if (n->running != (size_t)s->want)
        return "Scaling";
    return cluster_complete(s) ? "Running" : "Degraded";
}

/* What the status said of a member's health before; no verdict leaves it standing. */
static bool was_healthy(const struct pass *p, const char *name, bool *out)
{
    size_t i = 0;
    const json_t *member = NULL;
    json_array_foreach(jget(p->cluster, "status.members"), i, member)
    {
        if (strcmp(jstr(member, "name", ""), name) == 0 && jget(member, "healthy")) {
            *out = jbool(member, "healthy", false);
            return true;
        }
    }
    return false;
}

static json_t *members_of(const struct pass *p)
{
    json_t *list = JARR();
    for (size_t i = 0; i < p->seen.n_members; i++) {
        const struct seen_member *m = &p->seen.members[i];
        const char *role = m->learner ? "Learner" : m->leads ? "Leader" : "Voter";
        const char *version = p->health.members[i].version;
        bool healthy = m->healthy == YES;
        const bool known = m->healthy != UNKNOWN || was_healthy(p, m->name, &healthy);
        (void)json_array_append_new(
            list,
            JOBJ(J("name", js(m->name)), J_IF(m->listed == YES, "id", jsf("%016" PRIx64, m->id)),
                 J_IF(m->listed == YES, "role", js(role)), J_IF(known, "healthy", jb(healthy)),
                 J_IF(*version, "version", js(version))));
    }
    return list;
}

static const char *leader_name(const struct pass *p)
{
    for (size_t i = 0; i < p->seen.n_members; i++)
        if (p->seen.members[i].leads)
            return p->seen.members[i].name;
    return NULL;
}

/* The status as it should be: what is there, with our fields set. */
static json_t *wanted_status(const struct ctx *ctx, const struct pass *p, const struct plan *plan,
                             const struct err *failed)
{
    const struct sums n = sum_up(p);
    const int64_t now_us = clock_wall_us(ctx->clock);
    const int64_t generation = jint(p->cluster, "metadata.generation", 0);
    json_t *now = jget(p->cluster, "status");
    json_t *status = now ? json_deep_copy(now) : JOBJ();
    json_t *conditions = json_object_get(status, "conditions");
    if (!conditions) {
        conditions = JARR();
        (void)json_object_set_new(status, "conditions", conditions);
    }
    struct verdict available = {0}, progressing = {0}, degraded = {0};
    judge_available(p, plan, &n, &available);
    judge_progressing(p, plan, &n, failed, &progressing);
    judge_degraded(p, &n, &degraded);
    apply(conditions, "Available", &available, generation, now_us);
    apply(conditions, "Progressing", &progressing, generation, now_us);
    apply(conditions, "Degraded", &degraded, generation, now_us);
    (void)json_object_set_new(status, "phase", js(phase_of(p, plan, &n)));
    if (p->seen.unsupported)
        return status;
    (void)json_object_set_new(status, "readyMembers", ji((int64_t)n.ready));
    (void)json_object_set_new(status, "selector", jsf("%s=%s", API_LABEL_CLUSTER, p->key->name));
    (void)json_object_set_new(status, "brokenMembers", ji(0));
    if (p->seen.quorum != UNKNOWN || p->seen.want == 0) {
        const char *leader = leader_name(p);
        (void)json_object_set_new(status, "members", members_of(p));
        if (leader)
            (void)json_object_set_new(status, "leader", js(leader));
        else
            (void)json_object_del(status, "leader"); /* fails if it is not there: as wanted */
    }
    if (cluster_complete(&p->seen))
        (void)json_object_del(status, "progressDeadline");
    return status;
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

static int write_status(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
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

/* --- Member status ---------------------------------------------------------------------------- */

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
        set_verdict(v, "False", "Paused", "the cluster is paused; the volume is kept");
    else if (member_volume_lost(m))
        set_verdict(v, "False", "VolumeLost", "the volume it was started on is gone");
    else if (m->pod == FOREIGN)
        set_verdict(v, "False", "PodNotReady", "a Pod of that name belongs to somebody else");
    else if (m->pod != OURS || m->pod_ready != YES)
        set_verdict(v, "False", "PodNotReady", "%s",
                    m->pod == OURS ? "its Pod is not ready" : "it has no Pod");
    else if (!has_joined(p, i) && !m->id_recorded)
        set_verdict(v, "False", "DiscoveringMemberID", "etcd does not list it yet");
    else
        set_verdict(v, "True", "PodReady", "%s", "");
}

/* Whether the view already says what the status should say, so that nothing needs to be read. */
static bool member_up_to_date(const struct pass *p, size_t i, const struct verdict *v)
{
    const struct seen_member *m = &p->seen.members[i];
    const struct member_view *view = p->members[i].view;
    const struct pod_view *pod = p->members[i].pod;
    const char *version = p->health.members[i].version;
    const bool voter = m->listed == YES && !m->learner;
    if (strcmp(istr_text(view->ready), v->reason) != 0)
        return false;
    if ((has_joined(p, i) && view->member_id != m->id) ||
        (m->listed == YES && view->voter != voter))
        return false;
    /* Which Pod it is gets written with the next change: a new one is not ready at first. */
    if (m->pod == OURS && !m->dormant && m->pod_ready == YES &&
        !uid_equal(view->pod_uid, pod->head.uid))
        return false;
    if (m->dormant && !uid_is_zero(view->pod_uid))
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

static int report_member(const struct ctx *ctx, struct pass *p, size_t i, struct err *e)
{
    const struct seen_member *m = &p->seen.members[i];
    const char *name = m->name, *version = p->health.members[i].version;
    struct verdict ready = {0};
    json_auto_t *live = NULL;
    judge_member(p, i, &ready);
    if (member_up_to_date(p, i, &ready))
        return 0;
    if (kube_get(ctx, p->worker->kube, &kind_members, p->key->ns, name, &live, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : err_wrap(e, "read EtcdMember %s", name);
    json_t *now = jget(live, "status");
    json_auto_t *status = now ? json_deep_copy(now) : JOBJ();
    json_t *conditions = json_object_get(status, "conditions");
    if (!conditions) {
        conditions = JARR();
        (void)json_object_set_new(status, "conditions", conditions);
    }
    apply(conditions, "Ready", &ready, jint(live, "metadata.generation", 0),
          clock_wall_us(ctx->clock));
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
    return write_status(ctx, p, &kind_members, live, status, e);
}

/* --- Budget ----------------------------------------------------------------------------------- */

static int report_budget(const struct ctx *ctx, struct pass *p, struct err *e)
{
    if (p->seen.quorum != YES || p->seen.unsupported)
        return 0; /* how many voters there are is not known: leave it as it is */
    const int min = object_pdb_min_available(cluster_voters(&p->seen), p->seen.want);
    const struct view *view = view_get(p->engine->pdbs, p->key->ns, p->key->name);
    const int64_t have = view ? ((const struct pdb_view *)view)->min_available : -2;
    view_unref(view);
    if (have == min || (min == 0 && have == -2))
        return 0;
    int rc = 0;
    if (have == -2) {
        json_auto_t *pdb = object_pdb(&p->ident, min);
        rc = kube_create(ctx, p->worker->kube, &kube_pdbs, p->key->ns, pdb, NULL, e);
        if (rc < 0 && e->code == ERR_EXISTS)
            rc = 0; /* the view lags; the next pass compares */
    } else {
        json_auto_t *body =
            JOBJ(J("spec", JOBJ(J("minAvailable", ji(min)), J("maxUnavailable", json_null()))));
        const struct kube_patch how = {.type = KUBE_PATCH_MERGE};
        rc = kube_patch(ctx, p->worker->kube, &kube_pdbs, p->key->ns, p->key->name, &how, body,
                        NULL, e);
    }
    return rc < 0 ? err_wrap(e, "PodDisruptionBudget %s", p->key->name) : 0;
}

/* --- Events, metrics ---------------------------------------------------------------------------
 */

static void report_event(struct pass *p, const struct plan *plan)
{
    static const struct {
        enum step step;
        const char *action, *text;
    } told[] = {
        {STEP_CREATE_SEED, "Bootstrap", "the first member is being created"},
        {STEP_LATCH_ID, "Bootstrap", "the cluster has formed"},
        {STEP_PROMOTE, "Promote", "joined as a voter"},
        {STEP_REMOVE, "Remove", "has left the cluster"},
        {STEP_DELETE_MEMBER, "Remove", "is being removed"},
        {STEP_SLEEP, "Pause", "goes to sleep; its volume is kept"},
        {STEP_WAKE, "Resume", "is woken"},
    };
    for (size_t i = 0; i < COUNT_OF(told); i++) {
        if (told[i].step != plan->step)
            continue;
        const char *member =
            plan->member != PLAN_NO_MEMBER ? p->seen.members[plan->member].name : NULL;
        const struct event_subject about = {.kind = &kind_clusters,
                                            .ns = p->key->ns,
                                            .name = p->key->name,
                                            .uid = p->ident.uid,
                                            .related_kind = member ? &kind_members : NULL,
                                            .related = member};
        char note[EVENT_NOTE_MAX];
        (void)snprintf(note, sizeof(note), "%s%s%s", member ? member : "", member ? " " : "",
                       told[i].text);
        if (strcmp(plan->reason, "VolumeLost") == 0)
            event_warning(p->worker->events, &about, plan->reason, told[i].action, note);
        else
            event_normal(p->worker->events, &about, plan->reason, told[i].action, note);
    }
}

static void report_metrics(struct pass *p)
{
    const struct engine *g = p->engine;
    const char *ns = p->key->ns, *name = p->key->name;
    if (!p->cluster) {
        static const char *const states[] = {"ready", "unready"};
        for (size_t i = 0; i < COUNT_OF(states); i++)
            metric_drop(g->members_by_state, ns, name, states[i]);
        metric_drop(g->has_leader, ns, name);
        metric_drop(g->quorum_margin, ns, name);
        metric_drop(g->db_bytes, ns, name);
        return;
    }
    const struct sums n = sum_up(p);
    metric_set(g->members_by_state, (double)n.ready, ns, name, "ready");
    metric_set(g->members_by_state, (double)(n.running - n.ready), ns, name, "unready");
    metric_set(g->has_leader, leader_name(p) ? 1 : 0, ns, name);
    const size_t quorum = n.voters / 2 + 1;
    metric_set(g->quorum_margin, (double)n.healthy_voters - (double)quorum, ns, name);
}

int pass_report(const struct ctx *ctx, struct pass *p, const struct plan *plan,
                const struct err *failed, struct err *e)
{
    report_metrics(p);
    if (!p->cluster || p->seen.exists != YES || p->seen.deleting)
        return 0;
    if (!failed)
        report_event(p, plan);
    /* What was observed before a step is the past; the pass that follows at once reports. */
    if (!failed && plan->step != STEP_WAIT)
        return 0;
    int rc = 0;
    for (size_t i = 0; i < p->seen.n_members && !p->seen.unsupported; i++)
        if (!p->seen.members[i].deleting && report_member(ctx, p, i, e) < 0)
            rc = -1;
    if (report_budget(ctx, p, e) < 0)
        rc = -1;
    json_auto_t *status = wanted_status(ctx, p, plan, failed);
    if (write_status(ctx, p, &kind_clusters, p->cluster, status, e) < 0)
        rc = -1;
    return rc;
}
