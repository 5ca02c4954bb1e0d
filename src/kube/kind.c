/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kind.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "net/http.h"

#define KIND(group_, version_, plural_, kind_, namespaced_)                                        \
    {                                                                                              \
        .group = (group_), .version = (version_), .plural = (plural_), .kind = (kind_),            \
        .namespaced = (namespaced_)                                                                \
    }

const struct kube_kind kube_configmaps = KIND("", "v1", "configmaps", "ConfigMap", true);
const struct kube_kind kube_crds = KIND("apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                        "CustomResourceDefinition", false);
const struct kube_kind kube_events = KIND("events.k8s.io", "v1", "events", "Event", true);
const struct kube_kind kube_jobs = KIND("batch", "v1", "jobs", "Job", true);
const struct kube_kind kube_leases = KIND("coordination.k8s.io", "v1", "leases", "Lease", true);
const struct kube_kind kube_namespaces = KIND("", "v1", "namespaces", "Namespace", false);
const struct kube_kind kube_pdbs =
    KIND("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true);
const struct kube_kind kube_pods = KIND("", "v1", "pods", "Pod", true);
const struct kube_kind kube_pvcs =
    KIND("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true);
const struct kube_kind kube_secrets = KIND("", "v1", "secrets", "Secret", true);
const struct kube_kind kube_services = KIND("", "v1", "services", "Service", true);

char *kube_api_version(const struct kube_kind *kind)
{
    return kind->group[0] == '\0' ? xstrdup(kind->version)
                                  : xasprintf("%s/%s", kind->group, kind->version);
}

static int add_segment(struct buf *out, const char *what, const char *segment, size_t max,
                       struct err *e)
{
    const struct str s = str_c(segment);
    if (s.n == 0 || s.n > max || strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0)
        return err_set(e, ERR_INVALID, 0, "\"%.*s\" is no %s", STR_ARG(s), what);
    buf_add_char(out, '/');
    http_escape(out, s);
    return 0;
}

int kube_path(struct buf *out, const struct kube_kind *kind, const char *ns, const char *name,
              const char *sub, struct err *e)
{
    if (kind->group[0] == '\0')
        buf_addf(out, "/api/%s", kind->version);
    else
        buf_addf(out, "/apis/%s/%s", kind->group, kind->version);
    if (kind->namespaced && name && !ns)
        return err_set(e, ERR_INVALID, 0, "%s \"%s\" needs a namespace", kind->kind, name);
    if (kind->namespaced && ns) {
        buf_add_c(out, "/namespaces");
        if (add_segment(out, "namespace", ns, KUBE_NAMESPACE_MAX, e) < 0)
            return -1;
    }
    buf_addf(out, "/%s", kind->plural);
    if (name && add_segment(out, "name of an object", name, KUBE_NAME_MAX, e) < 0)
        return -1;
    if (sub)
        buf_addf(out, "/%s", sub);
    return buf_check(out, "path", e);
}

char *kube_resource(const struct kube_kind *kind, const char *sub)
{
    return xasprintf("%s%s%s%s%s", kind->plural, kind->group[0] != '\0' ? "." : "", kind->group,
                     sub ? "/" : "", sub ? sub : "");
}
