/* SPDX-License-Identifier: Apache-2.0
 * Names that users, other controllers and the upstream operator rely on: kinds, labels,
 * annotations, finalizers. Changing one of them orphans running clusters. */
#pragma once

#define API_GROUP "etcd-operator.cozystack.io"
#define API_VERSION "v1alpha2"
#define API_GROUP_VERSION API_GROUP "/" API_VERSION

enum api_kind { API_CLUSTER, API_MEMBER, API_SNAPSHOT, API_DEFRAG };

const char *api_kind_name(enum api_kind kind);   /* "EtcdCluster" */
const char *api_kind_plural(enum api_kind kind); /* "etcdclusters" */

#define API_LABEL_NAME "app.kubernetes.io/name"             /* "etcd" */
#define API_LABEL_INSTANCE "app.kubernetes.io/instance"     /* the cluster */
#define API_LABEL_MANAGED_BY "app.kubernetes.io/managed-by" /* "etcd-operator" */
#define API_LABEL_COMPONENT "app.kubernetes.io/component"   /* the member */
#define API_LABEL_CLUSTER API_GROUP "/cluster"              /* members are found by it */
#define API_LABEL_ROLE API_GROUP "/role"                    /* "voter", or absent; Pods only */

#define API_RESERVED_PREFIX API_GROUP "/"
#define API_ANNOTATION_SERVICE API_GROUP "/headless-service-name"
#define API_ANNOTATION_SUBPATH API_GROUP "/data-dir-subpath"
#define API_ANNOTATION_PEER_AUTO_TLS API_GROUP "/peer-auto-tls"

#define API_FINALIZER_MEMBER API_GROUP "/member-cleanup"

/* Shared with the upstream operator on purpose: whoever holds it is the only one that acts. */
#define API_LEASE "aa20b3a9." API_GROUP
