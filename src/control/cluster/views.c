/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/views.h"

#include <stdio.h>
#include <string.h>

#include "api/kinds.h"
#include "base/json.h"
#include "base/time.h"
#include "kube/condition.h"

const struct kube_kind kind_clusters = {.group = API_GROUP,
                                        .version = API_VERSION,
                                        .plural = "etcdclusters",
                                        .kind = "EtcdCluster",
                                        .namespaced = true};
const struct kube_kind kind_members = {.group = API_GROUP,
                                       .version = API_VERSION,
                                       .plural = "etcdmembers",
                                       .kind = "EtcdMember",
                                       .namespaced = true};

/* --- UIDs ----------------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    c = ascii_lower(c);
    if (ascii_is_digit(c))
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool uid_parse(const char *text, unsigned char out[VIEW_UID_BYTES])
{
    memset(out, 0, VIEW_UID_BYTES);
    size_t n = 0;
    for (; text && *text; text++) {
        if (*text == '-')
            continue;
        const int digit = hex_digit(*text);
        if (digit < 0 || n >= 2 * (size_t)VIEW_UID_BYTES) {
            memset(out, 0, VIEW_UID_BYTES);
            return false;
        }
        out[n / 2] = (unsigned char)(out[n / 2] << 4 | digit);
        n++;
    }
    if (n == 2 * (size_t)VIEW_UID_BYTES)
        return true;
    memset(out, 0, VIEW_UID_BYTES);
    return false;
}

bool uid_is_zero(const unsigned char uid[VIEW_UID_BYTES])
{
    static const unsigned char zero[VIEW_UID_BYTES];
    return memcmp(uid, zero, VIEW_UID_BYTES) == 0;
}

bool uid_equal(const unsigned char a[VIEW_UID_BYTES], const unsigned char b[VIEW_UID_BYTES])
{
    return memcmp(a, b, VIEW_UID_BYTES) == 0;
}

/* --- Shared --------------------------------------------------------------------------------- */

/* The UID of the object's controller; zero if it has none. */
static void controller_uid(const json_t *object, unsigned char out[VIEW_UID_BYTES])
{
    size_t i = 0;
    const json_t *ref = NULL;
    memset(out, 0, VIEW_UID_BYTES);
    json_array_foreach(jget(object, "metadata.ownerReferences"), i, ref)
    {
        if (jbool(ref, "controller", false))
            (void)uid_parse(jstr(ref, "uid", ""), out); /* zero says it too */
    }
}

/* The key everything of a cluster belongs to: its namespace and the name in the label. */
static void set_owner(const json_t *object, struct intern *strings, struct view *head)
{
    const char *cluster = jlabel(object, API_LABEL_CLUSTER);
    char key[OBJKEY_TEXT_MAX];
    if (!cluster)
        return;
    const int n = snprintf(key, sizeof(key), "%s/%s", istr_text(head->ns), cluster);
    if (n > 0 && (size_t)n < sizeof(key))
        head->owner = intern(strings, str_c(key));
}

static bool is_deleting(const json_t *object)
{
    return jstr(object, "metadata.deletionTimestamp", NULL) != NULL;
}

static const struct istr *intern_or_null(struct intern *strings, const char *text)
{
    return text && *text ? intern(strings, str_c(text)) : NULL;
}

static enum fact condition_fact(const json_t *object, const char *type)
{
    const char *status = jstr(condition_get(jget(object, "status.conditions"), type), "status", "");
    if (strcmp(status, "True") == 0)
        return YES;
    return strcmp(status, "False") == 0 ? NO : UNKNOWN;
}

/* --- Kinds ---------------------------------------------------------------------------------- */

static int project_cluster(const json_t *object, struct intern *strings, struct view *out,
                           struct err *e)
{
    (void)e;
    struct cluster_view *v = (struct cluster_view *)out;
    char key[OBJKEY_TEXT_MAX];
    (void)snprintf(key, sizeof(key), "%s/%s", istr_text(out->ns), out->name);
    out->owner = intern(strings, str_c(key));
    v->generation = jint(object, "metadata.generation", 0);
    v->deleting = is_deleting(object);
    return 0;
}

static bool has_finalizer(const json_t *object)
{
    size_t i = 0;
    const json_t *name = NULL;
    json_array_foreach(jget(object, "metadata.finalizers"), i, name)
    {
        if (json_is_string(name) && strcmp(json_string_value(name), API_FINALIZER_MEMBER) == 0)
            return true;
    }
    return false;
}

/* 16 hexadecimal digits; 0 if there is none, or what stands there is none. */
static uint64_t parse_id(const char *text)
{
    uint64_t id = 0;
    size_t n = 0;
    for (; text[n]; n++) {
        const int digit = hex_digit(text[n]);
        if (digit < 0 || n >= 16)
            return 0;
        id = id << 4 | (uint64_t)digit;
    }
    return id;
}

