/* SPDX-License-Identifier: Apache-2.0
 * Which cluster answers at an address, inside etcd/ only.
 *
 * Status tells, but where users are asked for it tells only them. The answer to a watch carries
 * the cluster's ID even when it is a refusal: so we know whom we talk to before we send a
 * password, and a token that is not taken from one that another cluster does not know. */
#pragma once
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct grpc_call;
struct grpc_conn;

/* Asks without a token. The first message of the call has the ID (message_cluster_id()); a
 * learner refuses. timeout_ms is told to the server. */
struct grpc_call *identity_ask(struct grpc_conn *conn, int64_t timeout_ms) NONNULL;

/* ERR_CONFLICT, ETCD_CLUSTER_MISMATCH: the ID is another one, or none (0) was given. */
NODISCARD int identity_check(const char *url, uint64_t got, uint64_t want, struct err *e);
