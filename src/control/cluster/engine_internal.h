/* SPDX-License-Identifier: Apache-2.0
 * What the stages of a pass share. */
#pragma once
#include "base/err.h"
#include "base/json.h"
#include "base/metric.h"
#include "control/cluster/budget.h"
#include "control/cluster/decide.h"
#include "control/cluster/engine.h"
#include "control/cluster/gate.h"
#include "control/cluster/health.h"
#include "control/cluster/objects.h"
#include "control/cluster/observed.h"
#include "control/cluster/prober.h"
#include "control/cluster/views.h"
#include "control/runtime/manager.h"

enum {
    ENGINE_ETCD_MS = 5000, /* of one change of membership */
    ENGINE_TEXT_MAX = 64 * 1024,
};

struct etcd_client;
struct kube_patch;

struct engine {
    const struct engine_options *options;
    struct prober *prober;
    struct budget *disruptions;
    struct wq *queue; /* while passes run */
    bool crds_checked;
    struct view_set *clusters, *members, *pods, *pvcs, *services, *pdbs;
    struct metric *members_by_state, *has_leader, *quorum_margin, *db_bytes, *steps;
};

/* One member, beyond what decide looks at. Views are references of the pass. */
struct pass_member {
    const struct member_view *view;
    const struct pod_view *pod;
    const struct pvc_view *pvc;
    char *peer_url, *client_url; /* owned */
};

/* Everything one pass knows and holds. */
struct pass {
    struct engine *engine;
    struct worker *worker;
    const struct objkey *key;
    json_t *cluster;            /* live; NULL: gone */
    struct cluster_ident ident; /* borrowed from cluster */
    const json_t *target;       /* status.observed, or NULL; borrowed from cluster */
    struct views member_views, pod_views, pvc_views, service_views;
    struct pass_member members[OBSERVED_MEMBERS_MAX]; /* in step with seen.members */
    struct observed seen;
    uint64_t cluster_id;  /* latched; 0: none */
    struct health health; /* what the members said, in step with seen.members */
    const char *refused;  /* why the gate refused, CamelCase and static; NULL: it did not */
    char refused_text[GATE_TEXT_MAX];
    bool asked;             /* there is somebody to ask */
    struct err version_err; /* why no member of the wanted version may join; ERR_NONE: it may */
    bool announced;         /* the status was written before the step */
    bool postponed;         /* the status differs, in what is not written before it settles */
    bool blind;             /* and no answer yet: the prober brings the key back with it */
};

void pass_observe(const struct ctx *ctx, struct pass *p, struct err *e);
void pass_done(struct pass *p);

/* The name of member i. */
static inline const char *pass_member_name(const struct pass *p, size_t i)
{
    return p->members[i].view->head.name;
}

/* What member i runs: by its answer, or while it does not answer, what its status says it ran last.
 * "": it never said. */
static inline const char *pass_member_version(const struct pass *p, size_t i)
{
    const char *answered = p->health.members[i].version;
    const struct istr *last = p->members[i].view->version;
    return *answered || !last ? answered : istr_text(last);
}

/* Creates, or finds it there already: a stale view, or a pass before a crash; or somebody took the
 * label off by which we see it, then it gets it back. What is there under that name must belong to
 * the same owner; otherwise ERR_EXISTS names it. Takes the object; what
 * is there now goes to *out, unless that is NULL. */
NODISCARD int pass_create(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
                          json_t *take_object, json_t **out, struct err *e);
NODISCARD int pass_patch(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
                         const char *name, const struct kube_patch *how, json_t *take_patch,
                         struct err *e);

/* Gives an object of ours, as it was read, its labels back if the one we see it by is missing. */
NODISCARD int pass_relabel(const struct ctx *ctx, struct pass *p, const struct kube_kind *kind,
                           const json_t *want, const json_t *there, struct err *e);
/* The UID of an object's controller; "" if it has none. Borrowed. */
const char *controller_of(const json_t *object);
/* The EtcdMember of member i, live. ERR_CONFLICT: another bears that name by now. */
NODISCARD int pass_read_member(const struct ctx *ctx, struct pass *p, size_t i, json_t **out,
                               struct err *e);
