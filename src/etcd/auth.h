/* SPDX-License-Identifier: Apache-2.0
 * Users, roles, permissions. The client logs in by itself when it was given a user
 * (etcd/client.h). Codes: see there; ERR_EXISTS, ERR_NOT_FOUND of users and roles. Passwords are
 * wiped from every buffer they passed through. */
#pragma once
#include "etcd/client.h"

NODISCARD int etcd_auth_enable(const struct ctx *ctx, struct etcd_client *c, struct err *e);
NODISCARD int etcd_auth_disable(const struct ctx *ctx, struct etcd_client *c, struct err *e);
NODISCARD int etcd_auth_status(const struct ctx *ctx, struct etcd_client *c, bool *out_enabled,
                               struct err *e);

struct etcd_names {
    const char *const *v;
    size_t n;
    void *own;
};
void etcd_names_done(struct etcd_names *n); /* NULL-safe, idempotent */

/* password NULL: a user that only a client certificate can be. */
NODISCARD int etcd_user_add(const struct ctx *ctx, struct etcd_client *c, const char *name,
                            const char *password, struct err *e);
NODISCARD int etcd_user_set_password(const struct ctx *ctx, struct etcd_client *c, const char *name,
                                     const char *password, struct err *e);
NODISCARD int etcd_user_delete(const struct ctx *ctx, struct etcd_client *c, const char *name,
                               struct err *e);
NODISCARD int etcd_user_roles(const struct ctx *ctx, struct etcd_client *c, const char *name,
                              struct etcd_names *out, struct err *e);
NODISCARD int etcd_user_list(const struct ctx *ctx, struct etcd_client *c, struct etcd_names *out,
                             struct err *e);
NODISCARD int etcd_user_grant(const struct ctx *ctx, struct etcd_client *c, const char *user,
                              const char *role, struct err *e);
NODISCARD int etcd_user_revoke(const struct ctx *ctx, struct etcd_client *c, const char *user,
                               const char *role, struct err *e);

NODISCARD int etcd_role_add(const struct ctx *ctx, struct etcd_client *c, const char *name,
                            struct err *e);
NODISCARD int etcd_role_delete(const struct ctx *ctx, struct etcd_client *c, const char *name,
                               struct err *e);
NODISCARD int etcd_role_list(const struct ctx *ctx, struct etcd_client *c, struct etcd_names *out,
                             struct err *e);

struct etcd_permission {
    enum { ETCD_READ, ETCD_WRITE, ETCD_READWRITE } type;
    struct str key, end; /* as in etcd_range */
};

struct etcd_permissions {
    const struct etcd_permission *v;
    size_t n;
    void *own;
};
NODISCARD int etcd_role_permissions(const struct ctx *ctx, struct etcd_client *c, const char *name,
                                    struct etcd_permissions *out, struct err *e);
void etcd_permissions_done(struct etcd_permissions *p); /* NULL-safe, idempotent */
NODISCARD int etcd_role_grant(const struct ctx *ctx, struct etcd_client *c, const char *role,
                              const struct etcd_permission *p, struct err *e);
NODISCARD int etcd_role_revoke(const struct ctx *ctx, struct etcd_client *c, const char *role,
                               struct str key, struct str end, struct err *e);