static int project_member(const json_t *object, struct intern *strings, struct view *out,
                          struct err *e)
{
    struct member_view *v = (struct member_view *)out;
    int64_t created_us = 0;
    if (time_parse(str_c(jstr(object, "metadata.creationTimestamp", "")), &created_us, e) < 0)
        return err_wrap(e, "metadata.creationTimestamp");
    set_owner(object, strings, out);
    controller_uid(object, v->owner_uid);
    v->created_s = created_us / 1000000;
    v->deleting = is_deleting(object);
    v->finalizer = has_finalizer(object);
    v->bootstrap = jbool(object, "spec.bootstrap", false);
    v->dormant = jbool(object, "spec.dormant", false);
    v->pending = *jstr(object, "spec.initialCluster", "") == '\0';
    v->voter = jbool(object, "status.isVoter", false);
    v->member_id = parse_id(jstr(object, "status.memberID", ""));
    (void)uid_parse(jstr(object, "status.podUID", ""), v->pod_uid); /* zero: none recorded */
    (void)uid_parse(jstr(object, "status.pvcUID", ""), v->pvc_uid);
    v->service = intern_or_null(strings, jannotation(object, API_ANNOTATION_SERVICE));
    v->token = intern_or_null(strings, jstr(object, "spec.clusterToken", NULL));
    v->version = intern_or_null(strings, jstr(object, "status.version", NULL));
    v->wanted = intern_or_null(strings, jstr(object, "spec.version", NULL));
    v->drifted = condition_fact(object, "VersionDrifted");
    v->ready = intern_or_null(
        strings, jstr(condition_get(jget(object, "status.conditions"), "Ready"), "reason", NULL));
    v->is_ready = condition_fact(object, "Ready");
    return 0;
}

static void member_done(struct view *out)
{
    struct member_view *v = (struct member_view *)out;
    istr_unref(v->service);
    istr_unref(v->token);
    istr_unref(v->version);
    istr_unref(v->wanted);
    istr_unref(v->ready);
}

bool pod_ended(const char *phase)
{
    return strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0;
}

static int project_pod(const json_t *object, struct intern *strings, struct view *out,
                       struct err *e)
{
    (void)e;
    struct pod_view *v = (struct pod_view *)out;
    const char *role = jlabel(object, API_LABEL_ROLE);
    set_owner(object, strings, out);
    controller_uid(object, v->owner_uid);
    (void)snprintf(v->ip, sizeof(v->ip), "%s", jstr(object, "status.podIP", ""));
    v->ready = condition_fact(object, "Ready");
    v->terminating = is_deleting(object);
    v->labeled_voter = role && strcmp(role, "voter") == 0;
    v->phase = intern_or_null(strings, jstr(object, "status.phase", NULL));
    v->ended = pod_ended(jstr(object, "status.phase", ""));
    return 0;
}

static void pod_done(struct view *out)
{
    istr_unref(((struct pod_view *)out)->phase);
}

static int project_pvc(const json_t *object, struct intern *strings, struct view *out,
                       struct err *e)
{
    (void)e;
    set_owner(object, strings, out);
    controller_uid(object, ((struct pvc_view *)out)->owner_uid);
    return 0;
}

/* Ports are matched by name; what the server fills in by itself is taken as given. */
static bool has_port(const json_t *service, const char *name, int64_t number)
{
    size_t i = 0;
    const json_t *port = NULL;
    json_array_foreach(jget(service, "spec.ports"), i, port)
    {
        if (strcmp(jstr(port, "name", ""), name) == 0)
            return jint(port, "port", 0) == number && jint(port, "targetPort", 0) == number &&
                   strcmp(jstr(port, "protocol", "TCP"), "TCP") == 0;
    }
    return false;
}

static int project_service(const json_t *object, struct intern *strings, struct view *out,
                           struct err *e)
{
    (void)e;
    struct service_view *v = (struct service_view *)out;
    set_owner(object, strings, out);
    controller_uid(object, v->owner_uid);
    const json_t *selector = jget(object, "spec.selector");
    const char *cluster = jlabel(object, API_LABEL_CLUSTER);
    const char *selected = json_string_value(json_object_get(selector, API_LABEL_CLUSTER));
    const bool selects =
        json_object_size(selector) == 1 && cluster && selected && strcmp(selected, cluster) == 0;
    const bool publishes = jbool(object, "spec.publishNotReadyAddresses", false);
    v->headless_ok =
        selects && publishes && has_port(object, "client", 2379) && has_port(object, "peer", 2380);
    v->client_ok = selects && !publishes && has_port(object, "client", 2379);
    return 0;
}

static int project_pdb(const json_t *object, struct intern *strings, struct view *out,
                       struct err *e)
{
    (void)e;
    set_owner(object, strings, out);
    controller_uid(object, ((struct pdb_view *)out)->owner_uid);
    ((struct pdb_view *)out)->min_available =
        jget(object, "spec.maxUnavailable") ? -1 : jint(object, "spec.minAvailable", -1);
    return 0;
}

const struct view_kind view_clusters = {
    .kube = &kind_clusters, .size = sizeof(struct cluster_view), .project = project_cluster};
const struct view_kind view_members = {.kube = &kind_members,
                                       .size = sizeof(struct member_view),
                                       .project = project_member,
                                       .done = member_done};
const struct view_kind view_pods = {
    .kube = &kube_pods, .size = sizeof(struct pod_view), .project = project_pod, .done = pod_done};
const struct view_kind view_pvcs = {
    .kube = &kube_pvcs, .size = sizeof(struct pvc_view), .project = project_pvc};
const struct view_kind view_services = {
    .kube = &kube_services, .size = sizeof(struct service_view), .project = project_service};
const struct view_kind view_pdbs = {
    .kube = &kube_pdbs, .size = sizeof(struct pdb_view), .project = project_pdb};
