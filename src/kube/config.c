/* SPDX-License-Identifier: Apache-2.0
 * An identity is built from the settings and cached. Before it is handed out again, the files it
 * was made of are looked at (inode, size, time): Kubernetes rotates mounted tokens and
 * authorities by switching a symbolic link, which changes the inode. If the new content cannot be
 * read, the old identity stays in use: it is usually still valid, and the server has the last
 * word. */
#include "kube/config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/thread.h"
#include "base/vec.h"
#include "kube/config_exec.h"
#include "kube/config_internal.h"

static const char account_dir_default[] = "/var/run/secrets/kubernetes.io/serviceaccount";

enum { MATERIALS = 4, EXPIRY_MARGIN_S = 10 };

struct stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    struct timespec changed;
};

struct identity {
    struct kube_identity shown; /* first: what callers hold */
    atomic_int refs;
    struct buf ca, cert, key;
    VEC(struct http_header) headers; /* owned names and values */
    char *proxy, *server_name;
};

struct kube_config {
    struct kube_settings settings; /* immutable */
    char *namespace;

    pthread_mutex_t lock; /* guards: everything below; held while files are read and a plugin
                           * runs, so that ten workers do not start ten plugins */
    struct identity *current;
    struct stamp stamps[MATERIALS];
    struct exec_credential plugin;
};

/* --- Identities --- */

static void identity_free(struct identity *id)
{
    buf_wipe(&id->ca);
    buf_wipe(&id->cert);
    buf_wipe(&id->key);
    for (size_t i = 0; i < id->headers.n; i++) {
        free((char *)id->headers.v[i].name);
        secret_free((char *)id->headers.v[i].value);
    }
    vec_done(&id->headers);
    secret_free(id->proxy);
    free(id->server_name);
    free(id);
}

void kube_identity_unref(const struct kube_identity *shown)
{
    struct identity *id = (struct identity *)shown; /* its first field */
    if (id && atomic_fetch_sub(&id->refs, 1) == 1)
        identity_free(id);
}

static void add_header(struct identity *id, char *take_name, char *take_value)
{
    vec_push(&id->headers, (struct http_header){.name = take_name, .value = take_value});
}

static int read_material(const struct ctx *ctx, const struct kube_material *m, struct buf *out,
                         struct err *e)
{
    *out = BUF_INIT(KUBE_SECRET_FILE_MAX);
    if (m->data) {
        (void)buf_add_c(out, m->data); /* was below the same ceiling */
        return 0;
    }
    return m->file ? file_read(ctx, m->file, out, e) : 0;
}

static int add_bearer(struct identity *id, struct str token, const char *where, struct err *e)
{
    token = str_trim(token);
    if (token.n == 0)
        return err_set(e, ERR_INVALID, 0, "%s is empty", where);
    for (size_t i = 0; i < token.n; i++)
        if ((unsigned char)token.p[i] <= ' ' || (unsigned char)token.p[i] >= 0x7f)
            return err_set(e, ERR_INVALID, 0, "%s holds characters that no token has", where);
    add_header(id, xstrdup("Authorization"), xasprintf("Bearer %.*s", (int)token.n, token.p));
    return 0;
}

static int add_credentials(const struct ctx *ctx, struct kube_config *c, struct identity *id,
                           struct err *e)
{
    const struct kube_settings *s = &c->settings;
    if (s->token.data || s->token.file) {
        AUTO(buf_wipe) struct buf token = {0};
        if (read_material(ctx, &s->token, &token, e) < 0 ||
            add_bearer(id, buf_str(&token), s->token.file ? s->token.file : "token", e) < 0)
            return -1;
    } else if (c->plugin.token) {
        if (add_bearer(id, str_c(c->plugin.token), "the plugin's token", e) < 0)
            return -1;
    } else if (s->username) {
        char *pair = xasprintf("%s:%s", s->username, s->password ? s->password : "");
        struct buf value = BUF_INIT(KUBE_SECRET_FILE_MAX);
        buf_add_c(&value, "Basic ");
        (void)base64_encode(&value, str_c(pair)); /* checked on the next line */
        secret_free(pair);
        if (buf_check(&value, "username and password", e) < 0) {
            buf_wipe(&value);
            return -1;
        }
        add_header(id, xstrdup("Authorization"), buf_take(&value));
    }
    return 0;
}

static void add_impersonation(const struct kube_settings *s, struct identity *id)
{
    if (!s->as_user)
        return;
    add_header(id, xstrdup("Impersonate-User"), xstrdup(s->as_user));
    if (s->as_uid)
        add_header(id, xstrdup("Impersonate-Uid"), xstrdup(s->as_uid));
    size_t i = 0;
    json_t *value = NULL;
    json_array_foreach(s->as_groups, i, value) if (json_is_string(value))
        add_header(id, xstrdup("Impersonate-Group"), xstrdup(json_string_value(value)));
    const char *name = NULL;
    json_t *list = NULL;
    json_object_foreach(s->as_extra, name, list)
    {
        auto_buf struct buf header = BUF_INIT(4096);
        buf_add_c(&header, "Impersonate-Extra-");
        http_escape(&header, str_c(name));
        json_array_foreach(list, i, value) if (json_is_string(value))
            add_header(id, xstrdup(buf_cstr(&header)), xstrdup(json_string_value(value)));
    }
}

