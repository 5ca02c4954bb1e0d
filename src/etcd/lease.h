/* SPDX-License-Identifier: Apache-2.0
 * Leases: keys that go away unless somebody keeps them alive. Codes: see etcd/client.h;
 * ERR_NOT_FOUND: the lease expired or never was. */
#pragma once
#include "etcd/client.h"

/* id 0: etcd picks one. *out_ttl_s may be larger than asked for: there is a minimum. */
NODISCARD int etcd_lease_grant(const struct ctx *ctx, struct etcd_client *c, int64_t ttl_s,
                               int64_t id, int64_t *out_id, int64_t *out_ttl_s, struct err *e);
NODISCARD int etcd_lease_revoke(const struct ctx *ctx, struct etcd_client *c, int64_t id,
                                struct err *e);

struct etcd_lease {
    int64_t id;
    int64_t ttl_s; /* left */
    int64_t granted_s;
    const struct str *keys; /* if asked for */
    size_t n_keys;
    void *own;
};
NODISCARD int etcd_lease_info(const struct ctx *ctx, struct etcd_client *c, int64_t id,
                              bool with_keys, struct etcd_lease *out, struct err *e);
void etcd_lease_done(struct etcd_lease *l); /* NULL-safe, idempotent */

struct etcd_leases {
    const int64_t *v;
    size_t n;
    void *own;
};
NODISCARD int etcd_lease_list(const struct ctx *ctx, struct etcd_client *c, struct etcd_leases *out,
                              struct err *e);
void etcd_leases_done(struct etcd_leases *l); /* NULL-safe, idempotent */

/* Keeps any number of leases alive over one stream, which it opens again when it breaks. */
struct etcd_keeper;
struct etcd_keeper *etcd_keeper_new(struct etcd_client *c) NONNULL; /* the client outlives it */
void etcd_keeper_free(struct etcd_keeper *k);                       /* NULL-safe */
AUTO_DEFINE(struct etcd_keeper, etcd_keeper_free)

/* One renewal, answered. Repeated on another endpoint while ctx lasts: renewing twice is no
 * harm. *out_ttl_s: seconds from now. */
NODISCARD int etcd_keeper_renew(const struct ctx *ctx, struct etcd_keeper *k, int64_t id,
                                int64_t *out_ttl_s, struct err *e);
