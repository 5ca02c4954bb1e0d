/* SPDX-License-Identifier: Apache-2.0
 * A file mapped for reading, whose pages are let go behind the reader: a file of any size is
 * read with a small, constant resident set. The page cache keeps what it likes. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "base/attr.h"
#include "base/err.h"

struct mapping_ahead;
struct lostpages;

struct mapping {
    int fd;           /* -1: bytes in memory, which are never let go */
    const uint8_t *p; /* NULL for an empty file */
    size_t n;
    struct timespec changed;     /* when the file was written last, as of its opening */
    struct mapping_ahead *ahead; /* NULL: none */
    struct lostpages *lost;      /* NULL: not watched, as bytes in memory are not */
};

enum mapping_lock { MAPPING_SHARED, MAPPING_EXCLUSIVE };

/* Also takes a lock for as long as the mapping lives: etcd holds an exclusive one on its database
 * while it runs, and a file in use is not a file to read. An exclusive lock opens the file for
 * writing too; fd may then be written to.
 * ERR_CONFLICT locked by another process · ERR_INVALID not a regular file · ERR_NOT_FOUND ·
 * ERR_DENIED · ERR_UNAVAILABLE too many are open · ERR_IO. */
NODISCARD int mapping_open(struct mapping *m, const char *path, enum mapping_lock lock,
                           struct err *e);
void mapping_done(struct mapping *m); /* NULL-safe, idempotent */

/* A file that is cut short while it is read, or a disk that fails, reads as zeros and not as a
 * signal. So nothing read counts before this was asked, at the end; and as zeros look like damage,
 * its error goes before any other. ERR_IO says where. */
NODISCARD int mapping_check(const struct mapping *m, struct err *e);
/* For who reads parts of it twice: whether it was written to since it was opened. ERR_CONFLICT. */
NODISCARD int mapping_check_unchanged(const struct mapping *m, struct err *e);

/* For one reader that goes through it in order and has work of its own: a thread reads and maps
 * what comes next, and lets go what was left behind. Without the thread it is slower, not wrong.
 * MAPPING_FORGET: the file is about to be removed, so the page cache may let go of it too. */
enum mapping_behind { MAPPING_REMEMBER, MAPPING_FORGET };
void mapping_look_ahead(struct mapping *m, enum mapping_behind behind);

/* Where one reader is. Several readers of one mapping have a window each. */
enum { MAPPING_WINDOWS = 4 };
struct mapping_window {
    const struct mapping *m;
    struct mapping_kept {
        uint64_t window;
        bool onward;         /* entered from the one before it, as a reader in order does */
    } kept[MAPPING_WINDOWS]; /* what stays mapped, in the order it was entered */
    unsigned at, filled;
    uint64_t in_order, looks; /* windows entered so far, in order and not */
    long waits;               /* of the thread, when it entered the last one */
    bool everywhere;          /* too many looks or waits for a reader in order */
    bool only_behind;         /* asks for nothing ahead: there is nothing yet */
};

struct mapping_window mapping_window_of(const struct mapping *m);

/* The reader is about to read at offset: the kernel is told what comes next, and the window
 * entered longest ago is let go. Cheap when the window is the current one. */
void mapping_reach(struct mapping_window *w, uint64_t offset);
