/* SPDX-License-Identifier: Apache-2.0
 * The Kubernetes client as a program: one JSON request per line of standard input, one JSON
 * answer per line of standard output, so that the integration tests can say what to call.
 *
 *     {"op":"get","kind":"configmaps","ns":"a","name":"b"}
 *     {"ok":{…}} or {"error":{"code":"NOT_FOUND","reason":"NotFound","text":"…",…}} */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "kube/client.h"
#include "kube/config.h"
#include "net/http.h"

static const struct kube_kind *const kinds[] = {
    &kube_configmaps, &kube_crds, &kube_events, &kube_jobs,    &kube_leases,   &kube_namespaces,
    &kube_pdbs,       &kube_pods, &kube_pvcs,   &kube_secrets, &kube_services,
};

/* A kind by its plural, or given whole in the request. */
static const struct kube_kind *kind_of(const json_t *req, struct kube_kind *own)
{
    const json_t *given = jget(req, "kind");
    if (json_is_object(given)) {
        *own = (struct kube_kind){.group = jstr(given, "group", ""),
                                  .version = jstr(given, "version", "v1"),
                                  .plural = jstr(given, "plural", ""),
                                  .kind = jstr(given, "kind", ""),
                                  .namespaced = jbool(given, "namespaced", true)};
        return own;
    }
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (strcmp(kinds[i]->plural, jstr(req, "kind", "")) == 0)
            return kinds[i];
    return &kube_configmaps;
}

static int collect(void *arg, json_t *object, struct err *e)
{
    (void)e;
    return json_array_append(arg, object);
}

static int do_list(const struct ctx *ctx, struct kube_client *k, const json_t *req,
                   const struct kube_kind *kind, json_t **out, struct err *e)
{
    const struct kube_list what = {.ns = jstr(req, "ns", NULL),
                                   .labels = jstr(req, "labels", NULL),
                                   .fields = jstr(req, "fields", NULL),
                                   .page = (int)jint(req, "page", 0)};
    json_auto_t *items = json_array();
    auto_free char *version = NULL;
    if (kube_list(ctx, k, kind, &what, collect, items, &version, e) < 0)
        return -1;
    *out = JOBJ(J("items", TAKE(items)), J("version", js(version)));
    return 0;
}

static int do_patch(const struct ctx *ctx, struct kube_client *k, const json_t *req,
                    const struct kube_kind *kind, json_t **out, struct err *e)
{
    const bool json_patch = json_is_array(jget(req, "patch"));
    const struct kube_patch how = {.type = json_patch ? KUBE_PATCH_JSON : KUBE_PATCH_MERGE,
                                   .sub = jstr(req, "sub", NULL),
                                   .resource_version = jstr(req, "version", NULL)};
    return kube_patch(ctx, k, kind, jstr(req, "ns", NULL), jstr(req, "name", NULL), &how,
                      jget(req, "patch"), out, e);
}

static int do_delete(const struct ctx *ctx, struct kube_client *k, const json_t *req,
                     const struct kube_kind *kind, struct err *e)
{
    const struct kube_delete how = {.uid = jstr(req, "uid", NULL),
                                    .resource_version = jstr(req, "version", NULL),
                                    .propagation =
                                        (enum kube_propagation)jint(req, "propagation", 0)};
    return kube_delete(ctx, k, kind, jstr(req, "ns", NULL), jstr(req, "name", NULL), &how, e);
}

static int do_logs(const struct ctx *ctx, struct kube_client *k, const json_t *req, json_t **out,
                   struct err *e)
{
    auto_buf struct buf text = BUF_INIT(1024 * 1024);
    const struct kube_logs how = {.container = jstr(req, "container", NULL),
                                  .tail_lines = jint(req, "tail", 0)};
    if (kube_pod_logs(ctx, k, jstr(req, "ns", ""), jstr(req, "name", ""), &how, &text, e) < 0)
        return -1;
    *out = jsn(buf_str(&text));
    return 0;
}

static int do_may(const struct ctx *ctx, struct kube_client *k, const json_t *req,
                  const struct kube_kind *kind, json_t **out, struct err *e)
{
    const struct kube_right right = {.verb = jstr(req, "verb", ""),
                                     .kind = kind,
                                     .sub = jstr(req, "sub", NULL),
                                     .ns = jstr(req, "ns", NULL)};
    bool may = false;
    if (kube_may(ctx, k, &right, &may, e) < 0)
        return -1;
    *out = jb(may);
    return 0;
}

