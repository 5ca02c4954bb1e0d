/* SPDX-License-Identifier: Apache-2.0
 * Leader election on a Lease. A Lease is no fence: safety never rests on it. It keeps two
 * operators from working against each other, and it makes a paused one stop.
 *
 * All of its own time is CLOCK_BOOTTIME: it counts through suspend, and setting the date changes
 * nothing. Another holder's time stamps are never believed; what counts is for how long we have
 * seen its Lease unchanged. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "kube/client.h"

struct cancel;
struct ctx;
struct kube_config;
struct leader;

enum { LEASE_DURATION_MS = 15000, LEASE_RENEW_MS = 10000, LEASE_RETRY_MS = 2000 };

struct leader_options {
    struct kube_config *config;
    const char *ns, *name;
    const char *identity;    /* unique; NULL: host name and a random number */
    int64_t duration_ms;     /* 0: LEASE_DURATION_MS; whole seconds */
    int64_t renew_ms;        /* give up after so long without a renewal; 0: LEASE_RENEW_MS */
    int64_t retry_ms;        /* between renewals, and between attempts; 0: LEASE_RETRY_MS */
    struct cancel *lost;     /* fired when leadership is lost; borrowed */
    struct metrics *metrics; /* may be NULL */
};

/* ERR_INVALID: the three times do not go together. */
NODISCARD int leader_new(const struct leader_options *o, struct leader **out, struct err *e);
void leader_free(struct leader *l); /* NULL-safe; joined */

/* The thread ends when ctx is cancelled or leadership is lost. */
NODISCARD int leader_start(const struct ctx *ctx, struct leader *l, struct err *e);
void leader_join(struct leader *l);

/* After the join, when nothing of ours works any more: lets the next one in at once. Does nothing
 * if we do not lead. A failure is not worth more than a log line: the Lease runs out. */
void leader_release(const struct ctx *ctx, struct leader *l);

/* --- Thread-safe --- */

bool leader_leads(struct leader *l);
/* Blocks until we lead. -1: ERR_CANCELED by ctx. */
NODISCARD int leader_wait(const struct ctx *ctx, struct leader *l, struct err *e);

/* Lease duration less renew deadline: a call that takes no longer is allowed for as long as we
 * have not given up. */
int64_t leader_spare_ms(const struct leader *l);

/* Whether a call that may take within_ms would end before our lease does; else ERR_CANCELED. The
 * guard of every client that writes. */
NODISCARD int leader_may_write(void *leader, int64_t within_ms, struct err *e);

static inline struct kube_guard leader_guard(struct leader *l)
{
    return (struct kube_guard){.may_write = leader_may_write, .arg = l};
}
