/* SPDX-License-Identifier: Apache-2.0
 * Kubeconfig files. Several are merged as kubectl documents it: the first file that sets a value
 * or names an entry wins, and of an entry that two files name, only the first is looked at.
 * Relative paths are relative to the file they stand in, so they are made absolute before merging.
 *
 * A field we know with a value of the wrong type is an error, never a default: a token that is
 * silently left out would mean acting as somebody else. */
#include <errno.h>
#include <libgen.h>
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/config.h"
#include "kube/config_internal.h"
#include "kube/yaml.h"

static void material_done(struct kube_material *m)
{
    secret_free(TAKE(m->data));
    free(TAKE(m->file));
}

void kube_settings_done(struct kube_settings *s)
{
    free(s->server);
    free(s->namespace);
    secret_free(s->proxy); /* may hold a password */
    free(s->server_name);
    material_done(&s->ca);
    material_done(&s->cert);
    material_done(&s->key);
    material_done(&s->token);
    free(s->username);
    secret_free(s->password);
    json_decref(s->exec);
    json_decref(s->exec_cluster);
    free(s->as_user);
    free(s->as_uid);
    json_decref(s->as_groups);
    json_decref(s->as_extra);
    *s = (struct kube_settings){0};
}

/* --- Reading one file --- */

/* The directory a path lies in, absolute. Owned. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    auto_free char *dir =
        slash ? str_dup((struct str){path, (size_t)(slash - path)}) : xstrdup(".");
    if (slash == path)
        return xstrdup("/");
    if (dir[0] == '/')
        return TAKE(dir);
    auto_free char *here = getcwd(NULL, 0);
    return xasprintf("%s/%s", here ? here : "", dir);
}

static void make_absolute(json_t *entry, const char *field, const char *dir)
{
    const char *path = json_string_value(json_object_get(entry, field));
    if (path && path[0] != '\0' && path[0] != '/')
        (void)json_object_set_new(entry, field,
                                  jsf("%s/%s", dir, path)); /* replaces: never fails */
}

/* A command without a slash is looked for in $PATH. */
static void make_command_absolute(json_t *user, const char *dir)
{
    json_t *exec = json_object_get(user, "exec");
    const char *command = jstr(exec, "command", "");
    if (strchr(command, '/'))
        make_absolute(exec, "command", dir);
}

static int check_entries(const json_t *file, const char *list, const char *inner, struct err *e)
{
    const json_t *entries = json_object_get(file, list);
    if (!entries || json_is_null(entries))
        return 0;
    if (!json_is_array(entries))
        return err_set(e, ERR_INVALID, 0, "%s is no list", list);
    size_t i = 0;
    json_t *entry = NULL;
    json_array_foreach(entries, i, entry)
    {
        const char *name = NULL;
        if (jneed_str(entry, "name", &name, e) < 0)
            return err_wrap(e, "%s.%zu", list, i);
        const json_t *value = json_object_get(entry, inner);
        if (value && !json_is_object(value) && !json_is_null(value))
            return err_set(e, ERR_INVALID, 0, "%s \"%s\": %s is no object", list, name, inner);
    }
    return 0;
}

static void make_paths_absolute(json_t *file, const char *dir)
{
    size_t i = 0;
    json_t *entry = NULL;
    json_array_foreach(json_object_get(file, "clusters"), i, entry)
        make_absolute(json_object_get(entry, "cluster"), "certificate-authority", dir);
    json_array_foreach(json_object_get(file, "users"), i, entry)
    {
        json_t *user = json_object_get(entry, "user");
        make_absolute(user, "client-certificate", dir);
        make_absolute(user, "client-key", dir);
        make_absolute(user, "tokenFile", dir);
        make_command_absolute(user, dir);
    }
}

static int read_file(const struct ctx *ctx, const char *path, json_t **out, struct err *e)
{
    AUTO(buf_wipe) struct buf text = BUF_INIT(KUBE_CONFIG_MAX);
    if (file_read(ctx, path, &text, e) < 0)
        return -1;
    json_auto_t *file = NULL;
    if (yaml_parse(buf_str(&text), &file, e) < 0)
        return err_wrap(e, "%s", path);
    if (json_is_null(file)) { /* kubectl takes an empty file for an empty configuration */
        *out = json_object();
        return 0;
    }
    if (!json_is_object(file))
        return err_set(e, ERR_INVALID, 0, "%s is no kubeconfig", path);
    const char *kind = jstr(file, "kind", "Config");
    if (kind[0] != '\0' && strcmp(kind, "Config") != 0)
        return err_set(e, ERR_INVALID, 0, "%s: kind is %s, expected Config", path, kind);
    if (check_entries(file, "clusters", "cluster", e) < 0 ||
        check_entries(file, "users", "user", e) < 0 ||
        check_entries(file, "contexts", "context", e) < 0)
        return err_wrap(e, "%s", path);
    auto_free char *dir = directory_of(path);
    make_paths_absolute(file, dir);
    *out = TAKE(file);
    return 0;
}

