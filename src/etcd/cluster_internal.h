/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "etcd/cluster.h"
#include "etcd/message.h"

/* The result owns the arena. */
struct etcd_members etcd_members_of(struct arena *own, const Pb__Header *header,
                                    Pb__Member *const *members, size_t n);