static int fill_identity(const struct ctx *ctx, struct kube_config *c, struct identity *id,
                         struct err *e)
{
    const struct kube_settings *s = &c->settings;
    if (read_material(ctx, &s->ca, &id->ca, e) < 0)
        return err_wrap(e, "certificate-authority");
    if (c->plugin.cert_pem) {
        id->cert = BUF_INIT(KUBE_SECRET_FILE_MAX);
        id->key = BUF_INIT(KUBE_SECRET_FILE_MAX);
        buf_add_c(&id->cert, c->plugin.cert_pem);
        buf_add_c(&id->key, c->plugin.key_pem);
    } else {
        if (read_material(ctx, &s->cert, &id->cert, e) < 0)
            return err_wrap(e, "client-certificate");
        if (read_material(ctx, &s->key, &id->key, e) < 0)
            return err_wrap(e, "client-key");
    }
    if (add_credentials(ctx, c, id, e) < 0)
        return err_wrap(e, "credentials");
    add_impersonation(s, id);
    id->proxy = s->proxy ? xstrdup(s->proxy) : NULL;
    id->server_name = s->server_name ? xstrdup(s->server_name) : NULL;
    id->shown = (struct kube_identity){
        .tls = {.ca_pem = buf_str(&id->ca),
                .cert_pem = buf_str(&id->cert),
                .key_pem = buf_str(&id->key),
                .server_name = id->server_name},
        .proxy = id->proxy,
        .headers = id->headers.v,
        .n_headers = id->headers.n,
    };
    return 0;
}

/* --- When to make a new one --- */

static void stamp_files(const struct kube_config *c, struct stamp out[MATERIALS])
{
    const struct kube_material *const all[MATERIALS] = {&c->settings.ca, &c->settings.cert,
                                                        &c->settings.key, &c->settings.token};
    for (size_t i = 0; i < MATERIALS; i++) {
        struct stat st;
        memset(&out[i], 0, sizeof(out[i])); /* compared as bytes: no stray padding */
        if (all[i]->file && stat(all[i]->file, &st) == 0) {
            out[i].dev = st.st_dev;
            out[i].ino = st.st_ino;
            out[i].size = st.st_size;
            out[i].changed = st.st_mtim;
        }
    }
}

static bool plugin_is_fresh(const struct ctx *ctx, const struct kube_config *c)
{
    if (!c->settings.exec)
        return true;
    if (!c->plugin.token && !c->plugin.cert_pem)
        return false;
    return c->plugin.expires_us == 0 ||
           c->plugin.expires_us / 1000000 - EXPIRY_MARGIN_S > clock_now_s(ctx->clock);
}

/* The lock is held. */
static int renew(const struct ctx *ctx, struct kube_config *c, const struct stamp *stamps,
                 struct err *e)
{
    if (!plugin_is_fresh(ctx, c)) {
        struct exec_credential fresh = {0};
        if (exec_run(ctx, c->settings.exec, c->settings.exec_cluster, &fresh, e) < 0)
            return -1;
        exec_credential_done(&c->plugin);
        c->plugin = fresh;
    }
    struct identity *id = xcalloc(1, sizeof(*id));
    atomic_init(&id->refs, 1);
    if (fill_identity(ctx, c, id, e) < 0) {
        identity_free(id);
        return -1;
    }
    if (c->current)
        kube_identity_unref(&c->current->shown);
    c->current = id;
    memcpy(c->stamps, stamps, sizeof(c->stamps));
    return 0;
}

int kube_config_identity(const struct ctx *ctx, struct kube_config *c,
                         const struct kube_identity *refused, const struct kube_identity **out,
                         struct err *e)
{
    struct stamp stamps[MATERIALS];
    stamp_files(c, stamps);
    MUTEX_HOLD(&c->lock);
    const bool again = refused && c->current && refused == &c->current->shown;
    if (again)
        exec_credential_done(&c->plugin);
    const bool changed = memcmp(stamps, c->stamps, sizeof(stamps)) != 0;
    if (!c->current || again || changed || !plugin_is_fresh(ctx, c)) {
        /* A file between two states of a rotation: the old identity serves until it is whole. */
        const bool old_serves = c->current && !again && plugin_is_fresh(ctx, c);
        if (renew(ctx, c, stamps, e) < 0 && !old_serves)
            return -1;
    }
    atomic_fetch_add(&c->current->refs, 1);
    *out = &c->current->shown;
    return 0;
}

/* --- Loading --- */

static bool is_loopback(struct str host)
{
    return str_eq(host, STR("localhost")) || str_starts(host, STR("127.")) ||
           str_eq(host, STR("[::1]"));
}

