/* SPDX-License-Identifier: Apache-2.0
 * Who belongs to the cluster. Codes: see etcd/client.h. ERR_NOT_READY: etcd refuses for now
 * (learner lags, too few members started or connected). ERR_EXISTS: the peer URL is taken.
 * ERR_NOT_FOUND: no such member, or it was removed. After ERR_OUTCOME_UNKNOWN read the list. */
#pragma once
#include "etcd/client.h"

struct etcd_member {
    uint64_t id;
    const char *name; /* empty: not started yet */
    const char *const *peer_urls;
    size_t n_peer_urls;
    const char *const *client_urls;
    size_t n_client_urls;
    bool learner;
};

struct etcd_members {
    struct etcd_header header;
    const struct etcd_member *v;
    size_t n;
    void *own;
};

void etcd_members_done(struct etcd_members *m); /* NULL-safe, idempotent */
const struct etcd_member *etcd_members_find(const struct etcd_members *m, uint64_t id);

/* linearizable: agreed by a quorum; otherwise what the asked member knows. */
NODISCARD int etcd_member_list(const struct ctx *ctx, struct etcd_client *c, bool linearizable,
                               struct etcd_members *out, struct err *e);
NODISCARD int etcd_member_list_at(const struct ctx *ctx, struct etcd_client *c, size_t at,
                                  bool linearizable, struct etcd_members *out, struct err *e);

/* *out_id: the ID etcd gave it. out (may be NULL): the members afterwards. */
NODISCARD int etcd_member_add(const struct ctx *ctx, struct etcd_client *c, const char *peer_url,
                              bool learner, uint64_t *out_id, struct etcd_members *out,
                              struct err *e);
NODISCARD int etcd_member_promote(const struct ctx *ctx, struct etcd_client *c, uint64_t id,
                                  struct err *e);
NODISCARD int etcd_member_remove(const struct ctx *ctx, struct etcd_client *c, uint64_t id,
                                 struct err *e);
NODISCARD int etcd_member_update(const struct ctx *ctx, struct etcd_client *c, uint64_t id,
                                 const char *peer_url, struct err *e);
