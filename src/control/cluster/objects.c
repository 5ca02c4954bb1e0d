/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/objects.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/kinds.h"
#include "api/names.h"
#include "base/buf.h"
#include "base/json.h"

enum { TEXT_MAX = 4096, PORT_CLIENT = 2379, PORT_PEER = 2380, PORT_METRICS = 2381 };

/* --- Metadata ------------------------------------------------------------------------------- */

static json_t *owner(const char *kind, const char *name, const char *uid)
{
    return JARR(JOBJ(J("apiVersion", js(API_GROUP_VERSION)), J("kind", js(kind)),
                     J("name", js(name)), J("uid", js(uid)), J("controller", jb(true)),
                     J("blockOwnerDeletion", jb(true))));
}

json_t *object_owners(const struct cluster_ident *c)
{
    return owner(api_kind_name(API_CLUSTER), c->name, c->uid);
}

static json_t *owned_by_member(const json_t *member)
{
    return owner(api_kind_name(API_MEMBER), jstr(member, "metadata.name", ""),
                 jstr(member, "metadata.uid", ""));
}

static json_t *labels_of(const struct cluster_ident *c, const char *component)
{
    return JOBJ(J(API_LABEL_NAME, js("etcd")), J(API_LABEL_INSTANCE, js(c->name)),
                J(API_LABEL_MANAGED_BY, js("etcd-operator")), J(API_LABEL_CLUSTER, js(c->name)),
                J_IF(component, API_LABEL_COMPONENT, js(component)));
}

/* Adds what the user asked for, except keys of ours: those that are there, and those reserved. */
static void merge(json_t *into, const json_t *extra)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)extra, key, value)
    {
        if (!str_starts(str_c(key), STR(API_RESERVED_PREFIX)) && !json_object_get(into, key))
            (void)json_object_set(into, key, value); /* fails only without memory */
    }
}

/* Consumes labels and owners. The annotations field is left out when there are none. */
static json_t *object_meta(const struct cluster_ident *c, const char *name, json_t *take_labels,
                           json_t *take_owners, const json_t *extra)
{
    json_auto_t *annotations = JOBJ();
    merge(take_labels, jget(extra, "labels"));
    merge(annotations, jget(extra, "annotations"));
    return JOBJ(J("name", js(name)), J("namespace", js(c->ns)), J("labels", take_labels),
                J_IF(json_object_size(annotations) > 0, "annotations", json_incref(annotations)),
                J("ownerReferences", take_owners));
}

/* --- Services, budget ----------------------------------------------------------------------- */

static json_t *port(const char *name, int number)
{
    return JOBJ(J("name", js(name)), J("port", ji(number)), J("protocol", js("TCP")),
                J("targetPort", ji(number)));
}

static json_t *selector(const struct cluster_ident *c)
{
    return JOBJ(J(API_LABEL_CLUSTER, js(c->name)));
}

json_t *object_headless_service(const struct cluster_ident *c)
{
    return JOBJ(
        J("apiVersion", js("v1")), J("kind", js("Service")),
        J("metadata", object_meta(c, c->name, labels_of(c, NULL), object_owners(c), c->metadata)),
        J("spec", JOBJ(J("clusterIP", js("None")), J("publishNotReadyAddresses", jb(true)),
                       J("selector", selector(c)),
                       J("ports", JARR(port("client", PORT_CLIENT), port("peer", PORT_PEER))))));
}

json_t *object_client_service(const struct cluster_ident *c)
{
    auto_buf struct buf name = BUF_INIT(TEXT_MAX);
    buf_addf(&name, "%s-client", c->name);
    return JOBJ(
        J("apiVersion", js("v1")), J("kind", js("Service")),
        J("metadata",
          object_meta(c, buf_cstr(&name), labels_of(c, NULL), object_owners(c), c->metadata)),
        J("spec", JOBJ(J("type", js("ClusterIP")), J("publishNotReadyAddresses", jb(false)),
                       J("selector", selector(c)), J("ports", JARR(port("client", PORT_CLIENT))))));
}

static json_t *find_port(const json_t *ports, const char *name)
{
    size_t i = 0;
    json_t *port = NULL;
    json_array_foreach((json_t *)ports, i, port)
    {
        if (strcmp(jstr(port, "name", ""), name) == 0)
            return port;
    }
    return NULL;
}

/* Ours as they have to be, with what the server keeps beside (a node port), and everybody else's.
 */
