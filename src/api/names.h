/* SPDX-License-Identifier: Apache-2.0
 * Names derived from a cluster: its members, their addresses. Pure. */
#pragma once
#include <stddef.h>

#include "base/str.h"

struct buf;

enum {
    API_CLUSTER_NAME_MAX = 56, /* so that <cluster>-client is still a name for a Service */
    API_MEMBER_NAME_MAX = 63,
};

/* Why the name cannot be that of a cluster (it becomes a Service and part of host names), or NULL
 * if it can. Static storage. */
const char *api_cluster_name_problem(struct str name);

/* "<cluster>-x7k2p": five characters computed from the UIDs of the cluster and of every EtcdMember
 * it has, in any order, and a salt. Whoever sees the same members computes the same name, so a
 * racing or stale creator collides instead of making a second member. */
void api_member_name(const char *cluster, const char *cluster_uid, const char *const *member_uids,
                     size_t n, unsigned salt, char out[API_MEMBER_NAME_MAX + 1]);

/* "http://<member>.<service>.<ns>.svc:2380". No cluster domain: the resolver's search list has it.
 */
void api_peer_url(struct buf *out, const char *scheme, const char *member, const char *service,
                  const char *ns);
void api_client_url(struct buf *out, const char *scheme, const char *member, const char *service,
                    const char *ns);