static int run(const struct ctx *ctx, struct kube_client *k, const json_t *req, json_t **out,
               struct err *e)
{
    struct kube_kind own;
    const struct kube_kind *kind = kind_of(req, &own);
    const char *op = jstr(req, "op", ""), *ns = jstr(req, "ns", NULL);
    const char *name = jstr(req, "name", NULL), *sub = jstr(req, "sub", NULL);
    bool yes = false;
    int64_t replicas = 0;
    int rc = 0;
    if (strcmp(op, "get") == 0)
        return kube_get_sub(ctx, k, kind, ns, name, sub, out, e);
    if (strcmp(op, "list") == 0)
        return do_list(ctx, k, req, kind, out, e);
    if (strcmp(op, "create") == 0)
        return kube_create(ctx, k, kind, ns, jget(req, "object"), out, e);
    if (strcmp(op, "patch") == 0)
        return do_patch(ctx, k, req, kind, out, e);
    if (strcmp(op, "delete") == 0)
        return do_delete(ctx, k, req, kind, e);
    if (strcmp(op, "evict") == 0)
        return kube_evict(ctx, k, ns, name, jstr(req, "uid", NULL), e);
    if (strcmp(op, "logs") == 0)
        return do_logs(ctx, k, req, out, e);
    if (strcmp(op, "may") == 0)
        return do_may(ctx, k, req, kind, out, e);
    if (strcmp(op, "set_scale") == 0)
        return kube_set_scale(ctx, k, kind, ns, name, jint(req, "replicas", 0), e);
    if (strcmp(op, "get_scale") == 0) {
        rc = kube_get_scale(ctx, k, kind, ns, name, &replicas, e);
        *out = ji(replicas);
    } else if (strcmp(op, "has_kind") == 0) {
        rc = kube_has_kind(ctx, k, kind, &yes, e);
        *out = jb(yes);
    } else if (strcmp(op, "has_field") == 0) {
        rc = kube_crd_has_field(ctx, k, kind, jstr(req, "field", ""), &yes, e);
        *out = jb(yes);
    } else if (strcmp(op, "limit") == 0) {
        kube_client_limit(k, jint(req, "ms", KUBE_CALL_MS));
    } else {
        return err_set(e, ERR_INVALID, 0, "unknown op %s", op);
    }
    return rc;
}

static void answer(const struct ctx *ctx, struct kube_client *k, const char *line)
{
    struct err e = {0};
    json_auto_t *req = NULL, *out = NULL, *said = NULL;
    const int64_t began_ms = clock_boot_ms(ctx->clock);
    if (jparse(str_c(line), &req, &e) < 0 || run(ctx, k, req, &out, &e) < 0)
        said = JOBJ(J("error", JOBJ(J("code", js(err_code_name(e.code))), J("reason", js(e.reason)),
                                    J("text", js(e.text)), J("origin", ji(e.origin)),
                                    J("retry_after_ms", ji(e.retry_after_ms)))),
                    J("ms", ji(clock_boot_ms(ctx->clock) - began_ms)));
    else
        said = JOBJ(J("ok", out ? TAKE(out) : json_null()));
    auto_buf struct buf text = BUF_INIT(64 * 1024 * 1024);
    if (jdump(said, &text, &e) == 0)
        (void)printf("%s\n", buf_cstr(&text));
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    json_setup();
    (void)signal(SIGPIPE, SIG_IGN);
    struct log_sink sink;
    log_sink_init(&sink, 2, LOG_TEXT, LOG_INFO, &clock_real);
    const struct log lg = {.sink = &sink};
    const struct ctx ctx = ctx_root(&clock_real, &lg);
    struct err e = {0};
    const struct kube_config_source source = {.kubeconfig = argc > 1 ? argv[1] : NULL,
                                              .env = getenv,
                                              .account_dir = getenv("ACCOUNT_DIR")};
    AUTO(kube_config_free_auto) struct kube_config *config = NULL;
    AUTO(kube_client_free_auto) struct kube_client *k = NULL;
    if (http_setup(&e) < 0 || kube_config_load(&ctx, &source, &config, &e) < 0 ||
        kube_client_new(&ctx, config, &k, &e) < 0) {
        (void)fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    char *line = NULL;
    size_t cap = 0;
    while (getline(&line, &cap, stdin) > 0)
        answer(&ctx, k, line);
    free(line);
    return 0;
}
