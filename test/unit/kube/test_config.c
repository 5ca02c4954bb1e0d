/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "kube/config_internal.h"
#include "scratch.h"
#include "unit.h"

static char *env_list; /* $KUBECONFIG */
static bool env_in_cluster;

static char *env(const char *name)
{
    static char host[] = "fd00::1", port[] = "6443";
    if (strcmp(name, "KUBECONFIG") == 0)
        return env_list;
    if (env_in_cluster && strcmp(name, "KUBERNETES_SERVICE_HOST") == 0)
        return host;
    if (env_in_cluster && strcmp(name, "KUBERNETES_SERVICE_PORT") == 0)
        return port;
    return NULL;
}

static struct ctx root(void)
{
    return ctx_root(&clock_real, NULL);
}

static char *put_path(const char *name, const char *text, mode_t mode)
{
    struct err e = {0};
    char *path = xasprintf("%s/%s", scratch_dir, name);
    assert_ok(file_write_durable(path, str_c(text), mode, &e));
    return path;
}

static void put(const char *name, const char *text, mode_t mode)
{
    free(put_path(name, text, mode));
}

static int load(const char *text, struct kube_config **out, struct err *e)
{
    const struct ctx ctx = root();
    auto_free char *path = put_path("config", text, 0600);
    const struct kube_config_source source = {.kubeconfig = path, .env = env};
    return kube_config_load(&ctx, &source, out, e);
}

#define CLUSTER "clusters: [{name: c, cluster: {server: 'https://a:1/'}}]\n"
#define CONTEXT "contexts: [{name: x, context: {cluster: c, user: u, namespace: n}}]\n"
#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: x\n" CONTEXT

static const char *header(const struct kube_identity *id, const char *name)
{
    for (size_t i = 0; i < id->n_headers; i++)
        if (strcmp(id->headers[i].name, name) == 0)
            return id->headers[i].value;
    return "";
}

static void every_kind_of_user(void **state)
{
    (void)state;
    put("token", "from-file\n", 0600);
    put("cert.pem", "CERT", 0600);
    put("key.pem", "KEY", 0600);
    static const struct {
        const char *name, *user, *authorization, *cert, *key;
    } rows[] = {
        {"token", "{token: abc}", "Bearer abc", "", ""},
        {"token file, relative, before token", "{tokenFile: token, token: abc}", "Bearer from-file",
         "", ""},
        {"password", "{username: me, password: secret}", "Basic bWU6c2VjcmV0", "", ""},
        {"pair in place",
         "{client-certificate-data: Q0VSVDI=, client-key-data: S0VZMg==, client-key: nope}", "",
         "CERT2", "KEY2"},
        {"pair by file", "{client-certificate: cert.pem, client-key: ./key.pem}", "", "CERT",
         "KEY"},
        {"nobody", "{}", "", "", ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct ctx ctx = root();
        struct err e = {0};
        AUTO(kube_config_free_auto) struct kube_config *c = NULL;
        auto_free char *text = xasprintf(HEAD CLUSTER "users: [{name: u, user: %s}]", rows[i].user);
        const struct kube_identity *id = NULL;
        if (load(text, &c, &e) < 0 || kube_config_identity(&ctx, c, NULL, &id, &e) < 0)
            fail_msg("%s: %s", rows[i].name, e.text);
        if (strcmp(header(id, "Authorization"), rows[i].authorization) != 0 ||
            !str_eq(id->tls.cert_pem, str_c(rows[i].cert)) ||
            !str_eq(id->tls.key_pem, str_c(rows[i].key)))
            fail_msg("%s: %s", rows[i].name, header(id, "Authorization"));
        assert_string_equal(kube_config_server(c), "https://a:1");
        assert_string_equal(kube_config_namespace(c), "n");
        kube_identity_unref(id);
    }
}

static void what_is_refused_says_why(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *part;
        enum err_code code;
    } rows[] = {
        {"insecure",
         HEAD "clusters: [{name: c, cluster: {server: 'https://a', "
              "insecure-skip-tls-verify: true}}]",
         "insecure-skip-tls-verify is refused", ERR_INVALID},
        {"no context", "current-context: y\n" CONTEXT CLUSTER, "no context \"y\"", ERR_INVALID},
        {"no current", CONTEXT CLUSTER, "current-context is not set", ERR_INVALID},
        {"no cluster", HEAD, "no cluster \"c\"", ERR_INVALID},
        {"no user", HEAD CLUSTER, "no user \"u\"", ERR_INVALID},
        {"no server", HEAD "clusters: [{name: c, cluster: {}}]", "server is missing", ERR_INVALID},
        {"token of a number", HEAD CLUSTER "users: [{name: u, user: {token: 12}}]",
         "token is no string", ERR_INVALID},
        {"half a pair", HEAD CLUSTER "users: [{name: u, user: {client-key-data: S0VZ}}]",
         "need each other", ERR_INVALID},
        {"no base64", HEAD CLUSTER "users: [{name: u, user: {client-key-data: '*'}}]",
         "client-key-data is no base64", ERR_INVALID},
        {"auth-provider", HEAD CLUSTER "users: [{name: u, user: {auth-provider: {name: gcp}}}]",
         "auth-provider is not supported", ERR_INVALID},
        {"token in clear text",
         HEAD "clusters: [{name: c, cluster: {server: 'http://b:8'}}]\n"
              "users: [{name: u, user: {token: t}}]",
         "clear text", ERR_INVALID},
        {"user in the address",
         HEAD "clusters: [{name: c, cluster: {server: 'http://127.1@b'}}]\n"
              "users: [{name: u, user: {token: t}}]",
         "is not of the form", ERR_INVALID},
        {"other scheme",
         HEAD "clusters: [{name: c, cluster: {server: 'ftp://b'}}]\n"
              "users: [{name: u, user: {}}]",
         "is not of the form", ERR_INVALID},
        {"old plugin",
         HEAD CLUSTER "users: [{name: u, user: {exec: {command: x, apiVersion: "
                      "client.authentication.k8s.io/v1alpha1}}}]",
         "is not supported", ERR_INVALID},
        {"plugin with a terminal",
         HEAD CLUSTER "users: [{name: u, user: {exec: {command: x, interactiveMode: Always, "
                      "apiVersion: client.authentication.k8s.io/v1}}}]",
         "no terminal", ERR_INVALID},
        {"groups of nobody", HEAD CLUSTER "users: [{name: u, user: {as-groups: [g]}}]", "need as",
         ERR_INVALID},
        {"no yaml", "a: [", "yaml line", ERR_INVALID},
        {"alias", "a: &x 1\nb: *x\n", "aliases", ERR_INVALID},
        {"two documents", "a: 1\n---\nb: 1\n", "more than one document", ERR_INVALID},
        {"key twice", "a: 1\na: 2\n", "a key twice", ERR_INVALID},
        {"a list", "[1]", "is no kubeconfig", ERR_INVALID},
        {"another kind", "kind: Pod\n", "expected Config", ERR_INVALID},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct kube_config *c = NULL;
        if (load(rows[i].text, &c, &e) == 0 || e.code != rows[i].code ||
            !strstr(e.text, rows[i].part))
            fail_msg("%s: %s", rows[i].name, e.text);
    }
}

