/* SPDX-License-Identifier: Apache-2.0
 * HTTP client. One struct http_client per thread, never shared: it keeps connections alive, and
 * several transfers of one client share an HTTP/2 connection where the server offers it.
 *
 * Host-name and certificate checks are always on; there is no option to turn them off. Redirects
 * are not followed. Proxies are found by the usual environment variables. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct ctx;
struct clock;
struct http_client;
struct http_transfer;

enum {
    HTTP_CONNECT_MS = 10000,         /* name, TCP and TLS together */
    HTTP_USER_TIMEOUT_MS = 30000,    /* unacknowledged bytes or keep-alives: the peer is gone */
    HTTP_BODY_MAX = 4 * 1024 * 1024, /* collected answers; more is ERR_TOO_BIG */
    HTTP_ERROR_BODY_MAX = 256 * 1024,
    HTTP_CONNECTIONS_MAX = 4, /* kept open by one client */
};

/* What to trust and who to be. Borrowed until the transfer ends. PEM text in memory goes before
 * the file of the same purpose. Neither CA: the system's authorities. */
struct http_tls {
    struct str ca_pem, cert_pem, key_pem;
    const char *ca_file, *cert_file, *key_file;
    const char *server_name; /* the name the certificate must carry; NULL: the URL's host */
};

struct http_header {
    const char *name, *value;
};

/* The answer. On a status of 400 and above `body` holds the beginning of the error text. */
struct http_response {
    int status; /* 0: none came */
    uint32_t retry_after_ms;
    char content_type[64];
    struct buf body;
};

void http_response_done(struct http_response *r); /* NULL-safe, idempotent */

struct http_request {
    const char *method;
    const char *url;                   /* copied */
    const struct http_header *headers; /* copied */
    size_t n_headers;
    struct str body;            /* borrowed until the transfer ends */
    const struct http_tls *tls; /* NULL: the system's authorities */
    const char *proxy;          /* NULL: by environment; copied */
    int64_t connect_ms;         /* 0: HTTP_CONNECT_MS */
    int64_t idle_ms;            /* the transfer ends when no byte came for so long; 0: no limit */
    size_t body_max;            /* 0: HTTP_BODY_MAX */

    /* The call changes something on the server: once its bytes may have left and no answer came
     * it is ERR_OUTCOME_UNKNOWN, and it is never sent a second time by itself. */
    bool mutating;
    /* Asked at the last moment before the first byte of the body leaves; -1 ends the transfer
     * with *e, certainly not sent. Only for requests with a body. May be NULL. */
    int (*may_send)(void *arg, struct err *e);

    /* The header of an answer below 300 has come; there may be no body for long. May be NULL. */
    void (*on_open)(void *arg);
    /* Takes the body of an answer below 300 piece by piece instead of collecting it; -1 ends the
     * transfer with *e. May be NULL. Must not start or stop transfers. */
    int (*on_data)(void *arg, struct str piece, struct err *e);
    void *arg; /* for all three */
};

/* ERR_UNAVAILABLE: no memory or descriptors for it. */
NODISCARD int http_client_new(const struct clock *clock, struct http_client **out, struct err *e);
void http_client_free(struct http_client *c); /* NULL-safe; ends its transfers */
AUTO_DEFINE(struct http_client, http_client_free)

/* One request and its answer, whatever its status. *out is the caller's, to be done with, also
 * after a failure that came with a status. Returns within 50 ms of cancellation.
 *
 * ERR_UNAVAILABLE certainly not sent, or read-only and not answered · ERR_OUTCOME_UNKNOWN ·
 * ERR_TIMEOUT, ERR_CANCELED by ctx · ERR_DENIED the certificate did not convince · ERR_INVALID
 * URL or key material · ERR_TOO_BIG. */
NODISCARD int http_do(const struct ctx *ctx, struct http_client *c, const struct http_request *req,
                      struct http_response *out, struct err *e);

/* Starts a transfer that http_run() drives, next to others. `on_done` is called from http_run(),
 * exactly once unless http_stop() comes first; the transfer is gone when it returns. why->code is
 * ERR_NONE if the answer ended properly, whatever its status. It may start and stop transfers,
 * and may take *resp, leaving it zeroed. */
typedef void http_done_fn(void *arg, struct http_response *resp, const struct err *why);
NODISCARD int http_start(struct http_client *c, const struct http_request *req,
                         http_done_fn *on_done, struct http_transfer **out, struct err *e);
void http_stop(struct http_transfer *t); /* NULL-safe; on_done is not called */

/* Drives all transfers until one ended, something arrived, or max_wait_ms passed (negative: no such
 * limit). ERR_CANCELED · ERR_TIMEOUT · ERR_IO. */
NODISCARD int http_run(const struct ctx *ctx, struct http_client *c, int64_t max_wait_ms,
                       struct err *e);

/* Makes a waiting http_run() of another thread return. The only call that is thread-safe. */
void http_wake(struct http_client *c);

/* Appends s with everything but unreserved characters percent-encoded. */
void http_escape(struct buf *out, struct str s);

/* Before the first thread, by who will have a client. ERR_UNAVAILABLE: libcurl is not installed. */
NODISCARD int http_setup(struct err *e);
