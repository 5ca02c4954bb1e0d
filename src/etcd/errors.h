/* SPDX-License-Identifier: Apache-2.0
 * etcd's errors in our codes. Its gRPC codes are ambiguous and differ between versions; the text
 * is what it means, so the text decides (spec: etcd's api/v3rpc/rpctypes, by observation).
 *
 * err.reason is set to the name of the row below, for callers that must tell two errors of one
 * code apart: etcd_error_is(e, ETCD_LEARNER_NOT_READY). */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

/* X(name, code for reads, code for mutating calls, texts…). The second code differs where the
 * server may have done the work although it says otherwise. */
#define ETCD_ERRORS(X)                                                                             \
    X(EMPTY_KEY, INVALID, INVALID, "etcdserver: key is not provided")                              \
    X(KEY_NOT_FOUND, NOT_FOUND, NOT_FOUND, "etcdserver: key not found")                            \
    X(VALUE_PROVIDED, INVALID, INVALID, "etcdserver: value is provided")                           \
    X(LEASE_PROVIDED, INVALID, INVALID, "etcdserver: lease is provided")                           \
    X(TOO_MANY_OPS, INVALID, INVALID, "etcdserver: too many operations in txn request")            \
    X(DUPLICATE_KEY, INVALID, INVALID, "etcdserver: duplicate key given in txn request")           \
    X(BAD_SORT, INVALID, INVALID, "etcdserver: invalid sort option")                               \
    X(COMPACTED, EXPIRED, EXPIRED, "etcdserver: mvcc: required revision has been compacted")       \
    X(FUTURE_REVISION, NOT_READY, NOT_READY,                                                       \
      "etcdserver: mvcc: required revision is a future revision")                                  \
    X(NO_SPACE, TOO_BIG, TOO_BIG, "etcdserver: mvcc: database space exceeded")                     \
    X(CORRUPT, CORRUPT, CORRUPT, "etcdserver: corrupt cluster")                                    \
    X(LEASE_NOT_FOUND, NOT_FOUND, NOT_FOUND, "etcdserver: requested lease not found")              \
    X(LEASE_EXISTS, EXISTS, EXISTS, "etcdserver: lease already exists")                            \
    X(LEASE_TTL, INVALID, INVALID, "etcdserver: too large lease TTL")                              \
    X(MEMBER_EXISTS, EXISTS, EXISTS, "etcdserver: member ID already exist")                        \
    X(PEER_URL_EXISTS, EXISTS, EXISTS, "etcdserver: Peer URLs already exists")                     \
    X(NOT_ENOUGH_STARTED, NOT_READY, NOT_READY,                                                    \
      "etcdserver: re-configuration failed due to not enough started members")                     \
    X(BAD_MEMBER_URLS, INVALID, INVALID, "etcdserver: given member URLs are invalid")              \
    X(MEMBER_NOT_FOUND, NOT_FOUND, NOT_FOUND, "etcdserver: member not found")                      \
    X(NOT_LEARNER, CONFLICT, CONFLICT, "etcdserver: can only promote a learner member")            \
    X(LEARNER_NOT_READY, NOT_READY, NOT_READY,                                                     \
      "etcdserver: can only promote a learner member which is in sync with leader")                \
    X(TOO_MANY_LEARNERS, CONFLICT, CONFLICT, "etcdserver: too many learner members in cluster")    \
    X(REQUEST_TOO_BIG, TOO_BIG, TOO_BIG, "etcdserver: request is too large")                       \
    X(TOO_MANY_REQUESTS, THROTTLED, THROTTLED, "etcdserver: too many requests")                    \
    X(NO_LEADER, UNAVAILABLE, UNAVAILABLE, "etcdserver: no leader")                                \
    X(NOT_LEADER, CONFLICT, CONFLICT, "etcdserver: not leader")                                    \
    X(LEADER_CHANGED, UNAVAILABLE, OUTCOME_UNKNOWN, "etcdserver: leader changed")                  \
    X(NOT_CAPABLE, UNAVAILABLE, UNAVAILABLE, "etcdserver: not capable")                            \
    X(STOPPED, UNAVAILABLE, OUTCOME_UNKNOWN, "etcdserver: server stopped")                         \
    X(TIMED_OUT, TIMEOUT, OUTCOME_UNKNOWN, "etcdserver: request timed out")                        \
    X(UNHEALTHY, NOT_READY, NOT_READY, "etcdserver: unhealthy cluster")                            \
    X(LEARNER, UNAVAILABLE, UNAVAILABLE, "etcdserver: rpc not supported for learner")              \
    X(BAD_TRANSFEREE, INVALID, INVALID, "etcdserver: bad leader transferee")                       \
    X(CLUSTER_MISMATCH, CONFLICT, CONFLICT, "etcdserver: cluster ID mismatch")                     \
    X(DOWNGRADE_FORMAT, INVALID, INVALID, "etcdserver: wrong downgrade target version format")     \
    X(DOWNGRADE_TARGET, INVALID, INVALID, "etcdserver: invalid downgrade target version")          \
    X(DOWNGRADE_NO_VERSION, NOT_READY, NOT_READY,                                                  \
      "etcdserver: cluster version not found during downgrade")                                    \
    X(DOWNGRADE_RUNNING, EXISTS, EXISTS, "etcdserver: cluster has a downgrade job in progress")    \
    X(DOWNGRADE_NONE, NOT_FOUND, NOT_FOUND, "etcdserver: no inflight downgrade job")               \
    X(NO_ROOT_USER, CONFLICT, CONFLICT, "etcdserver: root user does not exist")                    \
    X(NO_ROOT_ROLE, CONFLICT, CONFLICT, "etcdserver: root user does not have root role")           \
    X(USER_EXISTS, EXISTS, EXISTS, "etcdserver: user name already exists")                         \
    X(NO_CREDENTIALS, DENIED, DENIED, "etcdserver: user name is empty")                            \
    X(USER_NOT_FOUND, NOT_FOUND, NOT_FOUND, "etcdserver: user name not found")                     \
    X(ROLE_EXISTS, EXISTS, EXISTS, "etcdserver: role name already exists")                         \
    X(ROLE_EMPTY, INVALID, INVALID, "etcdserver: role name is empty")                              \
    X(ROLE_NOT_FOUND, NOT_FOUND, NOT_FOUND, "etcdserver: role name not found")                     \
    X(BAD_CREDENTIALS, DENIED, DENIED,                                                             \
      "etcdserver: authentication failed, invalid user ID or password")                            \
    X(PERMISSION_DENIED, DENIED, DENIED, "etcdserver: permission denied")                          \
    X(BAD_TOKEN, DENIED, DENIED, "etcdserver: invalid auth token")                                 \
    X(OLD_TOKEN, DENIED, DENIED, "etcdserver: revision of auth store is old")                      \
    X(AUTH_DISABLED, CONFLICT, CONFLICT, "etcdserver: authentication is not enabled")              \
    X(AUTH_INVALID, INVALID, INVALID, "etcdserver: invalid auth management")                       \
    X(ROLE_NOT_GRANTED, NOT_FOUND, NOT_FOUND, "etcdserver: role is not granted to the user")       \
    X(PERMISSION_NOT_GRANTED, NOT_FOUND, NOT_FOUND,                                                \
      "etcdserver: permission is not granted to the role")                                         \
    X(PERMISSION_NOT_GIVEN, INVALID, INVALID, "etcdserver: permission not given")

enum etcd_error {
    ETCD_NONE, /* not an error of etcd's, or one we do not know */
#define X(name, ...) ETCD_##name,
    ETCD_ERRORS(X)
#undef X
        ETCD_ERRORS_N,
};

/* From grpc-message. Also the unmapped forms ("auth: permission denied") that some calls of 3.5
 * answer with, and timeouts with a guess at the cause behind them. */
enum etcd_error etcd_error_of(struct str message);

/* Rewrites *e (set from the gRPC status) by what the text means. Always -1. */
int etcd_error_map(struct str message, bool mutating, struct err *e);

bool etcd_error_is(const struct err *e, enum etcd_error what); /* by err.reason */
void etcd_error_mark(struct err *e, enum etcd_error what);     /* so that it is */
bool etcd_error_is_stale_token(const struct err *e);           /* a new one may help */