static void json_and_loopback_without_tls_are_fine(void **state)
{
    (void)state;
    struct err e = {0};
    AUTO(kube_config_free_auto) struct kube_config *c = NULL;
    assert_ok(load("{\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\",\"context\":"
                   "{\"cluster\":\"c\",\"user\":\"u\"}}],\"clusters\":[{\"name\":\"c\",\"cluster\":"
                   "{\"server\":\"http://127.0.0.1:8080\"}}],\"users\":[{\"name\":\"u\",\"user\":"
                   "{\"token\":\"t\"}}]}",
                   &c, &e));
    assert_string_equal(kube_config_namespace(c), "default");
}

static void impersonation_becomes_headers(void **state)
{
    (void)state;
    const struct ctx ctx = root();
    struct err e = {0};
    AUTO(kube_config_free_auto) struct kube_config *c = NULL;
    assert_ok(load(HEAD CLUSTER "users: [{name: u, user: {as: jane, as-uid: '1', as-groups: [g], "
                                "as-user-extra: {a b: [v]}}}]",
                   &c, &e));
    const struct kube_identity *id = NULL;
    assert_ok(kube_config_identity(&ctx, c, NULL, &id, &e));
    assert_string_equal(header(id, "Impersonate-User"), "jane");
    assert_string_equal(header(id, "Impersonate-Uid"), "1");
    assert_string_equal(header(id, "Impersonate-Group"), "g");
    assert_string_equal(header(id, "Impersonate-Extra-a%20b"), "v");
    kube_identity_unref(id);
}

