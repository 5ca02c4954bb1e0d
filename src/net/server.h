/* SPDX-License-Identifier: Apache-2.0
 * A small HTTP server for health and metrics: plain HTTP, GET and HEAD, one thread of its own. */
#pragma once
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"

struct metrics;
struct server;

enum {
    SERVER_CONNECTIONS_MAX = 64,
    SERVER_TIMEOUT_S = 10, /* of a connection that says nothing */
    SERVER_BODY_MAX = 16 * 1024 * 1024,
};

struct server_reply {
    int status; /* 200 unless changed */
    const char *content_type;
    struct buf body;
};

/* Answers one path; called on the server's thread, must not block for long. `query` is the value
 * of ?verbose and the like: whether a parameter of that name was given. */
struct server_query;
bool server_query_has(const struct server_query *q, const char *name);
typedef void server_answer_fn(void *arg, const struct server_query *query,
                              struct server_reply *out);

struct server_route {
    const char *path;
    server_answer_fn *answer;
    void *arg;
};

/* "HOST:PORT", ":PORT" (all addresses) or "[::1]:PORT"; port 0 takes a free one. The routes are
 * copied. ERR_INVALID the address · ERR_UNAVAILABLE it is taken or not ours, or
 * libmicrohttpd is not installed. */
NODISCARD int server_start(const char *address, const struct server_route *routes, size_t n,
                           struct server **out, struct err *e);
void server_stop(struct server *s); /* NULL-safe; ends connections and joins the thread */
int server_port(const struct server *s);

/* --- Ready-made answers --- */

/* A named check: 0, or -1 with what is wrong. Thread-safe. */
struct server_check {
    const char *name;
    int (*check)(void *arg, struct err *e);
    void *arg;
};

struct server_checks {
    const struct server_check *v;
    size_t n;
};

/* arg: struct server_checks. 200 "ok", or 503 with one line per check. With ?verbose the lines
 * are shown either way. */
server_answer_fn server_answer_checks;

/* arg: struct metrics. */
server_answer_fn server_answer_metrics;