static json_t *repaired_ports(const json_t *want, const json_t *there)
{
    size_t i = 0;
    json_t *port = NULL, *ports = JARR();
    json_array_foreach((json_t *)there, i, port)
    {
        json_t *ours = find_port(want, jstr(port, "name", ""));
        json_t *kept = json_deep_copy(port);
        if (ours)
            (void)json_object_update(kept, ours); /* fails only without memory */
        (void)json_array_append_new(ports, kept);
    }
    json_array_foreach((json_t *)want, i, port)
    {
        if (!find_port(there, jstr(port, "name", "")))
            (void)json_array_append(ports, port);
    }
    return ports;
}

json_t *object_service_repair(const json_t *want, const json_t *there)
{
    json_auto_t *ports = repaired_ports(jget(want, "spec.ports"), jget(there, "spec.ports"));
    json_auto_t *patch = JOBJ(), *spec = JOBJ();
    json_t *selector = jget(want, "spec.selector"), *labels = jget(want, "metadata.labels");
    const bool publish = jbool(want, "spec.publishNotReadyAddresses", false);
    if (!json_equal(ports, jget(there, "spec.ports")))
        (void)json_object_set(spec, "ports", ports);
    if (jbool(there, "spec.publishNotReadyAddresses", false) != publish)
        (void)json_object_set_new(spec, "publishNotReadyAddresses", jb(publish));
    if (!json_equal(selector, jget(there, "spec.selector"))) {
        /* A merge patch keeps what it does not name: others' keys are named, to go. */
        json_t *exact = json_copy(selector);
        const char *key = NULL;
        json_t *value = NULL;
        json_object_foreach(jget(there, "spec.selector"), key, value)
        {
            if (!json_object_get(selector, key))
                (void)json_object_set_new(exact, key, json_null());
        }
        (void)json_object_set_new(spec, "selector", exact);
    }
    if (json_object_size(spec) > 0)
        (void)json_object_set(patch, "spec", spec);
    if (!jlabel(there, API_LABEL_CLUSTER)) /* without it we would not see the Service */
        (void)json_object_set_new(patch, "metadata", JOBJ(J("labels", json_incref(labels))));
    return json_object_size(patch) > 0 ? json_incref(patch) : NULL;
}

int object_pdb_min_available(size_t voters, int want)
{
    const int anchor = (int)voters > want ? (int)voters : want;
    return voters == 0 || anchor < 1 ? 0 : anchor / 2 + 1;
}

json_t *object_pdb(const struct cluster_ident *c, int min_available)
{
    return JOBJ(
        J("apiVersion", js("policy/v1")), J("kind", js("PodDisruptionBudget")),
        J("metadata", object_meta(c, c->name, labels_of(c, NULL), object_owners(c), c->metadata)),
        J("spec",
          JOBJ(J("minAvailable", ji(min_available)),
               J("selector", JOBJ(J("matchLabels", JOBJ(J(API_LABEL_CLUSTER, js(c->name)),
                                                        J(API_LABEL_ROLE, js("voter")))))))));
}

/* --- Member --------------------------------------------------------------------------------- */

json_t *object_member(const struct cluster_ident *c, const json_t *target, const char *name,
                      const char *token, bool bootstrap, const char *initial_cluster)
{
    static const char *const copied[] = {
        "version",
        "storage",
        "resources",
        "affinity",
        "topologySpreadConstraints",
        "additionalMetadata",
        "options",
        "imagePullSecrets",
    };
    json_t *spec =
        JOBJ(J("clusterName", js(c->name)), J("clusterToken", js(token)),
             J("initialCluster", js(initial_cluster)), J_IF(bootstrap, "bootstrap", jb(true)));
    for (size_t i = 0; i < COUNT_OF(copied); i++) {
        json_t *value = json_object_get(target, copied[i]);
        if (value)
            (void)json_object_set(spec, copied[i], value); /* fails only without memory */
    }
    json_t *metadata = object_meta(c, name, labels_of(c, name), object_owners(c), c->metadata);
    (void)json_object_set_new(metadata, "finalizers", JARR(js(API_FINALIZER_MEMBER)));
    return JOBJ(J("apiVersion", js(API_GROUP_VERSION)), J("kind", js(api_kind_name(API_MEMBER))),
                J("metadata", metadata), J("spec", spec));
}

