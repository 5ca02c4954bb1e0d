/* SPDX-License-Identifier: Apache-2.0
 * The few raft messages that etcd's files hold, decoded. Absent fields are zero: 3.7 leaves out
 * what 3.6 writes as zero. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum { RAFT_CONF_CHANGE = 1, RAFT_CONF_CHANGE_V2 = 2 }; /* types of entries; 0 is normal */
struct raft_entry {
    uint64_t type, term, index;
    struct str data; /* borrowed */
};
struct raft_hard_state {
    uint64_t term, vote, commit;
};
struct raft_snapshot_point {
    uint64_t index, term;
};
struct raft_snapshot {
    struct raft_snapshot_point at;
    struct str data; /* the v2 store, as JSON; borrowed */
    uint64_t voters, learners;
};
struct wal_metadata {
    uint64_t node_id, cluster_id;
};

/* All false: not such a message. */
bool raft_entry_decode(struct str bytes, struct raft_entry *out);
bool raft_hard_state_decode(struct str bytes, struct raft_hard_state *out);
bool raft_snapshot_decode(struct str bytes, struct raft_snapshot *out);
bool wal_snapshot_decode(struct str bytes, struct raft_snapshot_point *out);
bool wal_metadata_decode(struct str bytes, struct wal_metadata *out);
