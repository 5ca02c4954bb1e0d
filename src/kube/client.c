/* SPDX-License-Identifier: Apache-2.0
 * Every call goes through call(): one place for identity, deadline, guard and the meaning of the
 * answer. A 401 is certainly not done, so it is asked once more with renewed credentials. */
#include "kube/client.h"

#include <string.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/fault.h"
#include "base/mem.h"
#include "kube/client_internal.h"
#include "kube/config.h"
#include "kube/split.h"
#include "kube/status.h"
#include "net/http.h"

enum { URL_MAX = 64 * 1024, BODY_MAX = 4 * 1024 * 1024 };

int kube_client_new(const struct ctx *ctx, struct kube_config *config, struct kube_client **out,
                    struct err *e)
{
    struct kube_client *k = xcalloc(1, sizeof(*k));
    k->config = config;
    k->call_ms = KUBE_CALL_MS;
    if (http_client_new(ctx->clock, &k->http, e) < 0) {
        free(k);
        return -1;
    }
    *out = k;
    return 0;
}

void kube_client_free(struct kube_client *k)
{
    if (!k)
        return;
    while (k->streams)
        kube_stream_close(k->streams);
    http_client_free(k->http);
    kube_identity_unref(k->refused);
    free(k);
}

void kube_client_guard(struct kube_client *k, struct kube_guard guard)
{
    k->guard = guard;
}

void kube_client_limit(struct kube_client *k, int64_t call_ms)
{
    k->call_ms = call_ms;
}

void kube_query_add(struct buf *query, const char *name, const char *value)
{
    if (!value)
        return;
    if (query->n > 0)
        buf_add_char(query, '&');
    buf_addf(query, "%s=", name);
    http_escape(query, str_c(value));
}

/* --- One call --- */

struct call {
    const char *method; /* of HTTP */
    const char *verb;   /* as RBAC names it */
    struct kube_ref at;
    const char *shown; /* the name in messages, if the path has none */
    const char *path;  /* instead of all that, for what is no resource */
    const char *query; /* escaped; may be NULL */
    const char *content_type;
    const json_t *body;
    bool harmless; /* a POST that changes nothing: access reviews */
    int (*on_data)(void *arg, struct str piece, struct err *e);
    void *arg;
};

struct sending {
    struct kube_client *k;
    const struct ctx *ctx;
    const struct call *c;
    const char *url;
    struct str body;
};

static bool is_mutating(const struct call *c)
{
    return strcmp(c->method, "GET") != 0 && !c->harmless;
}

static int ask_guard(const struct ctx *ctx, const struct kube_client *k, struct err *e)
{
    return k->guard.may_write ? k->guard.may_write(k->guard.arg, ctx_left_ms(ctx), e) : 0;
}

static int may_send(void *arg, struct err *e)
{
    const struct sending *s = arg;
    return ask_guard(s->ctx, s->k, e);
}

static int on_data(void *arg, struct str piece, struct err *e)
{
    const struct sending *s = arg;
    return s->c->on_data(s->c->arg, piece, e);
}

int kube_url(const struct kube_client *k, const struct kube_ref *at, const char *query,
             struct buf *out, struct err *e)
{
    buf_add_c(out, kube_config_server(k->config));
    if (kube_path(out, at->kind, at->ns, at->name, at->sub, e) < 0)
        return -1;
    if (query && query[0] != '\0')
        buf_addf(out, "?%s", query);
    return buf_check(out, "address", e);
}

void kube_headers(const struct kube_identity *id, const char *accept, const char *content_type,
                  struct kube_headers *out)
{
    out->n = 0;
    for (size_t i = 0; i < id->n_headers && out->n < COUNT_OF(out->v) - 2; i++)
        out->v[out->n++] = id->headers[i];
    out->v[out->n++] = (struct http_header){"Accept", accept};
    if (content_type)
        out->v[out->n++] = (struct http_header){"Content-Type", content_type};
}

