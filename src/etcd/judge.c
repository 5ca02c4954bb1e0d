/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/judge.h"

/* Two addresses of one member are one witness. */
static bool is_repeated(const struct etcd_witness *w, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (w[k].answered && w[k].member_id == w[i].member_id)
            return true;
    return false;
}

static bool is_voter(const struct etcd_witness *w, size_t i)
{
    return w[i].answered && !w[i].learner && !is_repeated(w, i);
}

/* How many voters name this leader in this term. */
static size_t followers(const struct etcd_witness *w, size_t n, uint64_t leader, uint64_t term)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (is_voter(w, i) && w[i].leader == leader && w[i].term == term)
            count++;
    return count;
}

struct etcd_verdict etcd_judge(const struct etcd_witness *w, size_t n, size_t voters)
{
    struct etcd_verdict v = {.voters = voters};
    for (size_t i = 0; i < n; i++) {
        if (!is_voter(w, i))
            continue;
        v.answered++;
        v.healthy += w[i].reads ? 1 : 0;
        if (w[i].term > v.term)
            v.term = w[i].term;
    }
    if (voters == 0)
        return v; /* a majority of an unknown number is unknown */
    const size_t majority = voters / 2 + 1;
    for (size_t i = 0; i < n && v.leader == 0; i++)
        if (is_voter(w, i) && w[i].leader != 0 && w[i].term == v.term &&
            followers(w, n, w[i].leader, v.term) >= majority)
            v.leader = w[i].leader;
    v.quorum = v.leader != 0 && v.healthy >= majority;

    size_t learners = 0, ready = 0;
    for (size_t i = 0; i < n; i++)
        if (w[i].answered && w[i].learner) {
            learners++;
            ready += etcd_learner_ready(w, n, i, &v) ? 1 : 0;
        }
    v.learners_ready = learners > 0 && ready == learners;
    return v;
}

static const struct etcd_witness *leader_of(const struct etcd_witness *w, size_t n,
                                            const struct etcd_verdict *v)
{
    for (size_t i = 0; i < n && v->leader != 0; i++)
        if (is_voter(w, i) && w[i].member_id == v->leader)
            return &w[i];
    return NULL;
}

int64_t etcd_lag(const struct etcd_witness *w, size_t n, size_t of, const struct etcd_verdict *v)
{
    const struct etcd_witness *leader = leader_of(w, n, v);
    if (!leader || !w[of].answered)
        return -1;
    return leader->index > w[of].applied ? (int64_t)(leader->index - w[of].applied) : 0;
}

bool etcd_learner_ready(const struct etcd_witness *w, size_t n, size_t of,
                        const struct etcd_verdict *v)
{
    const struct etcd_witness *leader = leader_of(w, n, v);
    const int64_t lag = etcd_lag(w, n, of, v);
    return leader && w[of].learner && w[of].applied > 0 && lag >= 0 &&
           lag <= ETCD_LEARNER_LAG_MAX && w[of].applied >= leader->index - leader->index / 10;
}
