/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds.h"

static const struct {
    const char *name, *plural;
} kinds[] = {
    [API_CLUSTER] = {"EtcdCluster", "etcdclusters"},
    [API_MEMBER] = {"EtcdMember", "etcdmembers"},
    [API_SNAPSHOT] = {"EtcdSnapshot", "etcdsnapshots"},
    [API_DEFRAG] = {"EtcdDefrag", "etcddefrags"},
};

const char *api_kind_name(enum api_kind kind)
{
    return kinds[kind].name;
}

const char *api_kind_plural(enum api_kind kind)
{
    return kinds[kind].plural;
}
