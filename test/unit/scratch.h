/* SPDX-License-Identifier: Apache-2.0
 * A directory of a test program's own, and one file in it. Not in /tmp, which may be memory: what
 * the page cache forgets must be on a disk. */
#pragma once
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

static char scratch_dir[] = "/var/tmp/raftsman-test-XXXXXX";
static char *scratch_file; /* may be made and need not be */

/* These two are for cmocka_run_group_tests(), or for what is. */
static inline int scratch_set_up(void **state)
{
    (void)state;
    if (!mkdtemp(scratch_dir))
        return -1;
    scratch_file = xasprintf("%s/file", scratch_dir);
    return 0;
}

/* Fails if anything else was left. */
static inline int scratch_tear_down(void **state)
{
    (void)state;
    (void)unlink(scratch_file);
    free(scratch_file);
    return rmdir(scratch_dir);
}

static inline int scratch_remove_one(const char *path, const struct stat *st, int kind,
                                     struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

/* A file, or a directory with all in it. */
static inline void scratch_remove(const char *path)
{
    (void)nftw(path, scratch_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* In place of scratch_tear_down(), for who leaves much. */
static inline int scratch_remove_all(void **state)
{
    (void)state;
    scratch_remove(scratch_dir);
    free(scratch_file);
    return 0;
}