/* "[::1]:6443" → "[::1]", "localhost:8080" → "localhost" */
static struct str without_port(struct str authority)
{
    struct str host, rest;
    if (!str_starts(authority, STR("["))) {
        (void)str_cut(authority, ':', &host, &rest);
        return host;
    }
    return str_cut(authority, ']', &host, &rest) ? str_first(authority, host.n + 1) : authority;
}

static int check_server(struct kube_settings *s, struct err *e)
{
    const struct str url = str_c(s->server);
    const bool tls = str_starts(url, STR("https://")), plain = str_starts(url, STR("http://"));
    struct str authority, path;
    (void)str_cut(str_from(url, tls ? 8 : 7), '/', &authority, &path);
    if ((!tls && !plain) || authority.n == 0 || memchr(authority.p, '@', authority.n))
        return err_set(e, ERR_INVALID, 0, "server \"%s\" is not of the form https://HOST:PORT",
                       s->server);
    const bool secret = s->token.data || s->token.file || s->password || s->exec;
    if (plain && secret && !is_loopback(without_port(authority)))
        return err_set(e, ERR_INVALID, 0,
                       "server \"%s\" would get the credentials in clear text: use https://",
                       s->server);
    for (size_t n = url.n; n > 0 && s->server[n - 1] == '/'; n--)
        s->server[n - 1] = '\0';
    return 0;
}

static int load_account(const struct ctx *ctx, const struct kube_config_source *source,
                        const char *host, struct kube_settings *s, struct err *e)
{
    const char *dir = source->account_dir ? source->account_dir : account_dir_default;
    const char *port = source->env("KUBERNETES_SERVICE_PORT");
    s->server = xasprintf(strchr(host, ':') ? "https://[%s]:%s" : "https://%s:%s", host,
                          port && port[0] != '\0' ? port : "443");
    s->token.file = xasprintf("%s/token", dir);
    s->ca.file = xasprintf("%s/ca.crt", dir);
    auto_free char *namespace_file = xasprintf("%s/namespace", dir);
    auto_buf struct buf namespace = BUF_INIT(4096);
    if (file_read(ctx, namespace_file, &namespace, e) == 0)
        s->namespace = str_dup(str_trim(buf_str(&namespace)));
    else if (e->code != ERR_NOT_FOUND)
        return err_wrap(e, "service account");
    return 0;
}

static int load_listed(const struct ctx *ctx, const char *list, const char *context,
                       struct kube_settings *s, struct err *e)
{
    VEC(char *) paths = {0};
    for (struct str rest = str_c(list), one; rest.n > 0;) {
        (void)str_cut(rest, ':', &one, &rest);
        if (one.n > 0 && paths.n < KUBE_CONFIG_FILES_MAX)
            vec_push(&paths, str_dup(one));
    }
    const int rc =
        kube_settings_from_files(ctx, (const char *const *)paths.v, paths.n, context, s, e);
    for (size_t i = 0; i < paths.n; i++)
        free(paths.v[i]);
    vec_done(&paths);
    return rc;
}

static int load_settings(const struct ctx *ctx, const struct kube_config_source *source,
                         struct kube_settings *s, struct err *e)
{
    if (source->kubeconfig && source->kubeconfig[0] != '\0')
        return kube_settings_from_files(ctx, &source->kubeconfig, 1, source->context, s, e);
    const char *list = source->env("KUBECONFIG");
    if (list && list[0] != '\0')
        return load_listed(ctx, list, source->context, s, e);
    const char *host = source->env("KUBERNETES_SERVICE_HOST");
    if (host && host[0] != '\0')
        return load_account(ctx, source, host, s, e);
    const char *home = source->env("HOME");
    if (!home)
        return err_set(e, ERR_NOT_FOUND, 0,
                       "no kubeconfig given, and not running inside a Kubernetes cluster");
    auto_free char *path = xasprintf("%s/.kube/config", home);
    const char *const paths[] = {path};
    return kube_settings_from_files(ctx, paths, 1, source->context, s, e);
}

int kube_config_load(const struct ctx *ctx, const struct kube_config_source *source,
                     struct kube_config **out, struct err *e)
{
    AUTO(kube_settings_done) struct kube_settings s = {0};
    if (load_settings(ctx, source, &s, e) < 0)
        return -1;
    if (check_server(&s, e) < 0)
        return err_wrap(e, "kubeconfig");
    if (s.exec && exec_check(s.exec, e) < 0)
        return err_wrap(e, "kubeconfig: exec");
    struct kube_config *c = xcalloc(1, sizeof(*c));
    (void)pthread_mutex_init(&c->lock, NULL); /* cannot fail without attributes */
    c->settings = s;
    s = (struct kube_settings){0};
    c->namespace = xstrdup(c->settings.namespace ? c->settings.namespace : "default");
    *out = c;
    return 0;
}

void kube_config_free(struct kube_config *c)
{
    if (!c)
        return;
    if (c->current)
        kube_identity_unref(&c->current->shown);
    exec_credential_done(&c->plugin);
    kube_settings_done(&c->settings);
    free(c->namespace);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
}

const char *kube_config_server(const struct kube_config *c)
{
    return c->settings.server;
}

const char *kube_config_namespace(const struct kube_config *c)
{
    return c->namespace;
}
