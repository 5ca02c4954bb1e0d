/* SPDX-License-Identifier: Apache-2.0
 * Who is in a new cluster: parsed from the flags etcd knows, with the ids etcd would compute. */
#pragma once
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"

struct planned_member {
    uint64_t id;
    char *name;
    VEC(char *) urls; /* of its peers, sorted */
};

struct membership {
    VEC(struct planned_member) members; /* by rising id */
    size_t local;                       /* which of them is us */
    uint64_t cluster_id;
};

/* `initial_cluster` is "name=url,…" with a name once per url; `peer_urls` is what the member
 * called `name` advertises, and must be its urls in the map. ERR_INVALID names the flag. */
NODISCARD int membership_parse(const char *name, const char *initial_cluster, const char *token,
                               const char *peer_urls, struct membership *out, struct err *e);
void membership_done(struct membership *m); /* idempotent */

/* {"id":…,"peerURLs":[…],"name":"…"}, byte for byte as etcd writes it. */
void member_json(const struct planned_member *m, struct buf *out);
/* {"peerURLs":[…]}: the part kept in the v2 store. */
void member_raft_json(const struct planned_member *m, struct buf *out);
/* {"voters":[…],"auto_leave":false} */
void membership_conf_state_json(const struct membership *m, struct buf *out);
/* raftpb.ConfState. */
void membership_conf_state(const struct membership *m, struct buf *out);

/* A JSON string as Go writes it, quotes included. */
void json_string_like_go(struct str s, struct buf *out);
