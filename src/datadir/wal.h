/* SPDX-License-Identifier: Apache-2.0
 * etcd's write-ahead log: segments of framed records under one running checksum.
 *
 * The reader forgives exactly what etcd forgives: a torn end of the last segment. The writer
 * makes the one log a restored member begins with. */
#pragma once
#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "datadir/raft.h"

struct membership;

enum wal_type { WAL_METADATA = 1, WAL_ENTRY = 2, WAL_STATE = 3, WAL_CRC = 4, WAL_SNAPSHOT = 5 };
enum { WAL_SEGMENT_BYTES = 64 * 1000 * 1000, WAL_NAME_BYTES = 38 };

/* --- Records of one segment, without I/O. */
struct wal_cursor {
    const uint8_t *p;
    uint64_t n, at;
    uint32_t crc; /* running, carried from segment to segment */
    bool last;    /* the last segment: its end may be torn */
    bool torn;    /* and it was, at `at` */
};

struct wal_record {
    enum wal_type type;
    struct str data;
    uint64_t offset;
};

/* 1 a record, 0 the end, -1 ERR_CORRUPT with the offset. */
NODISCARD int wal_next(struct wal_cursor *c, struct wal_record *out, struct err *e);

/* --- A directory of segments. */
struct wal_summary {
    uint64_t segments, bytes, records;
    struct wal_metadata metadata;
    bool has_metadata;
    struct raft_hard_state state;   /* the last one */
    uint64_t first_index;           /* of the entries behind the last snapshot received; 0: none */
    uint64_t last_index, last_term; /* of the last entry, or of a snapshot past it; 0: none */
    uint64_t last_conf_change;      /* index of the last entry that changes the members; 0: none */
    VEC(struct raft_snapshot_point) snapshots; /* in the order written; at most the last 64 */
    bool torn;                                 /* etcd will repair the last segment */
};

/* Takes one more record into account. ERR_CORRUPT: it does not decode, or not fit those before. */
NODISCARD int wal_summary_add(struct wal_summary *s, const struct wal_record *r, struct err *e);

/* Reads what is there, up to the first damage. ERR_NOT_FOUND no segment at all · ERR_CORRUPT
 * (*out then holds what came before the damage) · ERR_IO. */
NODISCARD int wal_read(const char *dir, struct wal_summary *out, struct err *e);
void wal_summary_done(struct wal_summary *s); /* idempotent */

/* --- Writing. A record at the end of a log whose running checksum is *crc; WAL_CRC has no data. */
void wal_add_record(struct buf *out, uint32_t *crc, enum wal_type type, struct str data);
/* The log of a restored member: the records; the file is then zero up to WAL_SEGMENT_BYTES. */
void wal_build(const struct membership *m, struct buf *out);