static int send_once(struct sending *s, const struct kube_identity *id, struct http_response *resp,
                     struct err *e)
{
    const struct call *c = s->c;
    struct kube_headers headers;
    kube_headers(id, c->on_data ? "*/*" : "application/json",
                 s->body.n > 0 ? c->content_type : NULL, &headers);
    const struct http_request req = {
        .method = c->method,
        .url = s->url,
        .headers = headers.v,
        .n_headers = headers.n,
        .body = s->body,
        .tls = &id->tls,
        .proxy = id->proxy,
        .body_max = KUBE_OBJECT_MAX,
        .mutating = is_mutating(c),
        .may_send = is_mutating(c) ? may_send : NULL,
        .on_data = c->on_data ? on_data : NULL,
        .arg = s,
    };
    return http_do(s->ctx, s->k->http, &req, resp, e);
}

static int send_authenticated(struct sending *s, struct http_response *resp, struct err *e)
{
    const struct kube_identity *refused = NULL;
    int rc = -1;
    for (int attempt = 0; attempt < 2; attempt++) {
        const struct kube_identity *id = NULL;
        rc = kube_config_identity(s->ctx, s->k->config, refused, &id, e);
        kube_identity_unref(refused);
        refused = NULL;
        if (rc < 0)
            return -1;
        http_response_done(resp);
        rc = send_once(s, id, resp, e);
        refused = id;
        if (rc < 0 || resp->status != 401)
            break;
    }
    kube_identity_unref(refused);
    return rc;
}

/* What was being done, in the words RBAC uses: "patch leases.coordination.k8s.io a/b". */
int kube_err_wrap(const char *verb, const struct kube_ref *at, struct err *e)
{
    auto_free char *resource = kube_resource(at->kind, at->sub);
    const char *ns = at->ns, *name = at->name;
    if (e->code == ERR_DENIED && e->origin == 403 && strcmp(e->reason, "Forbidden") == 0)
        err_wrap(e, "the right to %s %s%s%s is missing", verb, resource,
                 ns ? " in namespace " : " in all namespaces", ns ? ns : "");
    return err_wrap(e, "%s %s%s%s%s%s", verb, resource, ns || name ? " " : "", ns ? ns : "",
                    ns && name ? "/" : "", name ? name : "");
}

static int wrap(const struct call *c, struct err *e)
{
    if (c->path)
        return err_wrap(e, "%s %s", c->verb, c->path);
    struct kube_ref at = c->at;
    if (!at.name)
        at.name = c->shown;
    return kube_err_wrap(c->verb, &at, e);
}

static int call(const struct ctx *parent, struct kube_client *k, const struct call *c,
                struct http_response *resp, struct err *e)
{
    const struct ctx ctx = ctx_with_timeout(parent, k->call_ms);
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    AUTO(buf_wipe) struct buf body = BUF_INIT(BODY_MAX);
    if (c->path)
        buf_addf(&url, "%s%s", kube_config_server(k->config), c->path);
    else if (kube_url(k, &c->at, c->query, &url, e) < 0)
        return wrap(c, e);
    if (c->body && jdump(c->body, &body, e) < 0)
        return wrap(c, e);
    if (is_mutating(c) && ask_guard(&ctx, k, e) < 0)
        return wrap(c, e);
    struct sending sending = {
        .k = k, .ctx = &ctx, .c = c, .url = buf_cstr(&url), .body = buf_str(&body)};
    if (send_authenticated(&sending, resp, e) < 0)
        return wrap(c, e);
    if (resp->status >= 300) {
        kube_status_error(resp, is_mutating(c), e);
        return wrap(c, e);
    }
    if (is_mutating(c))
        fault_called(c->method, buf_cstr(&url) + strlen(kube_config_server(k->config)));
    return 0;
}

/* A call whose answer is one object, or does not matter (out NULL). */
static int call_json(const struct ctx *ctx, struct kube_client *k, const struct call *c,
                     json_t **out, struct err *e)
{
    AUTO(http_response_done) struct http_response resp = {0};
    if (call(ctx, k, c, &resp, e) < 0)
        return -1;
    if (!out)
        return 0;
    json_t *object = NULL;
    if (jparse(buf_str(&resp.body), &object, e) < 0) {
        e->code = is_mutating(c) ? ERR_OUTCOME_UNKNOWN : ERR_CORRUPT;
        return wrap(c, e);
    }
    *out = object;
    return 0;
}

/* --- Objects --- */

