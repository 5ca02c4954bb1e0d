/* SPDX-License-Identifier: Apache-2.0
 * etcd's buckets other than `key`, and what may be in them. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct bolt;

enum bucket {
    BUCKET_UNKNOWN,
    BUCKET_ALARM,
    BUCKET_AUTH,
    BUCKET_AUTH_ROLES,
    BUCKET_AUTH_USERS,
    BUCKET_CLUSTER,
    BUCKET_KEY,
    BUCKET_LEASE,
    BUCKET_MEMBERS,
    BUCKET_MEMBERS_REMOVED,
    BUCKET_META,
};

enum bucket bucket_of(struct str name);
struct str bucket_name(enum bucket b);

/* Whether an entry is what etcd would write there. ERR_CORRUPT: etcd could not read it, or not for
 * what it is · ERR_INVALID: it is none that etcd is known to write, as one of a newer version. Not
 * for BUCKET_KEY; anything goes in BUCKET_UNKNOWN. */
NODISCARD int bucket_entry_check(enum bucket b, struct str key, struct str value, struct err *e);

/* What the small buckets say. Absent: zero, -1 for compaction, "" for texts. */
struct db_meta {
    uint64_t consistent_index, term;
    int64_t scheduled_compact, finished_compact;
    char storage_version[32], cluster_version[32];
    bool downgrade_enabled;
    char downgrade_target[32]; /* the version, if enabled */
};

/* ERR_CORRUPT: damaged, or not etcd's (no bucket `meta` or `key`). */
NODISCARD int db_meta_read(const struct bolt *b, struct db_meta *out, struct err *e);

/* The last revision in bucket `key`; 0: empty. ERR_CORRUPT. */
NODISCARD int db_last_revision_read(const struct bolt *b, int64_t *out, struct err *e);
/* The store's revision, given that. */
int64_t db_current_revision(const struct db_meta *m, int64_t last);
/* The same, looked up. ERR_CORRUPT. */
NODISCARD int db_revision_read(const struct bolt *b, const struct db_meta *m, int64_t *out,
                               struct err *e);
int64_t db_compact_revision(const struct db_meta *m); /* -1: never compacted */
