/* SPDX-License-Identifier: Apache-2.0
 * What the engine remembers of the objects it watches: enough to see that nothing is to be done.
 * The cluster itself is read live in every pass; everything else is looked up here first. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "control/cluster/observed.h"
#include "control/runtime/view.h"

enum { VIEW_UID_BYTES = 16, VIEW_IP_MAX = 46 };

extern const struct kube_kind kind_clusters, kind_members;

struct cluster_view {
    struct view head;
    int64_t generation;
    bool deleting;
};

struct member_view {
    struct view head;
    unsigned char owner_uid[VIEW_UID_BYTES]; /* of the controller */
    int64_t created_s;
    bool deleting, finalizer, bootstrap, dormant, pending;
    bool voter; /* status.isVoter */
    uint64_t member_id;
    unsigned char pod_uid[VIEW_UID_BYTES], pvc_uid[VIEW_UID_BYTES]; /* as recorded; zero: none */
    const struct istr *service; /* of its DNS name; NULL: the cluster's */
    const struct istr *token;   /* spec.clusterToken; NULL: none */
    const struct istr *version; /* status.version; NULL: none */
    const struct istr *wanted;  /* spec.version; NULL: none */
    const struct istr *ready;   /* reason of condition Ready; NULL: none */
    enum fact drifted;          /* condition VersionDrifted */
    enum fact is_ready;
};

struct pod_view {
    struct view head;
    unsigned char owner_uid[VIEW_UID_BYTES];
    char ip[VIEW_IP_MAX];
    enum fact ready;
    bool terminating, labeled_voter, ended;
    const struct istr *phase; /* status.phase; NULL: none */
};

/* Whether a Pod of that phase never runs again. */
bool pod_ended(const char *phase);

struct pvc_view {
    struct view head;
    unsigned char owner_uid[VIEW_UID_BYTES];
};

struct service_view {
    struct view head;
    unsigned char owner_uid[VIEW_UID_BYTES];
    bool headless_ok, client_ok; /* it is as one of ours has to be */
};

struct pdb_view {
    struct view head;
    unsigned char owner_uid[VIEW_UID_BYTES];
    int64_t min_available; /* -1: something else stands there */
};

extern const struct view_kind view_clusters, view_members, view_pods, view_pvcs, view_services,
    view_pdbs;

/* "3c1b2a…" with or without dashes; false and zero if it is no UID. */
bool uid_parse(const char *text, unsigned char out[VIEW_UID_BYTES]);
bool uid_is_zero(const unsigned char uid[VIEW_UID_BYTES]);
bool uid_equal(const unsigned char a[VIEW_UID_BYTES], const unsigned char b[VIEW_UID_BYTES]);
