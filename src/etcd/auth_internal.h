/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "etcd/auth.h"
#include "etcd/message.h"

/* The result owns the arena. */
struct etcd_permissions etcd_permissions_of(struct arena *own, const Pb__RoleGetResponse *r);