int kube_get(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
             const char *ns, const char *name, json_t **out, struct err *e)
{
    return kube_get_sub(ctx, k, kind, ns, name, NULL, out, e);
}

/* NOLINTNEXTLINE(readability-function-size): what an object is called takes three of them */
int kube_get_sub(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                 const char *ns, const char *name, const char *sub, json_t **out, struct err *e)
{
    const struct call c = {.method = "GET", .verb = "get", .at = {kind, ns, name, sub}};
    return call_json(ctx, k, &c, out, e);
}

int kube_create(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                const char *ns, const json_t *object, json_t **out, struct err *e)
{
    const struct call c = {.method = "POST",
                           .verb = "create",
                           .at = {.kind = kind, .ns = ns},
                           .shown = jstr(object, "metadata.name", NULL),
                           .content_type = "application/json",
                           .body = object};
    return call_json(ctx, k, &c, out, e);
}

/* A resourceVersion inside the patch makes the server compare it: 409 if it moved on. In a JSON
 * patch "add" replaces it; "test" would do the same, but its failure is a 422 without a reason. */
static json_t *with_version(const json_t *patch, const struct kube_patch *how)
{
    json_t *guarded = json_deep_copy(patch);
    if (how->type == KUBE_PATCH_JSON) {
        (void)json_array_insert_new(guarded, 0, /* never fails at the front */
                                    JOBJ(J("op", js("add")),
                                         J("path", js("/metadata/resourceVersion")),
                                         J("value", js(how->resource_version))));
        return guarded;
    }
    json_t *meta = json_object_get(guarded, "metadata");
    if (!json_is_object(meta)) {
        meta = json_object();
        (void)json_object_set_new(guarded, "metadata", meta); /* keys of ours: never fail */
    }
    (void)json_object_set_new(meta, "resourceVersion", js(how->resource_version));
    return guarded;
}

/* NOLINTNEXTLINE(readability-function-size): what an object is called takes three of them */
int kube_patch(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
               const char *ns, const char *name, const struct kube_patch *how, const json_t *patch,
               json_t **out, struct err *e)
{
    json_auto_t *guarded = how->resource_version ? with_version(patch, how) : NULL;
    const struct call c = {.method = "PATCH",
                           .verb = "patch",
                           .at = {kind, ns, name, how->sub},
                           .content_type = how->type == KUBE_PATCH_JSON
                                               ? "application/json-patch+json"
                                               : "application/merge-patch+json",
                           .body = guarded ? guarded : patch};
    return call_json(ctx, k, &c, out, e);
}

int kube_delete(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                const char *ns, const char *name, const struct kube_delete *how, struct err *e)
{
    static const char *const propagations[] = {[KUBE_BACKGROUND] = "Background",
                                               [KUBE_FOREGROUND] = "Foreground",
                                               [KUBE_ORPHAN] = "Orphan"};
    const bool guarded = how->uid || how->resource_version;
    json_auto_t *options =
        JOBJ(J("apiVersion", js("v1")), J("kind", js("DeleteOptions")),
             J("propagationPolicy", js(propagations[how->propagation])),
             J_IF(how->grace_s > 0, "gracePeriodSeconds", ji(how->grace_s)),
             J_IF(guarded, "preconditions",
                  JOBJ(J_IF(how->uid, "uid", js(how->uid)),
                       J_IF(how->resource_version, "resourceVersion", js(how->resource_version)))));
    const struct call c = {.method = "DELETE",
                           .verb = "delete",
                           .at = {.kind = kind, .ns = ns, .name = name},
                           .content_type = "application/json",
                           .body = options};
    return call_json(ctx, k, &c, NULL, e);
}

int kube_evict(const struct ctx *ctx, struct kube_client *k, const char *ns, const char *pod,
               const char *uid, struct err *e)
{
    json_auto_t *eviction =
        JOBJ(J("apiVersion", js("policy/v1")), J("kind", js("Eviction")),
             J("metadata", JOBJ(J("namespace", js(ns)), J("name", js(pod)))),
             J_IF(uid, "deleteOptions", JOBJ(J("preconditions", JOBJ(J("uid", js(uid)))))));
    const struct call c = {.method = "POST",
                           .verb = "create",
                           .at = {&kube_pods, ns, pod, "eviction"},
                           .content_type = "application/json",
                           .body = eviction};
    return call_json(ctx, k, &c, NULL, e);
}

