/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/auth.h"

#include "etcd/auth_internal.h"
#include "etcd/client_internal.h"

#define RPC(name_, response_, ...)                                                                 \
    {                                                                                              \
        .path = "/etcdserverpb.Auth/" name_, .response = &pb__##response_##__descriptor,           \
        __VA_ARGS__                                                                                \
    }
#define CHANGE(name_) RPC(name_, any_response, .mutating = true)

static const struct etcd_rpc rpc_enable = CHANGE("AuthEnable");
static const struct etcd_rpc rpc_disable = CHANGE("AuthDisable");
static const struct etcd_rpc rpc_status = RPC("AuthStatus", auth_status_response);
static const struct etcd_rpc rpc_user_add =
    RPC("UserAdd", any_response, .mutating = true, .secret = true);
static const struct etcd_rpc rpc_user_password =
    RPC("UserChangePassword", any_response, .mutating = true, .secret = true);
static const struct etcd_rpc rpc_user_delete = CHANGE("UserDelete");
static const struct etcd_rpc rpc_user_get = RPC("UserGet", names_response);
static const struct etcd_rpc rpc_user_list = RPC("UserList", names_response);
static const struct etcd_rpc rpc_user_grant = CHANGE("UserGrantRole");
static const struct etcd_rpc rpc_user_revoke = CHANGE("UserRevokeRole");
static const struct etcd_rpc rpc_role_add = CHANGE("RoleAdd");
static const struct etcd_rpc rpc_role_delete = CHANGE("RoleDelete");
static const struct etcd_rpc rpc_role_get = RPC("RoleGet", role_get_response);
static const struct etcd_rpc rpc_role_list = RPC("RoleList", names_response);
static const struct etcd_rpc rpc_role_grant = CHANGE("RoleGrantPermission");
static const struct etcd_rpc rpc_role_revoke = CHANGE("RoleRevokePermission");

/* An empty name would come back as "user name is empty", which elsewhere means "log in". */
static int named(const char *name, const char *what, struct err *e)
{
    return name && name[0] ? 0 : err_set(e, ERR_INVALID, 0, "%s name is empty", what);
}

static int change(const struct ctx *ctx, struct etcd_client *c, const struct etcd_rpc *rpc,
                  const void *request, struct err *e)
{
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    return etcd_call(ctx, c, ETCD_ANY, rpc, request, &reply, e);
}

static int change_by_name(const struct ctx *ctx, struct etcd_client *c, const struct etcd_rpc *rpc,
                          const char *name, struct err *e)
{
    Pb__NameRequest m = PB__NAME_REQUEST__INIT;
    m.name = (char *)name; /* packing only reads; likewise below */
    return change(ctx, c, rpc, &m, e);
}

static int names(const struct ctx *ctx, struct etcd_client *c, const struct etcd_rpc *rpc,
                 const void *request, struct etcd_names *out, struct err *e)
{
    struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, rpc, request, &reply, e) < 0)
        return -1;
    const Pb__NamesResponse *r = reply.message;
    *out = (struct etcd_names){(const char *const *)r->names, r->n_names, reply.own};
    return 0;
}

void etcd_names_done(struct etcd_names *n)
{
    if (!n)
        return;
    arena_free(n->own, false);
    *n = (struct etcd_names){0};
}

int etcd_auth_enable(const struct ctx *ctx, struct etcd_client *c, struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    return change(ctx, c, &rpc_enable, &m, e) < 0 ? err_wrap(e, "enable authentication") : 0;
}

int etcd_auth_disable(const struct ctx *ctx, struct etcd_client *c, struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    return change(ctx, c, &rpc_disable, &m, e) < 0 ? err_wrap(e, "disable authentication") : 0;
}

int etcd_auth_status(const struct ctx *ctx, struct etcd_client *c, bool *out_enabled, struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    AUTO(etcd_reply_done) struct etcd_reply reply = {0};
    if (etcd_call(ctx, c, ETCD_ANY, &rpc_status, &m, &reply, e) < 0)
        return err_wrap(e, "authentication status");
    *out_enabled = ((Pb__AuthStatusResponse *)reply.message)->enabled;
    return 0;
}

int etcd_user_add(const struct ctx *ctx, struct etcd_client *c, const char *name,
                  const char *password, struct err *e)
{
    Pb__UserOptions options = PB__USER_OPTIONS__INIT;
    options.no_password = !password;
    Pb__UserAddRequest m = PB__USER_ADD_REQUEST__INIT;
    m.name = (char *)name;
    m.password = (char *)(password ? password : "");
    m.options = &options;
    if (named(name, "user", e) < 0 || change(ctx, c, &rpc_user_add, &m, e) < 0)
        return err_wrap(e, "add user %s", name ? name : "");
    return 0;
}

int etcd_user_set_password(const struct ctx *ctx, struct etcd_client *c, const char *name,
                           const char *password, struct err *e)
{
    Pb__UserPasswordRequest m = PB__USER_PASSWORD_REQUEST__INIT;
    m.name = (char *)name;
    m.password = (char *)password;
    if (named(name, "user", e) < 0 || change(ctx, c, &rpc_user_password, &m, e) < 0)
        return err_wrap(e, "set password of %s", name ? name : "");
    return 0;
}

int etcd_user_delete(const struct ctx *ctx, struct etcd_client *c, const char *name, struct err *e)
{
    if (named(name, "user", e) < 0 || change_by_name(ctx, c, &rpc_user_delete, name, e) < 0)
        return err_wrap(e, "delete user %s", name ? name : "");
    return 0;
}

