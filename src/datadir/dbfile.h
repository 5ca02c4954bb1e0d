/* SPDX-License-Identifier: Apache-2.0
 * An etcd database in a file: a snapshot with its trailing SHA-256, or the `db` of a data
 * directory without one. Read through a mapping whose pages are let go behind the reader. */
#pragma once
#include <stdatomic.h>

#include "base/mapping.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "bolt/walk.h"
#include "datadir/arrival.h"

struct ctx;

/* How far a long operation is; may be called from any thread, a few times a second. */
struct progress {
    void *arg;
    void (*tell)(void *arg, uint64_t done_bytes, uint64_t total_bytes);
};

struct dbfile {
    char *path;
    struct mapping map;
    size_t n; /* bytes of the database, without the hash */
    bool has_hash;
    struct bolt bolt;
};

/* ERR_CONFLICT in use by a running etcd · ERR_CORRUPT no database · those of mapping_open(). */
NODISCARD int dbfile_open(struct dbfile *f, const char *path, enum mapping_lock lock,
                          struct err *e);
void dbfile_done(struct dbfile *f); /* idempotent */

/* mapping_check() with the file's name. Every function here that reads a struct dbfile asks it
 * before it returns, on failure too; who reads on by itself asks again. ERR_IO. */
NODISCARD int dbfile_check(const struct dbfile *f, struct err *e);

/* Whether a file of this size ends in a SHA-256: database pages are multiples of 512 bytes. */
bool dbfile_size_has_hash(uint64_t size);

/* --- The trailing hash, computed in a thread of its own beside whatever else is done. */
struct dbfile_hash {
    const struct ctx *ctx;
    const struct dbfile *f;
    struct thread thread;
    struct arrival hashed; /* how far it is */
    atomic_bool stop;      /* the result is not wanted any more */
    unsigned char sum[SHA256_BYTES];
    bool ended_early;
};

NODISCARD int dbfile_hash_start(struct dbfile_hash *h, const struct ctx *ctx,
                                const struct dbfile *f, struct err *e);
void dbfile_hash_stop(struct dbfile_hash *h); /* ends it at once; idempotent, for early exits */
/* Waits until so much is hashed, or nothing more will be. */
void dbfile_hash_await(struct dbfile_hash *h, uint64_t bytes);
/* Waits, and compares with the file's last 32 bytes. ERR_CORRUPT names both · ERR_IO ·
 * ERR_CANCELED. */
NODISCARD int dbfile_hash_check(struct dbfile_hash *h, struct err *e);

/* --- Walking it. */
struct dbfile_walk {
    const struct ctx *ctx;
    const struct dbfile *f;
    struct mapping_window window;
    const struct progress *progress; /* may be NULL */
    uint64_t reached;                /* bytes so far */
    uint64_t told;
};

/* The `reach` of a bolt_visitor whose argument begins with a struct dbfile_walk. */
int dbfile_reach(void *walk, uint64_t offset, uint64_t bytes, struct err *e);
struct dbfile_walk dbfile_walk_of(const struct ctx *ctx, const struct dbfile *f,
                                  const struct progress *progress);