/* --- Merging, and choosing from the result --- */

static void merge(json_t *into, json_t *from)
{
    static const char *const lists[] = {"clusters", "users", "contexts"};
    if (jstr(into, "current-context", "")[0] == '\0' && jstr(from, "current-context", "")[0])
        (void)json_object_set(into, "current-context", json_object_get(from, "current-context"));
    for (size_t l = 0; l < COUNT_OF(lists); l++) {
        json_t *entries = json_object_get(into, lists[l]);
        if (!entries) {
            entries = json_array();
            (void)json_object_set_new(into, lists[l], entries);
        }
        /* Appended in order and searched from the front: the first file wins. */
        (void)json_array_extend(entries, json_object_get(from, lists[l]));
    }
}

static int find(const json_t *all, const char *list, const char *inner, const char *name,
                json_t **out, struct err *e)
{
    size_t i = 0;
    json_t *entry = NULL;
    json_array_foreach(json_object_get(all, list), i, entry)
    {
        if (strcmp(jstr(entry, "name", ""), name) != 0)
            continue;
        json_t *found = json_object_get(entry, inner);
        *out = json_is_object(found) ? found : NULL;
        return 0;
    }
    return err_set(e, ERR_INVALID, 0, "there is no %s \"%s\"", inner, name);
}

/* Absent, null and "" are the same: not set. *out is owned, or NULL. */
static int take_string(const json_t *from, const char *field, char **out, struct err *e)
{
    const json_t *v = json_object_get(from, field);
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_string(v))
        return err_set(e, ERR_INVALID, 0, "%s is no string", field);
    if (strlen(json_string_value(v)) != json_string_length(v))
        return err_set(e, ERR_INVALID, 0, "%s holds a NUL", field);
    if (json_string_length(v) > 0)
        *out = xstrdup(json_string_value(v));
    return 0;
}

static int take_flag(const json_t *from, const char *field, bool *out, struct err *e)
{
    const json_t *v = json_object_get(from, field);
    if (!v || json_is_null(v))
        return 0;
    if (!json_is_boolean(v))
        return err_set(e, ERR_INVALID, 0, "%s is no boolean", field);
    *out = json_is_true(v);
    return 0;
}

/* `field` names a file, `field`-data holds the bytes in base64 and wins. */
static int take_material(const json_t *from, const char *field, struct kube_material *out,
                         struct err *e)
{
    auto_free char *data_field = xasprintf("%s-data", field);
    char *encoded = NULL;
    if (take_string(from, data_field, &encoded, e) < 0)
        return -1;
    if (!encoded)
        return take_string(from, field, &out->file, e);
    struct buf plain = BUF_INIT(KUBE_SECRET_FILE_MAX);
    const bool good = base64_decode(&plain, str_trim(str_c(encoded))) && plain.n > 0 &&
                      !memchr(plain.p, '\0', plain.n);
    secret_free(encoded);
    if (!good) {
        buf_wipe(&plain);
        return err_set(e, ERR_INVALID, 0, "%s is no base64", data_field);
    }
    out->data = buf_take(&plain);
    return 0;
}

static int take_cluster(const json_t *cluster, struct kube_settings *s, struct err *e)
{
    bool skip = false;
    if (take_flag(cluster, "insecure-skip-tls-verify", &skip, e) < 0)
        return -1;
    if (skip)
        return err_set(e, ERR_INVALID, 0,
                       "insecure-skip-tls-verify is refused: anybody on the way could read and "
                       "change everything; give the server's authority in certificate-authority");
    if (take_string(cluster, "server", &s->server, e) < 0 ||
        take_string(cluster, "tls-server-name", &s->server_name, e) < 0 ||
        take_string(cluster, "proxy-url", &s->proxy, e) < 0 ||
        take_material(cluster, "certificate-authority", &s->ca, e) < 0)
        return -1;
    return s->server ? 0 : err_set(e, ERR_INVALID, 0, "server is missing");
}

static int take_impersonation(const json_t *user, struct kube_settings *s, struct err *e)
{
    if (take_string(user, "as", &s->as_user, e) < 0 ||
        take_string(user, "as-uid", &s->as_uid, e) < 0)
        return -1;
    json_t *groups = json_object_get(user, "as-groups");
    json_t *extra = json_object_get(user, "as-user-extra");
    if (groups && !json_is_null(groups) && !json_is_array(groups))
        return err_set(e, ERR_INVALID, 0, "as-groups is no list");
    if (extra && !json_is_null(extra) && !json_is_object(extra))
        return err_set(e, ERR_INVALID, 0, "as-user-extra is no object");
    s->as_groups = json_is_array(groups) ? json_incref(groups) : NULL;
    s->as_extra = json_is_object(extra) ? json_incref(extra) : NULL;
    if (!s->as_user && (s->as_uid || s->as_groups || s->as_extra))
        return err_set(e, ERR_INVALID, 0, "as-uid, as-groups and as-user-extra need as");
    return 0;
}

