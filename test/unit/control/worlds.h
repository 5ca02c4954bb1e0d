/* SPDX-License-Identifier: Apache-2.0
 * Observed worlds for tables: what a row does not say is as in a healthy cluster. */
#pragma once
#include "control/cluster/observed.h"

/* Rows override what the macros below have set. */
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif

/* A voter in good health; rows override what they are about. */
#define VOTER(n, ...)                                                                              \
    {                                                                                              \
        .name = (n), .finalizer = true, .id_recorded = true, .pod = OURS, .pod_ready = YES,        \
        .pod_labeled_voter = true, .pvc = OURS, .pvc_recorded = true, .listed = YES,               \
        .healthy = YES, ##__VA_ARGS__                                                              \
    }
/* A cluster that exists, has its Services and a target of `w` members, and is formed. */
#define FORMED(w, ...)                                                                             \
    {                                                                                              \
        .exists = YES, .peer_service = YES, .client_service = YES, .target_latched = true,         \
        .want = (w), .formed = YES, .members_known = YES, .quorum = YES, ##__VA_ARGS__             \
    }
#define UNFORMED(w, ...)                                                                           \
    {                                                                                              \
        .exists = YES, .peer_service = YES, .client_service = YES, .target_latched = true,         \
        .want = (w), .formed = NO, .members_known = YES, ##__VA_ARGS__                             \
    }
#define MEMBERS(count, ...) .n_members = (count), .members = {__VA_ARGS__}
