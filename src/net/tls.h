/* SPDX-License-Identifier: Apache-2.0
 * TLS on the client side, by OpenSSL, which stays in the .c file.
 *
 * At least TLS 1.2; the server's certificate is always verified against the given CA, and its
 * name against the given server name (subject alternative names only). There is no switch for
 * either. Errors of this module carry the reason TLS_REASON, whatever their code. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

#define TLS_REASON "TLS"

/* Whom we trust and who we are. Immutable and reference-counted: share one among connections,
 * also across threads. */
struct tls_client;

struct tls_client_options {
    struct str ca_pem;   /* one or more certificates; required */
    struct str cert_pem; /* our certificate and its chain; empty: none */
    struct str key_pem;  /* its private key; the caller wipes its copy */
};

/* ERR_INVALID: the PEM does not parse, or key and certificate do not belong together. */
NODISCARD int tls_client_new(const struct tls_client_options *o, struct tls_client **out,
                             struct err *e);
struct tls_client *tls_client_ref(struct tls_client *t) NONNULL;
void tls_client_unref(struct tls_client *t); /* NULL-safe */
AUTO_DEFINE(struct tls_client, tls_client_unref)

/* One TLS connection over a non-blocking socket it does not own. */
struct tls;

/* server_name: DNS name (also sent as SNI) or address literal the certificate must carry, as
 * server_name_check() takes it and without a zone. alpn is offered and must be what the server
 * picks. */
struct tls *tls_new(struct tls_client *t, int fd, const char *server_name,
                    const char *alpn) NONNULL;
void tls_free(struct tls *s); /* says goodbye without waiting; NULL-safe */

enum tls_want { TLS_DONE, TLS_WANT_READ, TLS_WANT_WRITE };

/* Each does what it can without blocking. TLS_DONE: finished, or *n bytes moved; n == 0 after a
 * read is the end. -1: ERR_DENIED the certificate (theirs or ours) was not accepted ·
 * ERR_UNAVAILABLE anything else. Bytes of a write that wanted to wait must be offered again. */
NODISCARD int tls_handshake(struct tls *s, enum tls_want *want, struct err *e);
NODISCARD int tls_read(struct tls *s, void *into, size_t cap, size_t *n, enum tls_want *want,
                       struct err *e);
NODISCARD int tls_write(struct tls *s, const void *bytes, size_t len, size_t *n,
                        enum tls_want *want, struct err *e);
