/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/source.h"

static bool follows(const struct etcd_witness *w) /* a leader, which may be itself */
{
    return w->answered && !w->learner && w->leader != 0;
}

/* Only of those with a leader: a member that is cut off may count terms up all by itself. */
static uint64_t newest_term(const struct etcd_witness *w, size_t n)
{
    uint64_t term = 0;
    for (size_t i = 0; i < n; i++)
        if (follows(&w[i]) && w[i].term > term)
            term = w[i].term;
    return term;
}

static uint64_t committed(const struct etcd_witness *w, size_t n, uint64_t term)
{
    uint64_t index = 0;
    for (size_t i = 0; i < n; i++)
        if (follows(&w[i]) && w[i].term == term && w[i].index > index)
            index = w[i].index;
    return index;
}

const char *etcd_source_name(enum etcd_source s)
{
    static const char *const names[] = {
        [ETCD_SOURCE_SILENT] = "no answer",  [ETCD_SOURCE_NO_LEADER] = "sees no leader",
        [ETCD_SOURCE_OLD_TERM] = "old term", [ETCD_SOURCE_LEARNER] = "learner",
        [ETCD_SOURCE_LAGS] = "lags behind",  [ETCD_SOURCE_GOOD] = "good",
    };
    return names[s];
}

enum etcd_source etcd_source_of(const struct etcd_witness *w, size_t n, size_t of)
{
    if (!w[of].answered)
        return ETCD_SOURCE_SILENT;
    if (w[of].leader == 0)
        return ETCD_SOURCE_NO_LEADER;
    if (n == 1)
        return ETCD_SOURCE_GOOD;
    if (w[of].learner)
        return ETCD_SOURCE_LEARNER;
    const uint64_t term = newest_term(w, n);
    if (w[of].term < term)
        return ETCD_SOURCE_OLD_TERM;
    return w[of].applied + ETCD_SOURCE_LAG_MAX < committed(w, n, term) ? ETCD_SOURCE_LAGS
                                                                       : ETCD_SOURCE_GOOD;
}

static bool better(const struct etcd_witness *a, const struct etcd_witness *b)
{
    const bool a_leads = a->leader == a->member_id, b_leads = b->leader == b->member_id;
    return a_leads != b_leads ? b_leads : a->applied > b->applied;
}

size_t etcd_source_choose(const struct etcd_witness *w, size_t n)
{
    size_t best = n;
    for (size_t i = 0; i < n; i++)
        if (etcd_source_of(w, n, i) == ETCD_SOURCE_GOOD && (best == n || better(&w[i], &w[best])))
            best = i;
    return best;
}
