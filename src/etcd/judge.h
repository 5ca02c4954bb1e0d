/* SPDX-License-Identifier: Apache-2.0
 * What the answers of one cluster's members mean together: quorum, leader, lag, learners. Pure.
 * The zero value of everything is unknown, and unknown is never good. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one member said of itself; all zero: it did not answer. Who is there twice, under two
 * addresses, counts once. */
struct etcd_witness {
    bool answered;
    uint64_t member_id;
    uint64_t leader; /* 0: it sees none */
    uint64_t term;
    uint64_t index; /* committed */
    uint64_t applied;
    int64_t revision;
    bool learner;
    bool reads; /* its own linearizable read succeeded */
};

enum { ETCD_LEARNER_LAG_MAX = 1000 }; /* entries; etcd's own rule of 90 % may hide a backlog */

struct etcd_verdict {
    size_t voters;   /* of the member list; 0: not known */
    size_t answered; /* voters that did */
    size_t healthy;  /* voters whose own linearizable read succeeded */
    bool quorum;     /* a majority of the voters is healthy and names one leader and term */
    uint64_t leader; /* named by a majority of all voters in the highest term; 0: none */
    uint64_t term;
    bool learners_ready; /* there are learners, and each is close to the leader */
};

/* voters: how many the cluster has by its own member list, 0 if nobody told. */
struct etcd_verdict etcd_judge(const struct etcd_witness *w, size_t n, size_t voters);

/* Entries a member is behind the leader; -1 when one of them is not known. */
int64_t etcd_lag(const struct etcd_witness *w, size_t n, size_t of,
                 const struct etcd_verdict *verdict);
bool etcd_learner_ready(const struct etcd_witness *w, size_t n, size_t of,
                        const struct etcd_verdict *verdict);
