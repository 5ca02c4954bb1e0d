/* SPDX-License-Identifier: Apache-2.0
 * Names to addresses without blocking the caller: the C library's resolver has no deadline, so a
 * name is looked up by a short-lived thread and the caller polls a descriptor. Address literals
 * need neither. */
#pragma once
#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"

struct addrinfo;
struct resolve;

/* Starts. ERR_UNAVAILABLE: too many look-ups are stuck already, or no thread. */
NODISCARD int resolve_start(const char *host, const char *port, struct resolve **out,
                            struct err *e);
/* Readable when the answer is there; -1: it is there now. */
int resolve_fd(const struct resolve *r);

/* Whether the answer is there. If so, *out is the list, owned by r, or NULL and *e says why:
 * ERR_UNAVAILABLE for every failure, since nothing was sent to anybody. */
bool resolve_poll(struct resolve *r, const struct addrinfo **out, struct err *e);
void resolve_free(struct resolve *r); /* at any time; a running look-up ends by itself. NULL-safe */