int kube_get_scale(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                   const char *ns, const char *name, int64_t *out_replicas, struct err *e)
{
    json_auto_t *scale = NULL;
    if (kube_get_sub(ctx, k, kind, ns, name, "scale", &scale, e) < 0)
        return -1;
    *out_replicas = jint(scale, "spec.replicas", 0); /* left out when it is zero */
    return 0;
}

int kube_set_scale(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                   const char *ns, const char *name, int64_t replicas, struct err *e)
{
    json_auto_t *patch = JOBJ(J("spec", JOBJ(J("replicas", ji(replicas)))));
    const struct kube_patch how = {.type = KUBE_PATCH_MERGE, .sub = "scale"};
    return kube_patch(ctx, k, kind, ns, name, &how, patch, NULL, e);
}

/* --- Lists --- */

struct listing {
    struct split split;
    const struct kube_list *what;
    int (*each)(void *arg, json_t *object, struct err *e);
    void *arg;
};

static int list_item(void *arg, const struct split_item *item, struct err *e)
{
    const struct listing *l = arg;
    json_auto_t *object = NULL;
    struct split_id id = {0};
    if (item->too_big) {
        return err_set(e, ERR_CORRUPT, 0, "object %s/%s is larger than %d bytes", item->id->ns,
                       item->id->name, KUBE_OBJECT_MAX);
    }
    if (jparse(item->text, &object, e) < 0) {
        const bool known = split_salvage(SPLIT_LIST, item->text, &id);
        e->code = ERR_CORRUPT;
        return err_wrap(e, "object %s/%s", known ? id.ns : "?", known ? id.name : "?");
    }
    return l->each(l->arg, object, e);
}

static int list_data(void *arg, struct str piece, struct err *e)
{
    struct listing *l = arg;
    return split_feed(&l->split, piece, list_item, l, e);
}

static int list_page(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                     struct listing *l, char **token, struct err *e)
{
    const struct kube_list *what = l->what;
    auto_buf struct buf query = BUF_INIT(URL_MAX);
    auto_free char *limit = xasprintf("%d", what->page > 0 ? what->page : KUBE_PAGE);
    kube_query_add(&query, "limit", limit);
    kube_query_add(&query, "labelSelector", what->labels);
    kube_query_add(&query, "fieldSelector", what->fields);
    kube_query_add(&query, "continue", *token);
    free(TAKE(*token));
    const struct call c = {.method = "GET",
                           .verb = "list",
                           .at = {.kind = kind, .ns = what->ns},
                           .query = buf_cstr(&query),
                           .on_data = list_data,
                           .arg = l};
    AUTO(http_response_done) struct http_response resp = {0};
    if (call(ctx, k, &c, &resp, e) < 0)
        return -1;
    if (split_end(&l->split, e) < 0)
        return wrap(&c, e);
    *token = TAKE(l->split.token);
    return 0;
}

/* NOLINTNEXTLINE(readability-function-size): a callback takes two */
int kube_list(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
              const struct kube_list *what, int (*each)(void *arg, json_t *object, struct err *e),
              void *arg, char **out_version, struct err *e)
{
    auto_free char *token = NULL;
    struct listing l = {.what = what, .each = each, .arg = arg};
    int rc = 0;
    do {
        split_init(&l.split, SPLIT_LIST, KUBE_OBJECT_MAX);
        rc = list_page(ctx, k, kind, &l, &token, e);
        if (rc == 0 && !token && out_version)
            *out_version = xstrdup(l.split.version);
        split_done(&l.split);
    } while (rc == 0 && token);
    return rc;
}

/* --- Logs --- */

static int log_data(void *arg, struct str piece, struct err *e)
{
    struct buf *out = arg;
    (void)buf_add_str(out, piece); /* checked on the next line */
    return buf_check(out, "log", e);
}