int etcd_user_roles(const struct ctx *ctx, struct etcd_client *c, const char *name,
                    struct etcd_names *out, struct err *e)
{
    Pb__NameRequest m = PB__NAME_REQUEST__INIT;
    m.name = (char *)name;
    if (named(name, "user", e) < 0 || names(ctx, c, &rpc_user_get, &m, out, e) < 0)
        return err_wrap(e, "roles of user %s", name ? name : "");
    return 0;
}

int etcd_user_list(const struct ctx *ctx, struct etcd_client *c, struct etcd_names *out,
                   struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    return names(ctx, c, &rpc_user_list, &m, out, e) < 0 ? err_wrap(e, "list users") : 0;
}

static int user_role(const struct ctx *ctx, struct etcd_client *c, const struct etcd_rpc *rpc,
                     const char *user, const char *role, struct err *e)
{
    Pb__UserRoleRequest m = PB__USER_ROLE_REQUEST__INIT;
    m.user = (char *)user;
    m.role = (char *)role;
    if (named(user, "user", e) < 0 || named(role, "role", e) < 0)
        return -1;
    return change(ctx, c, rpc, &m, e);
}

int etcd_user_grant(const struct ctx *ctx, struct etcd_client *c, const char *user,
                    const char *role, struct err *e)
{
    if (user_role(ctx, c, &rpc_user_grant, user, role, e) < 0)
        return err_wrap(e, "grant role %s to %s", role, user);
    return 0;
}

int etcd_user_revoke(const struct ctx *ctx, struct etcd_client *c, const char *user,
                     const char *role, struct err *e)
{
    if (user_role(ctx, c, &rpc_user_revoke, user, role, e) < 0)
        return err_wrap(e, "revoke role %s from %s", role, user);
    return 0;
}

int etcd_role_add(const struct ctx *ctx, struct etcd_client *c, const char *name, struct err *e)
{
    if (named(name, "role", e) < 0 || change_by_name(ctx, c, &rpc_role_add, name, e) < 0)
        return err_wrap(e, "add role %s", name ? name : "");
    return 0;
}

int etcd_role_delete(const struct ctx *ctx, struct etcd_client *c, const char *name, struct err *e)
{
    if (named(name, "role", e) < 0 || change_by_name(ctx, c, &rpc_role_delete, name, e) < 0)
        return err_wrap(e, "delete role %s", name ? name : "");
    return 0;
}

int etcd_role_list(const struct ctx *ctx, struct etcd_client *c, struct etcd_names *out,
                   struct err *e)
{
    const Pb__Empty m = PB__EMPTY__INIT;
    return names(ctx, c, &rpc_role_list, &m, out, e) < 0 ? err_wrap(e, "list roles") : 0;
}

struct etcd_permissions etcd_permissions_of(struct arena *own, const Pb__RoleGetResponse *r)
{
    struct etcd_permission *v = arena_array(own, r->n_perms, sizeof(*v));
    for (size_t i = 0; i < r->n_perms; i++) {
        v[i].type = (__typeof__(v[i].type))r->perms[i]->type;
        v[i].key = str_of_bytes(r->perms[i]->key);
        v[i].end = str_of_bytes(r->perms[i]->range_end);
    }
    return (struct etcd_permissions){v, r->n_perms, own};
}

int etcd_role_permissions(const struct ctx *ctx, struct etcd_client *c, const char *name,
                          struct etcd_permissions *out, struct err *e)
{
    Pb__NameRequest m = PB__NAME_REQUEST__INIT;
    m.name = (char *)name;
    struct etcd_reply reply = {0};
    if (named(name, "role", e) < 0 || etcd_call(ctx, c, ETCD_ANY, &rpc_role_get, &m, &reply, e) < 0)
        return err_wrap(e, "permissions of role %s", name ? name : "");
    *out = etcd_permissions_of(reply.own, reply.message);
    return 0;
}

void etcd_permissions_done(struct etcd_permissions *p)
{
    if (!p)
        return;
    arena_free(p->own, false);
    *p = (struct etcd_permissions){0};
}

int etcd_role_grant(const struct ctx *ctx, struct etcd_client *c, const char *role,
                    const struct etcd_permission *p, struct err *e)
{
    Pb__Permission perm = PB__PERMISSION__INIT;
    perm.type = (int32_t)p->type;
    perm.key = bytes_of_str(p->key);
    perm.range_end = bytes_of_str(p->end);
    Pb__RoleGrantRequest m = PB__ROLE_GRANT_REQUEST__INIT;
    m.name = (char *)role;
    m.perm = &perm;
    if (named(role, "role", e) < 0 || change(ctx, c, &rpc_role_grant, &m, e) < 0)
        return err_wrap(e, "grant permission to role %s", role ? role : "");
    return 0;
}

int etcd_role_revoke(const struct ctx *ctx, struct etcd_client *c, const char *role, struct str key,
                     struct str end, struct err *e)
{
    Pb__RoleRevokeRequest m = PB__ROLE_REVOKE_REQUEST__INIT;
    m.role = (char *)role;
    m.key = bytes_of_str(key);
    m.range_end = bytes_of_str(end);
    if (named(role, "role", e) < 0 || change(ctx, c, &rpc_role_revoke, &m, e) < 0)
        return err_wrap(e, "revoke permission from role %s", role ? role : "");
    return 0;
}
