/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "etcd/lease.h"
#include "etcd/message.h"

/* Both results own the arena. */
struct etcd_lease etcd_lease_of(struct arena *own, const Pb__LeaseTimeToLiveResponse *r);
struct etcd_leases etcd_leases_of(struct arena *own, const Pb__LeaseListResponse *r);
