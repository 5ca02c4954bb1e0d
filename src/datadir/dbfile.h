/* SPDX-License-Identifier: Apache-2.0
 * An etcd database in a file: a snapshot with its trailing SHA-256, or the `db` of a data
 * directory without one. Read through a mapping whose pages are let go behind the reader. */
#pragma once
#include <stdatomic.h>

#include "base/mapping.h"
#include "base/sha256.h"
#include "base/thread.h"
#include "bolt/walk.h"

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

/* --- The trailing hash, most of it computed in a thread of its own beside whatever else is done:
 *
 *     AUTO(dbfile_hash_done) struct dbfile_hash hash = {0};
 *     dbfile_hash_begin(&hash, ctx);
 *     … dbfile_hash_add() … dbfile_hash_start() … dbfile_hash_join() … dbfile_hash_add() …
 *     if (dbfile_hash_check(&hash, f, e) < 0) return -1; */
struct dbfile_hash {
    const struct ctx *ctx;
    struct sha256 *sha; /* the thread's while it runs */
    struct thread thread;
    const struct mapping *map;
    uint64_t at, end;
    const struct bolt_arrival *arrival;
    atomic_bool stop; /* the result is not wanted any more */
    int rc;           /* of the thread */
    struct err err;
};

void dbfile_hash_begin(struct dbfile_hash *h, const struct ctx *ctx);
void dbfile_hash_done(struct dbfile_hash *h); /* ends it at once; idempotent, for early exits */
/* By the caller himself, while no thread runs. */
void dbfile_hash_add(struct dbfile_hash *h, struct str bytes);
/* By the thread: bytes of a mapping, which is borrowed until it is joined; of a file that is being
 * written when they have arrived, NULL if all are there. ERR_UNAVAILABLE. */
NODISCARD int dbfile_hash_start(struct dbfile_hash *h, const struct mapping *map, uint64_t from,
                                uint64_t end, const struct bolt_arrival *arrival, struct err *e);
/* Waits for the thread. ERR_CANCELED · ERR_IO. */
NODISCARD int dbfile_hash_join(struct dbfile_hash *h, struct err *e);
/* Joins, and compares with the file's last 32 bytes. ERR_CORRUPT names both · ERR_IO ·
 * ERR_CANCELED. */
NODISCARD int dbfile_hash_check(struct dbfile_hash *h, const struct dbfile *f, struct err *e);

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
