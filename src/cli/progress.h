/* SPDX-License-Identifier: Apache-2.0
 * A line on the terminal for anything that takes more than a second; silent when standard error
 * is not one. Thread-safe. */
#pragma once
#include <pthread.h>

#include "datadir/dbfile.h"

struct progress_line {
    struct progress progress; /* to be handed on */
    pthread_mutex_t lock;     /* guards: all below */
    const char *what;
    const struct clock *clock;
    int64_t begin_ms, shown_ms;
    bool terminal, visible;
};

void progress_begin(struct progress_line *p, const char *what, const struct clock *clock);
void progress_end(struct progress_line *p); /* wipes the line; idempotent */
