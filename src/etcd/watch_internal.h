/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "etcd/message.h"
#include "etcd/watch.h"

struct etcd_event etcd_event_of(const Pb__Event *m); /* borrows from m */
