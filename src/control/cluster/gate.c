/* SPDX-License-Identifier: Apache-2.0
 * The chokepoint. Nothing that can cost availability is done before the voters that remain have
 * said themselves, at this moment, that they hold quorum. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "control/cluster/engine_internal.h"
#include "etcd/client.h"
#include "etcd/cluster.h"
#include "etcd/maintenance.h"

/* What a person is told is the reason; that leadership moves is over before anybody reads it. */
static int refuse(struct pass *p, const char *reason, struct err *e, const char *fmt, ...)
    FORMAT(4, 5);
static int refuse(struct pass *p, const char *reason, struct err *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(p->refused_text, sizeof(p->refused_text), fmt, ap);
    va_end(ap);
    p->refused = reason;
    return err_set(e, ERR_NOT_READY, 0, "%s: %s", reason, p->refused_text);
}

/* What the voters say, asked anew. */
struct tally {
    size_t voters, good_others;
    size_t successor; /* a healthy voter other than the target */
    bool disagree;    /* on leader or term: an election is going on */
};

static int ask(const struct ctx *ctx, struct pass *p, size_t target, struct tally *t, struct err *e)
{
    /* A fresh look through the same questions; the pass's own facts are replaced by it. */
    pass_ask(ctx, p);
    if (ctx_check(ctx, e) < 0)
        return -1;
    *t = (struct tally){0};
    for (size_t i = 0; i < p->seen.n_members; i++) {
        const struct seen_member *m = &p->seen.members[i];
        if (m->listed != YES || m->learner)
            continue;
        t->voters++;
        if (i == target || m->healthy != YES)
            continue;
        const struct health_member *said = &p->health.members[i];
        const struct health_member *before = &p->health.members[t->successor];
        t->disagree =
            t->disagree ||
            (t->good_others > 0 && (said->leader != before->leader || said->term != before->term));
        t->good_others++;
        t->successor = i;
    }
    t->voters += p->seen.unmanaged;
    return 0;
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
    struct tally t;
    if (watcher_age_ms(p->worker->watcher) > VIEWS_MAX_MS)
        return refuse(p, "ViewsStale", e, "what is known of Pods and volumes is over a minute old");
    if (ask(ctx, p, target, &t, e) < 0)
        return -1;
    const struct seen_member *m = &p->seen.members[target];
    if (p->seen.quorum != YES || m->listed == UNKNOWN)
        return refuse(p, "QuorumLost", e, "etcd does not answer a linearizable read");
    const bool votes = member_votes(m);
    const size_t need = votes ? (t.voters - 1) / 2 + 1 : t.voters / 2 + 1;
    if (t.good_others < need)
        return refuse(p, "WaitingForQuorum", e, "%zu other voters answer, %zu are needed",
                      t.good_others, need);
    if (t.disagree)
        return refuse(p, "LeaderChanging", e, "the voters do not agree on a leader");
    /* Last: a cluster that cannot be changed anyway takes nobody's place. */
    if (!budget_take(p->engine->disruptions, p->key))
        return refuse(p, "DisruptionBudget", e,
                      "as many other clusters as allowed are being changed at this moment");
    if (m->leads)
        return move_leader(ctx, p, target, t.successor, e);
    return 0;
}
