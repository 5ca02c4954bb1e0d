/* SPDX-License-Identifier: Apache-2.0
 * etcd's version numbers and what may follow what. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct etcd_version {
    uint16_t major, minor, patch;
};

enum { ETCD_VERSION_TEXT_MAX = 24 };

/* "3.6.11", "v3.6.11", "3.6" (patch 0), "3.6.0-rc.1+git" (what follows the patch is dropped).
 * ERR_INVALID. */
NODISCARD int etcd_version_parse(struct str s, struct etcd_version *out, struct err *e);
const char *etcd_version_print(struct etcd_version v, char out[ETCD_VERSION_TEXT_MAX]);
int etcd_version_cmp(struct etcd_version a, struct etcd_version b);        /* <0, 0, >0 */
int etcd_version_minors(struct etcd_version from, struct etcd_version to); /* +1: one minor up */

/* Why no member should run this binary, whatever came before it; NULL: nothing is known. */
const char *etcd_version_unsafe(struct etcd_version v);

/* Whether a member may go from one binary to the other while the cluster is not being
 * downgraded. ERR_INVALID says why not and what to do first. */
NODISCARD int etcd_upgrade_check(struct etcd_version from, struct etcd_version to, struct err *e);

/* Whether a new member with this binary may join at this cluster version: not below it, and at
 * most one minor above. While the cluster is being downgraded (*target; NULL: it is not) it must
 * be of the minor the others go down to. */
NODISCARD int etcd_join_check(struct etcd_version member, struct etcd_version cluster,
                              const struct etcd_version *target, struct err *e);

/* Whether the cluster may be told to go down to this version, which is that of the binaries
 * that will replace the present ones. */
NODISCARD int etcd_downgrade_check(struct etcd_version cluster, struct etcd_version to,
                                   struct err *e);
/* Whether a member may be restarted with the lower binary: only once the job is enabled and the
 * member's storage has been migrated. */
NODISCARD int etcd_downgrade_ready(bool enabled, struct etcd_version target,
                                   struct etcd_version storage, struct err *e);

/* Defects one must work around, by the patches that fixed them. */
enum etcd_quirk {
    ETCD_QUIRK_PROGRESS_OVERTAKES,    /* progress on demand may overtake events */
    ETCD_QUIRK_PROMOTE_VIA_LEADER,    /* followers cannot forward a promotion when auth is on */
    ETCD_QUIRK_LEARNER_UPDATE,        /* updating a learner's peer URL promotes it */
    ETCD_QUIRK_DEFRAG_WHILE_CATCHING, /* defragmenting while a snapshot arrives corrupts */
    ETCD_QUIRK_ADD_NEEDS_ALL,         /* a member is added only with all voters connected */
    ETCD_QUIRK_WATCH_AT_COMPACTION,   /* a watch from the compacted revision misses a delete */
    ETCD_QUIRKS_N,
};
bool etcd_version_has_quirk(struct etcd_version v, enum etcd_quirk quirk);
