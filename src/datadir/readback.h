/* SPDX-License-Identifier: Apache-2.0
 * A database read back while it is written: structure and content of what lies in the file are
 * checked subtree by subtree, as soon as they are there, and the rest at the end. */
#pragma once
#include "base/vec.h"
#include "datadir/buckets.h"
#include "datadir/dbfile.h"

struct readback_part {
    enum bucket bucket;
    uint32_t crc; /* over its keys and values */
    uint64_t bytes;
};

struct readback_subtree {
    enum bucket bucket;
    uint64_t page, end;
};

struct readback {
    struct dbfile_walk walk; /* first: dbfile_reach() */
    const char *path;
    struct mapping map;
    struct bolt written; /* the file so far */
    struct bolt_visitor visitor;
    struct bolt_parts *parts;
    struct readback_part at; /* what is being walked */
    VEC(struct readback_part) walked;

    pthread_mutex_t lock;                  /* guards what follows */
    VEC(struct readback_subtree) subtrees; /* announced and not read */
};

/* Reads the file within the length it has now. What is written behind that, it reads at the end.
 * `path` is borrowed. Those of mapping_open(). */
NODISCARD int readback_begin(struct readback *r, const struct ctx *ctx, const char *path,
                             uint32_t page_size, struct err *e);
void readback_done(struct readback *r); /* idempotent on a zeroed or begun struct */

/* From the thread that makes pages: as the `subtree` of a bolt_sink, with the bucket it is in. */
void readback_announce(struct readback *r, enum bucket bucket, uint64_t page, uint64_t end);
/* From the one that writes them: everything before the offset `end` is final. ERR_CORRUPT ·
 * ERR_IO · ERR_CANCELED. */
NODISCARD int readback_follow(struct readback *r, uint64_t end, struct err *e);

/* Opens the complete file and reads what was not read. It is one of etcd's. *out_crc is over names,
 * keys and values of all buckets, as etcdutl computes it. ERR_CORRUPT · ERR_IO · ERR_CANCELED. */
NODISCARD int readback_finish(struct readback *r, uint32_t *out_crc, struct err *e);
