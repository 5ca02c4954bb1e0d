/* SPDX-License-Identifier: Apache-2.0
 * One member's own state and upkeep. `at` is the endpoint of the member meant; ETCD_ANY only
 * where noted. Codes: see etcd/client.h. */
#pragma once
#include "etcd/client.h"

struct etcd_status {
    struct etcd_header header;
    const char *version;
    int64_t db_size_bytes;
    int64_t db_in_use_bytes;
    int64_t db_quota_bytes; /* 3.6; 0 before */
    uint64_t leader;        /* 0: it sees none */
    uint64_t raft_index;    /* committed */
    uint64_t raft_applied;
    uint64_t raft_term;
    bool learner;
    const char *storage_version;  /* 3.6; empty before */
    bool downgrading;             /* 3.6 */
    const char *downgrade_target; /* 3.6; empty */
    const char *const *errors;    /* alarms and "no leader", as text */
    size_t n_errors;
    void *own;
};

NODISCARD int etcd_status(const struct ctx *ctx, struct etcd_client *c, size_t at,
                          struct etcd_status *out, struct err *e);
void etcd_status_done(struct etcd_status *s); /* NULL-safe, idempotent */

enum etcd_alarm_type { ETCD_ALARM_NONE, ETCD_ALARM_NOSPACE, ETCD_ALARM_CORRUPT };
const char *etcd_alarm_name(int type); /* "NOSPACE"; "?" */

struct etcd_alarm {
    uint64_t member_id;
    int type; /* enum etcd_alarm_type, or one from the future */
};

struct etcd_alarms {
    struct etcd_header header;
    const struct etcd_alarm *v;
    size_t n;
    void *own;
};

/* All alarms of the cluster; needs quorum. at: ETCD_ANY will do. */
NODISCARD int etcd_alarm_list(const struct ctx *ctx, struct etcd_client *c, size_t at,
                              struct etcd_alarms *out, struct err *e);
void etcd_alarms_done(struct etcd_alarms *a); /* NULL-safe, idempotent */
/* Exactly this pair: etcd knows no wildcard. */
NODISCARD int etcd_alarm_set(const struct ctx *ctx, struct etcd_client *c, struct etcd_alarm alarm,
                             bool active, struct err *e);

/* The member serves nothing meanwhile: one at a time, the leader last. */
NODISCARD int etcd_defragment(const struct ctx *ctx, struct etcd_client *c, size_t at,
                              struct err *e);
/* Sent to the leader (at). ERR_CONFLICT: it does not lead. */
NODISCARD int etcd_move_leader(const struct ctx *ctx, struct etcd_client *c, size_t at, uint64_t to,
                               struct err *e);

NODISCARD int etcd_hash(const struct ctx *ctx, struct etcd_client *c, size_t at, uint32_t *out,
                        struct err *e); /* of the whole backend file: for tests */

struct etcd_hash_kv {
    struct etcd_header header;
    uint32_t hash;
    int64_t compact_revision; /* hashes compare only if equal; -1: never compacted */
    int64_t hash_revision;    /* 3.6; 0 before */
};
NODISCARD int etcd_hash_kv(const struct ctx *ctx, struct etcd_client *c, size_t at,
                           int64_t revision, struct etcd_hash_kv *out, struct err *e);

/* *out_version (owned): the cluster version before. On 3.5 enabling and cancelling take effect
 * but answer ERR_OUTCOME_UNKNOWN: look at the status. */
enum etcd_downgrade { ETCD_DOWNGRADE_VALIDATE, ETCD_DOWNGRADE_ENABLE, ETCD_DOWNGRADE_CANCEL };
NODISCARD int etcd_downgrade(const struct ctx *ctx, struct etcd_client *c,
                             enum etcd_downgrade action, const char *version, char **out_version,
                             struct err *e);

/* --- Snapshot: the member's database as a stream. */

struct etcd_snapshot {
    uint64_t size_bytes; /* of the database, without the digest */
    char sha256[65];     /* its digest in hex, computed and equal to the one received */
    char version[32];    /* storage version, 3.6; empty before */
};

/* Gives the database to write() piece by piece, then the 32 bytes of its digest, which makes the
 * bytes a snapshot file. Memory does not grow with its size. Complete only if 0 is returned:
 * length, digest and the server's final status were checked.
 * ERR_CORRUPT: they do not agree. An error of write() ends it. */
NODISCARD int etcd_snapshot(const struct ctx *ctx, struct etcd_client *c, size_t at,
                            int (*write)(void *arg, struct str bytes, struct err *e), void *arg,
                            struct etcd_snapshot *out, struct err *e);
