/* SPDX-License-Identifier: Apache-2.0
 * One pass over an etcd database: what `snapshot status` and `snapshot verify` say. */
#pragma once
#include "datadir/buckets.h"
#include "datadir/dbfile.h"

/* Fatal is what would stop etcd, or make it lose something: damage of the tree, keys and values
 * that do not decode. Odd is what etcd lives with but is not known to write: it may be damage that
 * happens to be readable, or the work of a newer version or another tool. */
struct scan_finding {
    uint64_t page;
    bool odd;
    const char *what;
};

struct scan_options {
    bool hash;   /* compute the hash */
    bool keys;   /* count live keys */
    bool strict; /* each entry as etcd would have written it, leases resolvable */
    /* No revision is missing after the compact revision. etcd does not look, so a gap does not
     * stop it; but it means that something was lost. */
    bool history;
    const struct progress *progress;
    /* 0: go on. Without it the first fatal finding ends the scan with ERR_CORRUPT. */
    int (*found)(void *arg, const struct scan_finding *finding, struct err *e);
    void *arg;
};

struct scan_result {
    uint32_t hash;        /* over all buckets, as etcdutl computes it */
    int64_t revision;     /* of the last entry of bucket `key`; 0 when empty */
    uint64_t total_keys;  /* live user keys */
    uint64_t entries;     /* of bucket `key` */
    uint64_t total_bytes; /* of the database's pages */
    uint64_t used_bytes;  /* of them, in use */
    uint64_t fatal, odd;  /* findings */
    struct db_meta meta;
};

/* ERR_CORRUPT · ERR_CANCELED · ERR_IO (also of the temporary file). */
NODISCARD int scan_db(const struct ctx *ctx, const struct dbfile *f, const struct scan_options *o,
                      struct scan_result *out, struct err *e);