json_t *object_pvc(const struct cluster_ident *c, const json_t *member)
{
    const char *name = jstr(member, "metadata.name", "");
    const char *class_name = jstr(member, "spec.storage.storageClassName", NULL);
    json_t *size = jget(member, "spec.storage.size");
    auto_buf struct buf claim = BUF_INIT(TEXT_MAX);
    buf_addf(&claim, "data-%s", name);
    return JOBJ(
        J("apiVersion", js("v1")), J("kind", js("PersistentVolumeClaim")),
        J("metadata", object_meta(c, buf_cstr(&claim), labels_of(c, name), owned_by_member(member),
                                  jget(member, "spec.additionalMetadata"))),
        J("spec",
          JOBJ(J("accessModes", JARR(js("ReadWriteOnce"))),
               J_IF(class_name, "storageClassName", js(class_name)),
               J("resources", JOBJ(J("requests", JOBJ(J("storage", json_incref(size)))))))));
}

/* --- Pod ------------------------------------------------------------------------------------ */

static void add_flag(json_t *command, const char *fmt, ...) FORMAT(2, 3);
static void add_flag(json_t *command, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    auto_free char *owned = text;
    (void)json_array_append_new(command, js(n < 0 ? "" : owned));
}

/* One path component and nothing clever; anything else means the volume's root. */
static bool is_safe_subpath(const char *s)
{
    if (!s || !*s || strstr(s, ".."))
        return false;
    for (const char *c = s; *c; c++) {
        const char l = ascii_lower(*c);
        const bool plain = (l >= 'a' && l <= 'z') || ascii_is_digit(l);
        if (!plain && (c == s || !strchr("._-", l)))
            return false;
    }
    return true;
}

static void add_options(json_t *command, const json_t *options)
{
    if (json_is_integer(jget(options, "quotaBackendBytes")))
        add_flag(command, "--quota-backend-bytes=%lld",
                 (long long)jint(options, "quotaBackendBytes", 0));
    const char *mode = jstr(options, "autoCompactionMode", "");
    const char *retention = jstr(options, "autoCompactionRetention", "");
    if (*mode)
        add_flag(command, "--auto-compaction-mode=%s", mode);
    if (*retention)
        add_flag(command, "--auto-compaction-retention=%s", retention);
    if (json_is_integer(jget(options, "snapshotCount")))
        add_flag(command, "--snapshot-count=%lld", (long long)jint(options, "snapshotCount", 0));
}

/* A member that has been part of etcd is started with itself alone as initial cluster: a data
 * directory with a log ignores it, and an empty one makes etcd exit instead of coming back under
 * the old member ID with its votes forgotten. */
static json_t *command_of(const struct cluster_ident *c, const struct pod_input *in)
{
    const char *name = jstr(in->member, "metadata.name", "");
    const char *own_service = jannotation(in->member, API_ANNOTATION_SERVICE);
    const char *service = own_service ? own_service : c->name;
    const char *subpath = jannotation(in->member, API_ANNOTATION_SUBPATH);
    const bool known = *jstr(in->member, "status.memberID", "") != '\0';
    const bool founds = jbool(in->member, "spec.bootstrap", false) && !known && !in->formed;

    auto_buf struct buf peer = BUF_INIT(TEXT_MAX), client = BUF_INIT(TEXT_MAX),
                        self = BUF_INIT(TEXT_MAX);
    api_peer_url(&peer, "http", name, service, c->ns);
    api_client_url(&client, "http", name, service, c->ns);
    buf_addf(&self, "%s=%s", name, buf_cstr(&peer));

    json_t *command = JARR(js("etcd"));
    add_flag(command, "--name=%s", name);
    add_flag(command, "--data-dir=/var/lib/etcd%s%s", is_safe_subpath(subpath) ? "/" : "",
             is_safe_subpath(subpath) ? subpath : "");
    add_flag(command, "--listen-peer-urls=http://0.0.0.0:%d", PORT_PEER);
    add_flag(command, "--listen-client-urls=http://0.0.0.0:%d", PORT_CLIENT);
    add_flag(command, "--advertise-client-urls=%s", buf_cstr(&client));
    add_flag(command, "--initial-advertise-peer-urls=%s", buf_cstr(&peer));
    add_flag(command, "--initial-cluster=%s",
             known ? buf_cstr(&self) : jstr(in->member, "spec.initialCluster", ""));
    add_flag(command, "--initial-cluster-token=%s", jstr(in->member, "spec.clusterToken", ""));
    add_flag(command, "--initial-cluster-state=%s", founds ? "new" : "existing");
    add_flag(command, "--listen-metrics-urls=http://0.0.0.0:%d", PORT_METRICS);
    add_options(command, jget(in->member, "spec.options"));
    return command;
}

