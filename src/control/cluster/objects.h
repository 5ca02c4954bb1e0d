/* SPDX-License-Identifier: Apache-2.0
 * The Kubernetes objects of a cluster, as we create them. Pure: each returns an owned json_t. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"

/* Who the objects belong to. Borrowed. */
struct cluster_ident {
    const char *ns, *name, *uid;
    const json_t *metadata; /* additionalMetadata of the target, or NULL */
};

/* What says that the cluster controls an object: its list of owners. */
json_t *object_owners(const struct cluster_ident *c);
json_t *object_headless_service(const struct cluster_ident *c);
json_t *object_client_service(const struct cluster_ident *c);
/* The merge patch that makes a Service what it has to be, as far as it is ours to say: selector,
 * ports by name, whether unready addresses are published, and the label we see it by. Others' ports
 * and labels stay. NULL: nothing differs. */
json_t *object_service_repair(const json_t *want, const json_t *there);

/* An EtcdMember made from the target. initial_cluster is "" for a member etcd has yet to learn of.
 * It is born with our finalizer: no moment without one. */
json_t *object_member(const struct cluster_ident *c, const json_t *target, const char *name,
                      const char *token, bool bootstrap, const char *initial_cluster);

/* The volume of an EtcdMember (the whole stored object). */
json_t *object_pvc(const struct cluster_ident *c, const json_t *member);

struct pod_input {
    const json_t *member;   /* the whole stored EtcdMember */
    const char *image_repo; /* "quay.io/coreos/etcd" */
    bool formed;            /* the cluster has an ID: nobody may found it again */
    bool voter;
};
json_t *object_pod(const struct cluster_ident *c, const struct pod_input *in);

/* minAvailable for this many voters and this target: the quorum of the larger, 0 for none. */
int object_pdb_min_available(size_t voters, int want);
json_t *object_pdb(const struct cluster_ident *c, int min_available);