/* Whether what is there has the owner that what we want has. -1: ERR_EXISTS names it. */
NODISCARD int pass_check_owner(const struct kube_kind *kind, const json_t *want,
                               const json_t *there, struct err *e);
/* Takes our finalizer, and no other, off a member that may go. The list as it was read is the
 * precondition; a member that is gone already is as wanted. */
NODISCARD int pass_release(const struct ctx *ctx, struct pass *p, const struct member_view *view,
                           struct err *e);

/* The small work of each member, and of what a cluster that is gone left under this name. -1: *e of
 * the first that failed; the others are done. */
NODISCARD int pass_chores(const struct ctx *ctx, struct pass *p, struct err *e);

/* --- Steps about one member (act_members.c) --- */

NODISCARD int member_create(const struct ctx *ctx, struct pass *p, bool seed, struct err *e);
NODISCARD int member_add_learner(const struct ctx *ctx, struct pass *p, size_t i, struct err *e);
NODISCARD int member_complete(const struct ctx *ctx, struct pass *p, size_t i, struct err *e);
NODISCARD int member_promote(const struct ctx *ctx, struct pass *p, size_t i, struct err *e);
NODISCARD int member_set_dormant(const struct ctx *ctx, struct pass *p, size_t i, bool dormant,
                                 struct err *e);
NODISCARD int member_delete(const struct ctx *ctx, struct pass *p, const struct plan *plan,
                            struct err *e);
NODISCARD int member_remove(const struct ctx *ctx, struct pass *p, size_t i, struct err *e);

/* Takes the step and the chores. Returns the plan as it turned out: a step etcd refused for now,
 * or the chokepoint did, becomes a wait with that reason. -1: *e. */
NODISCARD int pass_act(const struct ctx *ctx, struct pass *p, struct plan *plan, struct err *e);

/* A cluster that says it is at rest says otherwise before anything is done to it. The steps that
 * write the status themselves need no announcement. */
NODISCARD int pass_announce(const struct ctx *ctx, struct pass *p, const struct plan *plan,
                            struct err *e);

/* Status of cluster and members, budget, events, metrics. `failed` is what act failed with, or
 * NULL. */
NODISCARD int pass_report(const struct ctx *ctx, struct pass *p, const struct plan *plan,
                          const struct err *failed, struct err *e);

/* --- etcd ----------------------------------------------------------------------------------- */

/* Members that have an address, except `but`, in the order to ask them: voters, or all if no voter
 * is known; the leader first, then by age. Returns how many. */
size_t pass_askable(const struct pass *p, size_t but, size_t out[OBSERVED_MEMBERS_MAX]);

/* A client of those; dials Pod addresses and insists on the cluster's ID. */
NODISCARD int pass_dial(const struct ctx *ctx, struct pass *p, size_t but, struct etcd_client **out,
                        struct err *e);

/* The last question before etcd is asked to change anything: is this operator still the one to do
 * so? *out is the context of the call. */
NODISCARD int pass_begin_change(const struct ctx *ctx, struct pass *p, struct ctx *out,
                                struct err *e);

/* Fills the etcd side of p->seen with what the prober knows, or makes the pass blind. */
void pass_look(struct pass *p);
/* The same by asking now. */
void pass_ask(const struct ctx *ctx, struct pass *p);

/* A client of this member alone. */
NODISCARD int pass_dial_one(const struct ctx *ctx, struct pass *p, size_t i,
                            struct etcd_client **out, struct err *e);

/* The one gate before a member is removed: asks every other voter, now, for its own linearizable
 * read. 0: go. -1 with ERR_NOT_READY: not now, and why, in p->refused. If the target leads,
 * leadership is moved first, and the answer is to come again. */
NODISCARD int pass_gate(const struct ctx *ctx, struct pass *p, size_t target, struct err *e);

/* The ID etcd computes for a cluster founded by this one member. */
uint64_t founding_cluster_id(const char *peer_url, const char *token);
