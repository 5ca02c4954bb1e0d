/* SPDX-License-Identifier: Apache-2.0
 * The arithmetic of the chokepoint. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

struct health;
struct observed;

enum { GATE_TEXT_MAX = 160 };

/* What the voters say. */
struct tally {
    size_t voters, good_others;
    size_t successor; /* a healthy voter other than the target; PLAN_NO_MEMBER: there is none */
    bool disagree;    /* on leader or term: an election is going on */
};

struct tally gate_count(const struct observed *s, const struct health *h, size_t target);

/* Why the target may not be removed now, with words for a person; NULL: it may. */
const char *gate_refusal(const struct observed *s, const struct tally *t, size_t target,
                         char text[GATE_TEXT_MAX]);