static bool is_empty(const json_t *v)
{
    return !v || (json_is_object(v) && json_object_size(v) == 0) ||
           (json_is_array(v) && json_array_size(v) == 0);
}

static json_t *resources_of(const json_t *member)
{
    json_t *given = jget(member, "spec.resources");
    if (is_empty(jget(given, "requests")) && is_empty(jget(given, "limits")) &&
        is_empty(jget(given, "claims")))
        return JOBJ(J("requests", JOBJ(J("cpu", js("100m")), J("memory", js("128Mi")))));
    return json_incref(given);
}

static json_t *container_port(const char *name, int number)
{
    return JOBJ(J("name", js(name)), J("containerPort", ji(number)));
}

static json_t *etcd_container(const struct cluster_ident *c, const struct pod_input *in)
{
    return JOBJ(
        J("name", js("etcd")),
        J("image", jsf("%s:v%s", in->image_repo, jstr(in->member, "spec.version", ""))),
        J("command", command_of(c, in)),
        J("ports", JARR(container_port("client", PORT_CLIENT), container_port("peer", PORT_PEER),
                        container_port("metrics", PORT_METRICS))),
        J("resources", resources_of(in->member)),
        J("securityContext", JOBJ(J("allowPrivilegeEscalation", jb(false)),
                                  J("capabilities", JOBJ(J("drop", JARR(js("ALL"))))))),
        /* deliberately not quorum-aware: a member without quorum is not a member to kill */
        J("livenessProbe",
          JOBJ(J("tcpSocket", JOBJ(J("port", ji(PORT_PEER)))), J("initialDelaySeconds", ji(15)),
               J("periodSeconds", ji(10)), J("failureThreshold", ji(3)))),
        J("readinessProbe",
          JOBJ(J("httpGet", JOBJ(J("path", js("/health")), J("port", ji(PORT_METRICS)))),
               J("initialDelaySeconds", ji(1)), J("periodSeconds", ji(2)),
               J("failureThreshold", ji(5)))),
        J("volumeMounts", JARR(JOBJ(J("name", js("data")), J("mountPath", js("/var/lib/etcd"))))));
}

static json_t *pod_security(void)
{
    return JOBJ(J("runAsNonRoot", jb(true)), J("runAsUser", ji(65532)), J("runAsGroup", ji(65532)),
                J("fsGroup", ji(65532)),
                J("seccompProfile", JOBJ(J("type", js("RuntimeDefault")))));
}

/* A joining etcd resolves its own name before it starts, and asks again only after a second: it
 * need not wait until the cluster's DNS has heard of the Pod. */
static json_t *own_name(const char *name, const char *service, const char *ns)
{
    return JARR(JOBJ(J("ip", js("127.0.0.1")),
                     J("hostnames", JARR(jsf("%s.%s.%s.svc", name, service, ns)))));
}

json_t *object_pod(const struct cluster_ident *c, const struct pod_input *in)
{
    const char *name = jstr(in->member, "metadata.name", "");
    const char *own_service = jannotation(in->member, API_ANNOTATION_SERVICE);
    const char *service = own_service ? own_service : c->name;
    json_t *affinity = jget(in->member, "spec.affinity");
    json_t *spread = jget(in->member, "spec.topologySpreadConstraints");
    json_t *pull = jget(in->member, "spec.imagePullSecrets");
    json_t *labels = labels_of(c, name);
    if (in->voter)
        (void)json_object_set_new(labels, API_LABEL_ROLE, js("voter"));
    return JOBJ(
        J("apiVersion", js("v1")), J("kind", js("Pod")),
        J("metadata", object_meta(c, name, labels, owned_by_member(in->member),
                                  jget(in->member, "spec.additionalMetadata"))),
        J("spec",
          JOBJ(J("hostname", js(name)), J("subdomain", js(service)),
               J("hostAliases", own_name(name, service, c->ns)),
               J("automountServiceAccountToken", jb(false)), J("securityContext", pod_security()),
               J_IF(affinity, "affinity", json_incref(affinity)),
               J_IF(spread, "topologySpreadConstraints", json_incref(spread)),
               J_IF(pull, "imagePullSecrets", json_incref(pull)),
               J("containers", JARR(etcd_container(c, in))),
               J("volumes", JARR(JOBJ(J("name", js("data")),
                                      J("persistentVolumeClaim",
                                        JOBJ(J("claimName", jsf("data-%s", name))))))))));
}
