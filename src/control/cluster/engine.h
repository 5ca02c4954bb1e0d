/* SPDX-License-Identifier: Apache-2.0
 * The controller of EtcdClusters and their members: observe, decide, act, report. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"

struct ctx;
struct kube_config;
struct metrics;

struct engine_options {
    struct kube_config *config;
    struct metrics *metrics;
    const char *image_repo;      /* of etcd */
    const char *operator_image;  /* our own, for Pods that run our binary; "": not told */
    const char *cluster_domain;  /* that the names of Services end in */
    const char *watch_namespace; /* comma list, blanks dropped; NULL or "": all */
    const char *health_address, *metrics_address;
    int64_t max_disruptions; /* clusters disturbed at once */
    bool leader_elect;
    const char *lease_ns;
};

/* Runs until ctx is cancelled: see manager_run(). */
NODISCARD int engine_run(const struct ctx *ctx, const struct engine_options *o, struct err *e);