static int take_user(const json_t *user, struct kube_settings *s, struct err *e)
{
    if (jget(user, "auth-provider"))
        return err_set(e, ERR_INVALID, 0,
                       "auth-provider is not supported (Kubernetes removed it in 1.26), use exec");
    if (take_string(user, "token", &s->token.data, e) < 0 ||
        take_string(user, "tokenFile", &s->token.file, e) < 0 ||
        take_string(user, "username", &s->username, e) < 0 ||
        take_string(user, "password", &s->password, e) < 0 ||
        take_material(user, "client-certificate", &s->cert, e) < 0 ||
        take_material(user, "client-key", &s->key, e) < 0 || take_impersonation(user, s, e) < 0)
        return -1;
    if (s->token.file && s->token.data)
        secret_free(TAKE(s->token.data)); /* as in kubectl, the file goes first */
    const bool cert = s->cert.data || s->cert.file, key = s->key.data || s->key.file;
    if (cert != key)
        return err_set(e, ERR_INVALID, 0, "client-certificate and client-key need each other");
    if (s->username && (s->token.data || s->token.file))
        return err_set(e, ERR_INVALID, 0, "both a token and a username are given");
    json_t *exec = json_object_get(user, "exec");
    if (exec && !json_is_null(exec) && !json_is_object(exec))
        return err_set(e, ERR_INVALID, 0, "exec is no object");
    s->exec = json_is_object(exec) ? json_incref(exec) : NULL;
    return 0;
}

/* What a plugin is told about the cluster: spec.cluster of an ExecCredential. */
static json_t *cluster_for_exec(const json_t *cluster)
{
    static const char *const fields[] = {"server", "tls-server-name", "certificate-authority-data",
                                         "proxy-url"};
    json_t *told = json_object();
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        json_t *v = json_object_get(cluster, fields[i]);
        if (v)
            (void)json_object_set(told, fields[i], v); /* a key of ours: never fails */
    }
    size_t i = 0;
    json_t *extension = NULL;
    json_array_foreach(json_object_get(cluster, "extensions"), i,
                       extension) if (strcmp(jstr(extension, "name", ""),
                                             "client.authentication.k8s.io/exec") == 0)(void)
        json_object_set(told, "config", json_object_get(extension, "extension"));
    return told;
}

static int choose(const json_t *all, const char *wanted, struct kube_settings *s, struct err *e)
{
    const char *name = wanted ? wanted : jstr(all, "current-context", "");
    if (name[0] == '\0')
        return err_set(e, ERR_INVALID, 0, "current-context is not set");
    json_t *context = NULL, *cluster = NULL, *user = NULL;
    if (find(all, "contexts", "context", name, &context, e) < 0)
        return -1;
    const char *cluster_name = jstr(context, "cluster", ""), *user_name = jstr(context, "user", "");
    if (take_string(context, "namespace", &s->namespace, e) < 0 ||
        find(all, "clusters", "cluster", cluster_name, &cluster, e) < 0)
        return err_wrap(e, "context \"%s\"", name);
    if (take_cluster(cluster, s, e) < 0)
        return err_wrap(e, "cluster \"%s\"", cluster_name);
    if (user_name[0] == '\0')
        return 0; /* anonymous */
    if (find(all, "users", "user", user_name, &user, e) < 0)
        return err_wrap(e, "context \"%s\"", name);
    if (take_user(user, s, e) < 0)
        return err_wrap(e, "user \"%s\"", user_name);
    s->exec_cluster = s->exec ? cluster_for_exec(cluster) : NULL;
    return 0;
}

int kube_settings_from_files(const struct ctx *ctx, const char *const *paths, size_t n,
                             const char *context, struct kube_settings *out, struct err *e)
{
    json_auto_t *all = json_object();
    bool any = false;
    for (size_t i = 0; i < n; i++) {
        json_auto_t *one = NULL;
        if (read_file(ctx, paths[i], &one, e) < 0) {
            if (e->code == ERR_NOT_FOUND && n > 1)
                continue;
            return err_wrap(e, "kubeconfig");
        }
        any = true;
        merge(all, one);
    }
    if (!any)
        return err_set(e, ERR_NOT_FOUND, 0, "kubeconfig: none of the %zu files exists", n);
    AUTO(kube_settings_done) struct kube_settings s = {0};
    if (choose(all, context, &s, e) < 0)
        return err_wrap(e, "kubeconfig");
    *out = s;
    s = (struct kube_settings){0};
    return 0;
}
