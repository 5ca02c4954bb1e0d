/* SPDX-License-Identifier: Apache-2.0
 * The chokepoint. Nothing that can cost availability is done before the voters that remain have
 * said themselves, at this moment, that they hold quorum. */
#include "control/cluster/gate.h"

#include <stdio.h>

#include "base/ctx.h"
#include "control/cluster/engine_internal.h"
#include "etcd/client.h"
#include "etcd/cluster.h"
#include "etcd/maintenance.h"

struct tally gate_count(const struct observed *s, const struct health *h, size_t target)
{
    struct tally t = {.successor = PLAN_NO_MEMBER};
    for (size_t i = 0; i < s->n_members; i++) {
        if (!member_votes(&s->members[i]))
            continue;
        t.voters++;
        if (i == target || s->members[i].healthy != YES)
            continue;
        const struct health_member *said = &h->members[i];
        if (t.successor != PLAN_NO_MEMBER) {
            const struct health_member *before = &h->members[t.successor];
            t.disagree = t.disagree || said->leader != before->leader || said->term != before->term;
        }
        t.good_others++;
        t.successor = i;
    }
    t.voters += s->unmanaged; /* such a one may vote, and is not asked */
    return t;
}

const char *gate_refusal(const struct observed *s, const struct tally *t, size_t target,
                         char text[GATE_TEXT_MAX])
{
    const struct seen_member *m = &s->members[target];
    const size_t need = member_votes(m) ? (t->voters - 1) / 2 + 1 : t->voters / 2 + 1;
    if (s->quorum != YES || m->listed == UNKNOWN) {
        (void)snprintf(text, GATE_TEXT_MAX, "etcd does not answer a linearizable read");
        return "QuorumLost";
    }
    if (t->good_others < need) {
        (void)snprintf(text, GATE_TEXT_MAX, "%zu other voters answer, %zu are needed to remove %s",
                       t->good_others, need, m->name);
        return "WaitingForQuorum";
    }
    if (t->disagree) {
        (void)snprintf(text, GATE_TEXT_MAX, "the voters do not agree on a leader");
        return "LeaderChanging";
    }
    return NULL;
}

/* What a person is told is the reason; that leadership moves is over before anybody reads it. */
static int refuse(struct pass *p, const char *reason, const char *text, struct err *e)
{
    if (text != p->refused_text)
        (void)snprintf(p->refused_text, sizeof(p->refused_text), "%s", text);
    p->refused = reason;
    return err_set(e, ERR_NOT_READY, 0, "%s: %s", reason, p->refused_text);
}

/* Only the leader itself can hand leadership over. */
static int move_leader(const struct ctx *ctx, struct pass *p, size_t from, size_t to, struct err *e)
{
    AUTO(etcd_client_free_auto) struct etcd_client *c = NULL;
    struct ctx limited;
    if (pass_dial_one(ctx, p, from, &c, e) < 0 || pass_begin_change(ctx, p, &limited, e) < 0 ||
        etcd_move_leader(&limited, c, 0, p->seen.members[to].id, e) < 0)
        return err_wrap(e, "move leadership from %s to %s", p->seen.members[from].name,
                        p->seen.members[to].name);
    return err_set(e, ERR_NOT_READY, 0, "leadership was moved away first");
}

int pass_gate(const struct ctx *ctx, struct pass *p, size_t target, struct err *e)
{
    enum { VIEWS_MAX_MS = 60 * 1000 };
    if (watcher_age_ms(p->worker->watcher) > VIEWS_MAX_MS)
        return refuse(p, "ViewsStale", "what is known of Pods and volumes is over a minute old", e);
    /* A fresh look through the same questions; the pass's own facts are replaced by it. */
    pass_ask(ctx, p);
    if (ctx_check(ctx, e) < 0)
        return -1;
    const struct tally t = gate_count(&p->seen, &p->health, target);
    const char *reason = gate_refusal(&p->seen, &t, target, p->refused_text);
    if (reason)
        return refuse(p, reason, p->refused_text, e);
    /* Last: a cluster that cannot be changed anyway takes nobody's place. */
    if (!budget_take(p->engine->disruptions, p->key))
        return refuse(p, "DisruptionBudget",
                      "as many other clusters as allowed are being changed at this moment", e);
    if (p->seen.members[target].leads)
        return move_leader(ctx, p, target, t.successor, e);
    return 0;
}