int kube_pod_logs(const struct ctx *ctx, struct kube_client *k, const char *ns, const char *pod,
                  const struct kube_logs *how, struct buf *out, struct err *e)
{
    auto_buf struct buf query = BUF_INIT(URL_MAX);
    auto_free char *tail =
        how->tail_lines > 0 ? xasprintf("%lld", (long long)how->tail_lines) : NULL;
    auto_free char *limit =
        xasprintf("%lld", (long long)(how->limit_bytes > 0 ? how->limit_bytes : KUBE_LOG_MAX));
    kube_query_add(&query, "container", how->container);
    kube_query_add(&query, "previous", how->previous ? "true" : NULL);
    kube_query_add(&query, "tailLines", tail);
    kube_query_add(&query, "limitBytes", limit);
    const struct call c = {.method = "GET",
                           .verb = "get",
                           .at = {&kube_pods, ns, pod, "log"},
                           .query = buf_cstr(&query),
                           .on_data = log_data,
                           .arg = out};
    AUTO(http_response_done) struct http_response resp = {0};
    return call(ctx, k, &c, &resp, e);
}

/* --- What the server knows and allows --- */

int kube_has_kind(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                  bool *out, struct err *e)
{
    auto_free char *path = kind->group[0] == '\0'
                               ? xasprintf("/api/%s", kind->version)
                               : xasprintf("/apis/%s/%s", kind->group, kind->version);
    const struct call c = {.method = "GET", .verb = "get", .path = path};
    json_auto_t *resources = NULL;
    if (call_json(ctx, k, &c, &resources, e) < 0) {
        if (e->code != ERR_NOT_FOUND)
            return -1;
        *out = false;
        return 0;
    }
    *out = false;
    size_t i = 0;
    json_t *r = NULL;
    json_array_foreach(jget(resources, "resources"), i,
                       r) if (strcmp(jstr(r, "name", ""), kind->plural) == 0 &&
                              strcmp(jstr(r, "kind", ""), kind->kind) == 0) *out = true;
    return 0;
}

static const json_t *schema_of(const json_t *crd, const char *version)
{
    size_t i = 0;
    json_t *v = NULL;
    json_array_foreach(jget(crd, "spec.versions"), i,
                       v) if (strcmp(jstr(v, "name", ""), version) ==
                              0) return jget(v, "schema.openAPIV3Schema");
    return NULL;
}

static const json_t *schema_step(const json_t *schema, struct str key)
{
    if (str_eq(key, STR("[]")))
        return jget(schema, "items");
    const json_t *found = json_object_getn(jget(schema, "properties"), key.p, key.n);
    return found ? found : jget(schema, "additionalProperties");
}

int kube_crd_has_field(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                       const char *field, bool *out, struct err *e)
{
    auto_free char *name = xasprintf("%s.%s", kind->plural, kind->group);
    json_auto_t *crd = NULL;
    if (kube_get(ctx, k, &kube_crds, NULL, name, &crd, e) < 0)
        return -1;
    const json_t *schema = schema_of(crd, kind->version);
    if (!schema)
        return err_set(e, ERR_NOT_FOUND, 0, "%s has no version %s", name, kind->version);
    for (struct str rest = str_c(field), key; schema && rest.n > 0;) {
        (void)str_cut(rest, '.', &key, &rest);
        schema = schema_step(schema, key);
    }
    *out = schema != NULL;
    return 0;
}

int kube_may(const struct ctx *ctx, struct kube_client *k, const struct kube_right *right,
             bool *out, struct err *e)
{
    json_auto_t *review = JOBJ(
        J("apiVersion", js("authorization.k8s.io/v1")), J("kind", js("SelfSubjectAccessReview")),
        J("spec", JOBJ(J("resourceAttributes",
                         JOBJ(J("verb", js(right->verb)), J("group", js(right->kind->group)),
                              J("version", js(right->kind->version)),
                              J("resource", js(right->kind->plural)),
                              J_IF(right->sub, "subresource", js(right->sub)),
                              J_IF(right->ns, "namespace", js(right->ns)),
                              J_IF(right->name, "name", js(right->name)))))));
    const struct call c = {.method = "POST",
                           .verb = "create",
                           .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                           .content_type = "application/json",
                           .body = review,
                           .harmless = true};
    json_auto_t *answer = NULL;
    if (call_json(ctx, k, &c, &answer, e) < 0)
        return -1;
    *out = jbool(answer, "status.allowed", false);
    return 0;
}
