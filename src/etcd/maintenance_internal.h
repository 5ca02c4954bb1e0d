/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "etcd/maintenance.h"
#include "etcd/message.h"

/* Both results own the arena. */
struct etcd_status etcd_status_of(struct arena *own, const Pb__StatusResponse *r);
struct etcd_alarms etcd_alarms_of(struct arena *own, const Pb__AlarmResponse *r);
