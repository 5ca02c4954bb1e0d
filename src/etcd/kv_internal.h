/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "etcd/kv.h"
#include "etcd/message.h"

struct etcd_kv etcd_kv_of(const Pb__KeyValue *m); /* borrows from m; NULL: zeroes */
