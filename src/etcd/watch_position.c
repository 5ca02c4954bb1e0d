/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/watch_position.h"

void watch_position_resume(struct watch_position *p)
{
    p->skip = p->seen;
    p->last_on_wire = 0;
}

enum watch_verdict watch_position_event(struct watch_position *p, int64_t revision)
{
    if (revision < p->last_on_wire || revision <= 0)
        return WATCH_DISORDER;
    p->last_on_wire = revision;
    if (revision < p->next)
        return WATCH_DROP;
    if (revision > p->next) {
        p->next = revision;
        p->seen = p->skip = 0;
    }
    if (p->skip > 0) {
        p->skip--;
        return WATCH_DROP;
    }
    p->seen++;
    return WATCH_DELIVER;
}

void watch_position_response(struct watch_position *p, bool fragment)
{
    if (fragment || p->last_on_wire < p->next)
        return;
    p->next = p->last_on_wire + 1;
    p->seen = p->skip = 0;
}

void watch_position_progress(struct watch_position *p, int64_t revision)
{
    if (revision < p->next)
        return;
    p->next = revision + 1;
    p->seen = p->skip = 0;
}
