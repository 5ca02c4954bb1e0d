/* SPDX-License-Identifier: Apache-2.0
 * A byte stream to one endpoint: name look-up, non-blocking connect (each address in turn), TLS
 * if asked. Never blocks: the owner polls wire_fd() for wire_events() and calls wire_step() until
 * wire_open(). Not thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct endpoint;
struct tls_client;
struct wire;

/* Borrows endpoint and server_name (NULL: "localhost") for its lifetime; takes its own
 * reference of tls, which an endpoint with TLS needs. alpn is a constant. */
struct wire *wire_new(const struct endpoint *ep, const char *server_name, struct tls_client *tls,
                      const char *alpn) NONNULL;
void wire_free(struct wire *w); /* NULL-safe */

/* Moves the dialing on. -1: every address failed; *e is the last failure. ERR_UNAVAILABLE ·
 * ERR_DENIED (certificates). now_ms is boot time, for moving on from an address that is silent. */
NODISCARD int wire_step(struct wire *w, int64_t now_ms, struct err *e);
bool wire_open(const struct wire *w);

int wire_fd(const struct wire *w);       /* -1: nothing to wait for, step again */
short wire_events(const struct wire *w); /* what the last operation wanted to wait for, else 0 */
int64_t wire_timer_ms(const struct wire *w); /* when to step without an event; INT64_MAX: never */

/* Once open. *n bytes moved; *again: would block. A read of 0 bytes without *again is the end. */
NODISCARD int wire_read(struct wire *w, void *into, size_t cap, size_t *n, bool *again,
                        struct err *e);
NODISCARD int wire_write(struct wire *w, const void *bytes, size_t len, size_t *n, bool *again,
                         struct err *e);
