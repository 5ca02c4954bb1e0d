/* SPDX-License-Identifier: Apache-2.0
 * Which member to take a snapshot from: one that is in touch with its cluster and up to date, and
 * rather not the one that leads, because the stream costs it disk and network. Pure. */
#pragma once
#include "etcd/judge.h"

enum { ETCD_SOURCE_LAG_MAX = 5000 }; /* entries; from there on etcd itself refuses proposals */

enum etcd_source {
    ETCD_SOURCE_SILENT,    /* it did not answer: unknown is not good */
    ETCD_SOURCE_NO_LEADER, /* cut off: what it holds may be of any age */
    ETCD_SOURCE_OLD_TERM,  /* another one follows a leader of a newer term */
    ETCD_SOURCE_LEARNER,
    ETCD_SOURCE_LAGS, /* behind what another one has committed */
    ETCD_SOURCE_GOOD,
};
const char *etcd_source_name(enum etcd_source s); /* "no leader" */

/* What speaks against one of several members, all of one cluster. Of a member that is asked alone
 * only silence and the lack of a leader: whoever names it means it. */
enum etcd_source etcd_source_of(const struct etcd_witness *w, size_t n, size_t of);

/* The good one that has applied most, a follower if there is one; n: none is good. */
size_t etcd_source_choose(const struct etcd_witness *w, size_t n);
