/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { QUIET_MS = 1000, EVERY_MS = 200, BAR = 30 };

static void tell(void *arg, uint64_t done, uint64_t total)
{
    struct progress_line *p = arg;
    MUTEX_HOLD(&p->lock);
    const int64_t now = clock_boot_ms(p->clock);
    if (!p->terminal || now - p->begin_ms < QUIET_MS || now - p->shown_ms < EVERY_MS || total == 0)
        return;
    p->shown_ms = now;
    p->visible = true;
    const double part = done < total ? (double)done / (double)total : 1;
    const double left_s = part > 0 ? (double)(now - p->begin_ms) / 1000 * (1 - part) / part : 0;
    char bar[BAR + 1];
    memset(bar, '.', BAR);
    memset(bar, '#', (size_t)(part * BAR));
    bar[BAR] = '\0';
    (void)fprintf(stderr, "\r%s [%s] %3.0f %% of %.1f MB, %.0f s left \033[K", p->what, bar,
                  part * 100, (double)total / 1e6, left_s);
}

void progress_begin(struct progress_line *p, const char *what, const struct clock *clock)
{
    *p = (struct progress_line){
        .progress = {p, tell},
        .what = what,
        .clock = clock,
        .begin_ms = clock_boot_ms(clock),
        .terminal = isatty(STDERR_FILENO) == 1,
    };
    (void)pthread_mutex_init(&p->lock, NULL); /* cannot fail with default attributes */
}

void progress_end(struct progress_line *p)
{
    if (p->visible)
        (void)fputs("\r\033[K", stderr);
    p->visible = false;
}
