/* SPDX-License-Identifier: Apache-2.0
 * Where a kind lives in the API, and the paths that follow from it. */
#pragma once
#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"

struct buf;

struct kube_kind {
    const char *group; /* "" for the core group */
    const char *version;
    const char *plural; /* "pods" */
    const char *kind;   /* "Pod" */
    bool namespaced;
};

/* One object, or something of it, or (name NULL) the collection it is in. */
struct kube_ref {
    const struct kube_kind *kind;
    const char *ns, *name;
    const char *sub; /* "status", "scale", "log"; NULL: the object itself */
};

extern const struct kube_kind kube_configmaps;
extern const struct kube_kind kube_crds;
extern const struct kube_kind kube_events; /* events.k8s.io/v1 */
extern const struct kube_kind kube_jobs;
extern const struct kube_kind kube_leases;
extern const struct kube_kind kube_namespaces;
extern const struct kube_kind kube_pdbs;
extern const struct kube_kind kube_pods;
extern const struct kube_kind kube_pvcs;
extern const struct kube_kind kube_secrets;
extern const struct kube_kind kube_services;

enum { KUBE_NAMESPACE_MAX = 63, KUBE_NAME_MAX = 253 };

/* "v1", "apps/v1" */
char *kube_api_version(const struct kube_kind *kind) NONNULL;

/* Appends "/apis/apps/v1/namespaces/a/deployments/b/status". ns NULL: all namespaces; name NULL:
 * the collection; sub NULL: the object itself. Names are escaped. ERR_INVALID: a name that could
 * lead to another path ("", ".", "..") or is too long. */
NODISCARD int kube_path(struct buf *out, const struct kube_kind *kind, const char *ns,
                        const char *name, const char *sub, struct err *e);

/* "configmaps" or "deployments.apps", with "/status": how RBAC and people name it. Owned. */
char *kube_resource(const struct kube_kind *kind, const char *sub) NONNULL;
