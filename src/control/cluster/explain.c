/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/explain.h"

#include <stdio.h>
#include <string.h>

#include "api/kinds.h"
#include "base/attr.h"
#include "base/buf.h"
#include "control/cluster/engine_internal.h"

void explain_names(const struct observed *s, bool (*is)(const struct seen_member *m),
                   char out[EXPLAIN_MAX])
{
    enum { NAMED_MAX = 4 };
    auto_buf struct buf text = BUF_INIT(EXPLAIN_MAX - 1);
    size_t n = 0;
    for (size_t i = 0; i < s->n_members; i++)
        if (is(&s->members[i]) && n++ < NAMED_MAX)
            buf_addf(&text, "%s%s", n > 1 ? ", " : "", s->members[i].name);
    if (n > NAMED_MAX)
        buf_addf(&text, " and %zu more", n - NAMED_MAX);
    (void)snprintf(out, EXPLAIN_MAX, "%s", n > 0 ? buf_cstr(&text) : "nobody");
}

/* --- Members something is said about --------------------------------------------------------- */

static bool is_awaited(const struct seen_member *m)
{
    return !m->deleting && !m->dormant &&
           (m->pod != OURS || m->pod_ready != YES || m->listed != YES || m->healthy == NO);
}

static bool is_silent_voter(const struct seen_member *m)
{
    return m->listed != NO && !m->learner && m->healthy != YES;
}

static bool is_learner(const struct seen_member *m)
{
    return m->listed == YES && m->learner;
}

static bool is_leaving(const struct seen_member *m)
{
    return m->deleting;
}

static bool is_seed(const struct seen_member *m)
{
    return m->bootstrap;
}

static bool lost_its_volume(const struct seen_member *m)
{
    return member_volume_lost(m);
}

/* --- Reasons --------------------------------------------------------------------------------- */

/* `who` is put in place of the %s; NULL: the text has none. */
static const struct {
    const char *reason;
    const char *text;
    bool (*who)(const struct seen_member *m);
} words[] = {
    {"Observing", "etcd has not answered yet", NULL},
    {"WaitingForSeed", "%s does not answer yet", is_seed},
    {"WaitingForMembers", "not ready: %s; look at the Pods of that name", is_awaited},
    {"WaitingForLearner", "%s has to catch up with the leader before it may vote", is_learner},
    {"WaitingForQuorum", "a removal would leave too few voters; bring back %s first",
     is_silent_voter},
    {"QuorumLost", "nothing is changed before a majority answers again; silent: %s",
     is_silent_voter},
    {"VolumeLost",
     "the volume of %s is gone or another; it is replaced when the others hold quorum without it",
     lost_its_volume},
    {"LastVoterDeleted",
     "EtcdMember %s was deleted and has the only vote: it stays, with its data, until "
     "spec.replicas asks for members",
     is_leaving},
    {"UnmanagedMember",
     "etcd lists a member that no EtcdMember stands for; find out who added it, and remove it with "
     "etcdctl member remove",
     NULL},
    {"AllMembersLost",
     "no EtcdMember is left; nothing is founded anew under this name: restore a snapshot as a new "
     "cluster",
     NULL},
    {"SeedMissing",
     "there are EtcdMembers, but none that could have founded the cluster; delete them to begin "
     "anew",
     NULL},
    {"ForeignService",
     "a Service of the cluster's name, or of that name with -client, belongs to somebody else; "
     "rename or delete it",
     NULL},
    {"ForeignCluster", "another etcd cluster answers at the address of %s; find out whose",
     is_seed},
    {"PredecessorLeaving", "members and Pods of an earlier cluster of that name have to go first",
     NULL},
};

static void explain_limits(const struct pass *p, const char *reason, char out[EXPLAIN_MAX])
{
    if (strcmp(reason, "TooManyMembers") == 0)
        (void)snprintf(out, EXPLAIN_MAX, "a cluster has at most %d members; %d are wanted",
                       OBSERVED_MEMBERS_MAX - 1, p->seen.want);
    else if (strcmp(reason, "InvalidName") == 0)
        (void)snprintf(out, EXPLAIN_MAX, "%s; create it under another name", p->seen.bad_name);
    else if (strcmp(reason, "VersionRefused") == 0)
        (void)snprintf(out, EXPLAIN_MAX, "no member is added: %.400s", p->version_err.text);
    else
        (void)snprintf(out, EXPLAIN_MAX, "%s", "");
}

void explain_wait(const struct pass *p, const struct plan *plan, char out[EXPLAIN_MAX])
{
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (strcmp(words[i].reason, plan->reason) != 0)
            continue;
        const char *hole = strstr(words[i].text, "%s");
        char names[EXPLAIN_MAX];
        if (!words[i].who || !hole) {
            (void)snprintf(out, EXPLAIN_MAX, "%s", words[i].text);
            return;
        }
        explain_names(&p->seen, words[i].who, names);
        (void)snprintf(out, EXPLAIN_MAX, "%.*s%.300s%s", (int)(hole - words[i].text), words[i].text,
                       names, hole + 2);
        return;
    }
    explain_limits(p, plan->reason, out);
}
