/* SPDX-License-Identifier: Apache-2.0
 * Where a server listens, as people and etcd write it:
 * "https://10.0.0.4:2379", "http://[::1]:2379", "db.example:2379", "unix:///run/etcd.sock". */
#pragma once
#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct endpoint {
    bool tls;        /* https, unixs */
    char *host;      /* name or address without brackets; NULL for a Unix socket */
    char *port;      /* decimal */
    char *path;      /* of a Unix socket; NULL otherwise */
    char *authority; /* "host:port" with brackets where needed; "localhost" for a Unix socket */
};

/* Without a scheme, TLS is used if tls_default says so; without a port, 2379. A path, query or
 * user part is refused. ERR_INVALID quotes the text. */
NODISCARD int endpoint_parse(struct str url, bool tls_default, struct endpoint *out, struct err *e);
void endpoint_done(struct endpoint *ep); /* NULL-safe, idempotent */

bool host_is_address(const char *host); /* an IPv4 or IPv6 literal, zone allowed */

/* "host:port", with brackets where needed. Owned. */
char *host_with_port(const char *host, const char *port) NONNULL;
/* The zone of an IPv6 address means something on this machine only: no server is told, and no
 * certificate has it. Owned. */
char *host_without_zone(const char *host) NONNULL;

/* Whether a certificate can carry it: a DNS name or an address, without brackets or port.
 * ERR_INVALID quotes it. */
NODISCARD int server_name_check(const char *name, struct err *e);
