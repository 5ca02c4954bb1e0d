/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "etcd/kv.h"
#include "etcd/message.h"

struct etcd_kv etcd_kv_of(const Pb__KeyValue *m); /* borrows from m; NULL: zeroes */

/* The result owns the arena. */
struct etcd_txn_result etcd_txn_result_of(struct arena *own, const Pb__TxnResponse *r);