/* The first file that names an entry wins, whole; a missing file is skipped. */
static void several_files_are_merged_as_kubectl_does(void **state)
{
    (void)state;
    const struct ctx ctx = root();
    struct err e = {0};
    auto_free char *a = put_path("a", "users: [{name: u, user: {token: first}}]\n", 0600);
    auto_free char *b =
        put_path("b", HEAD CLUSTER "users: [{name: u, user: {token: second, as: x}}]\n", 0600);
    auto_free char *d = put_path("d",
                                 "current-context: other\nclusters: [{name: c, cluster: {server: "
                                 "'https://later'}}]\n",
                                 0600);
    auto_free char *list = xasprintf("%s/absent:%s::%s:%s", scratch_dir, a, b, d);
    env_list = list;
    const struct kube_config_source source = {.env = env};
    AUTO(kube_config_free_auto) struct kube_config *c = NULL;
    assert_ok(kube_config_load(&ctx, &source, &c, &e));
    env_list = NULL;
    assert_string_equal(kube_config_server(c), "https://a:1");
    const struct kube_identity *id = NULL;
    assert_ok(kube_config_identity(&ctx, c, NULL, &id, &e));
    assert_string_equal(header(id, "Authorization"), "Bearer first");
    assert_string_equal(header(id, "Impersonate-User"), "");
    kube_identity_unref(id);
}

static void nothing_at_all_is_said(void **state)
{
    (void)state;
    const struct ctx ctx = root();
    struct err e = {0};
    struct kube_config *c = NULL;
    const struct kube_config_source source = {.env = env};
    assert_err(kube_config_load(&ctx, &source, &c, &e), ERR_NOT_FOUND, "no kubeconfig");
    const struct kube_config_source missing = {.env = env, .kubeconfig = "/nowhere/config"};
    assert_err(kube_config_load(&ctx, &missing, &c, &e), ERR_NOT_FOUND, "/nowhere/config");
}

static void the_account_of_a_pod_rotates(void **state)
{
    (void)state;
    const struct ctx ctx = root();
    struct err e = {0};
    put("token", "one", 0600);
    put("ca.crt", "CA1", 0600);
    put("namespace", "prod\n", 0600);
    const struct kube_config_source source = {.env = env, .account_dir = scratch_dir};
    env_in_cluster = true;
    AUTO(kube_config_free_auto) struct kube_config *c = NULL;
    assert_ok(kube_config_load(&ctx, &source, &c, &e));
    env_in_cluster = false;
    assert_string_equal(kube_config_server(c), "https://[fd00::1]:6443");
    assert_string_equal(kube_config_namespace(c), "prod");

    const struct kube_identity *first = NULL, *same = NULL, *second = NULL, *third = NULL;
    assert_ok(kube_config_identity(&ctx, c, NULL, &first, &e));
    assert_ok(kube_config_identity(&ctx, c, NULL, &same, &e));
    assert_ptr_equal(first, same);

    auto_free char *token = put_path("token", "two", 0600); /* another inode, as kubelet does it */
    put("ca.crt", "CA2", 0600);
    assert_ok(kube_config_identity(&ctx, c, NULL, &second, &e));
    assert_string_equal(header(second, "Authorization"), "Bearer two");
    assert_true(str_eq(second->tls.ca_pem, STR("CA2")));
    assert_string_equal(header(first, "Authorization"), "Bearer one"); /* still whole */

    assert_int_equal(unlink(token), 0); /* between two states: the last one serves */
    assert_ok(kube_config_identity(&ctx, c, NULL, &third, &e));
    assert_ptr_equal(second, third);
    kube_identity_unref(first);
    kube_identity_unref(same);
    kube_identity_unref(second);
    kube_identity_unref(third);
}

/* --- Plugins --- */

#define PLUGIN                                                                                     \
    HEAD CLUSTER "users: [{name: u, user: {exec: {command: ./plugin, args: ['a b', $(x)], "        \
                 "env: [{name: EXTRA, value: e}], installHint: get it somewhere, "                 \
                 "provideClusterInfo: true, apiVersion: client.authentication.k8s.io/v1}}}]"

static int ask_plugin(const char *script, int64_t within_ms, struct kube_config **c,
                      const struct kube_identity **out, struct err *e)
{
    const struct ctx all = root();
    const struct ctx ctx = ctx_with_timeout(&all, within_ms);
    put("plugin", script, 0700);
    if (load(PLUGIN, c, e) < 0)
        return -1;
    return kube_config_identity(&ctx, *c, NULL, out, e);
}

#define ANSWER(status)                                                                             \
    "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\","       \
    "\"status\":" status "}'\n"

