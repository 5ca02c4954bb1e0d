/* SPDX-License-Identifier: Apache-2.0
 * Where a watch is: which events were delivered, whatever the server repeats. Pure.
 *
 * A response holds whole revisions unless it is marked as a fragment; then its last revision may
 * go on in the next one. So a position is a revision and, inside a chain of fragments, how many
 * events of it have been delivered. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct watch_position {
    int64_t next;         /* the first revision not delivered in full; 0: from now on */
    uint64_t seen;        /* events of it that were delivered */
    uint64_t skip;        /* of those, how many the server will repeat on this stream */
    int64_t last_on_wire; /* newest revision on this stream: it must not go back */
};

/* A new stream will start at `next`. */
void watch_position_resume(struct watch_position *p);

enum watch_verdict { WATCH_DELIVER, WATCH_DROP, WATCH_DISORDER };
enum watch_verdict watch_position_event(struct watch_position *p, int64_t revision);

/* The end of a response: unless it is a fragment, its last revision is complete. */
void watch_position_response(struct watch_position *p, bool fragment);
/* Everything up to revision was delivered. */
void watch_position_progress(struct watch_position *p, int64_t revision);