static void a_plugin_gives_a_token(void **state)
{
    (void)state;
    const struct ctx ctx = root();
    struct err e = {0};
    AUTO(kube_config_free_auto) struct kube_config *c = NULL;
    const struct kube_identity *id = NULL, *again = NULL, *renewed = NULL;
    assert_ok(
        ask_plugin("#!/bin/sh\n"
                   "[ \"$1\" = 'a b' ] && [ \"$2\" = '$(x)' ] && [ \"$EXTRA\" = e ] || exit 3\n"
                   "case $KUBERNETES_EXEC_INFO in *'\"server\":\"https://a:1/\"'*) ;; *) exit "
                   "4;; esac\n"
                   "cd \"$(dirname \"$0\")\" && echo >>runs\n"
                   "echo noise >&2\n" ANSWER("{\"token\":\"plug\"}"),
                   10000, &c, &id, &e));
    assert_string_equal(header(id, "Authorization"), "Bearer plug");
    assert_ok(kube_config_identity(&ctx, c, NULL, &again, &e));
    assert_ptr_equal(again, id);
    assert_ok(kube_config_identity(&ctx, c, again, &renewed, &e)); /* the server answered 401 */
    assert_ptr_not_equal(renewed, id);
    struct stat runs;
    auto_free char *path = xasprintf("%s/runs", scratch_dir);
    assert_int_equal(stat(path, &runs), 0);
    assert_int_equal(runs.st_size, 2);
    (void)unlink(path);
    kube_identity_unref(id);
    kube_identity_unref(again);
    kube_identity_unref(renewed);
}

static void an_expired_credential_is_asked_for_again(void **state)
{
    (void)state;
    const struct ctx ctx = root();
    struct err e = {0};
    AUTO(kube_config_free_auto) struct kube_config *c = NULL;
    const struct kube_identity *id = NULL, *again = NULL;
    assert_ok(ask_plugin("#!/bin/sh\n" ANSWER("{\"clientCertificateData\":\"C\",\"clientKeyData\":"
                                              "\"K\",\"expirationTimestamp\":\"2020-01-01T00:00:"
                                              "00Z\"}"),
                         10000, &c, &id, &e));
    assert_true(str_eq(id->tls.cert_pem, STR("C")));
    assert_ok(kube_config_identity(&ctx, c, NULL, &again, &e));
    assert_ptr_not_equal(again, id);
    kube_identity_unref(id);
    kube_identity_unref(again);
}

static void a_bad_plugin_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *name, *script, *part;
        enum err_code code;
    } rows[] = {
        {"fails", "#!/bin/sh\necho 'password=hunter2 expired' >&2\nexit 7\n", "code 7", ERR_DENIED},
        {"hangs", "#!/bin/sh\nsleep 60 & sleep 60\n", "deadline", ERR_TIMEOUT},
        {"talks without end", "#!/bin/sh\nexec cat /dev/zero\n", "more than", ERR_TOO_BIG},
        {"no JSON", "#!/bin/sh\necho secret-looking-thing\n", "did not print JSON", ERR_INVALID},
        {"nothing in it", "#!/bin/sh\n" ANSWER("{}"), "neither a token", ERR_INVALID},
        {"half a pair", "#!/bin/sh\n" ANSWER("{\"clientKeyData\":\"K\"}"), "neither a token",
         ERR_INVALID},
        {"token with a line break", "#!/bin/sh\n" ANSWER("{\"token\":\"a\\\\nb\"}"), "no token has",
         ERR_INVALID},
        {"cannot run", "#!/nowhere/sh\n", "get it somewhere", ERR_NOT_FOUND},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        AUTO(kube_config_free_auto) struct kube_config *c = NULL;
        const struct kube_identity *id = NULL;
        const int64_t began_ms = clock_boot_ms(&clock_real);
        const bool hangs = rows[i].code == ERR_TIMEOUT;
        if (ask_plugin(rows[i].script, hangs ? 500 : 30000, &c, &id, &e) == 0 ||
            e.code != rows[i].code || !strstr(e.text, rows[i].part) || strstr(e.text, "hunter2") ||
            strstr(e.text, "secret-looking"))
            fail_msg("%s: %s %s", rows[i].name, err_code_name(e.code), e.text);
        assert_true(!hangs || clock_boot_ms(&clock_real) - began_ms < 10000); /* not the 60 s */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_kind_of_user),
        TEST(what_is_refused_says_why),
        TEST(json_and_loopback_without_tls_are_fine),
        TEST(impersonation_becomes_headers),
        TEST(several_files_are_merged_as_kubectl_does),
        TEST(nothing_at_all_is_said),
        TEST(the_account_of_a_pod_rotates),
        TEST(a_plugin_gives_a_token),
        TEST(an_expired_credential_is_asked_for_again),
        TEST(a_bad_plugin_is_named),
    };
    return cmocka_run_group_tests(tests, scratch_set_up, scratch_remove_all);
}
