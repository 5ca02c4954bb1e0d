/* SPDX-License-Identifier: Apache-2.0
 * On libmicrohttpd, with its own polling thread. Its TLS is GnuTLS's, so it serves plain HTTP only
 * and nothing secret goes through it. */
#include "net/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "base/metric.h"
#include "base/str.h"
#include "net/libmicrohttpd.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
enum { STACK_BYTES = 2 * 1024 * 1024 };
#else
enum { STACK_BYTES = 256 * 1024 };
#endif

struct server {
    struct MHD_Daemon *daemon;
    struct server_route *routes;
    size_t n;
    int port;
};

struct server_query {
    struct MHD_Connection *connection;
};

bool server_query_has(const struct server_query *q, const char *name)
{
    /* "?verbose" has no value, so the value is no way to tell. */
    const char *value = NULL;
    return MHD_lookup_connection_value_n(q->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name),
                                         &value, NULL) == MHD_YES;
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct server_reply *reply)
{
    const size_t n = reply->body.n;
    char *bytes = buf_take(&reply->body);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(n, bytes, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(bytes);
        return MHD_NO;
    }
    (void)MHD_add_response_header(response, "Content-Type", reply->content_type); /* ours: valid */
    const enum MHD_Result rc =
        MHD_queue_response(connection, (unsigned int)reply->status, response);
    MHD_destroy_response(response);
    return rc;
}

/* NOLINTNEXTLINE(readability-function-size): the library says how many parameters */
static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_n, void **state)
{
    (void)version;
    (void)body;
    const struct server *s = arg;
    static int seen;
    if (*state == NULL) { /* only the header is there yet */
        *state = &seen;
        return MHD_YES;
    }
    if (*body_n > 0) { /* not read */
        *body_n = 0;
        return MHD_YES;
    }
    struct server_reply reply = {.status = 404,
                                 .content_type = "text/plain; charset=utf-8",
                                 .body = BUF_INIT(SERVER_BODY_MAX)};
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0) {
        reply.status = 405;
        return send_reply(connection, &reply);
    }
    for (size_t i = 0; i < s->n; i++) {
        if (strcmp(path, s->routes[i].path) != 0)
            continue;
        const struct server_query query = {.connection = connection};
        reply.status = 200;
        s->routes[i].answer(s->routes[i].arg, &query, &reply);
        return send_reply(connection, &reply);
    }
    buf_add_c(&reply.body, "not found\n");
    return send_reply(connection, &reply);
}

static int parse_address(const char *text, struct sockaddr_storage *out, struct err *e)
{
    const char *colon = strrchr(text, ':');
    uint64_t port = 0;
    if (!colon || !str_u64(str_c(colon + 1), &port) || port > 65535)
        return err_set(e, ERR_INVALID, 0, "\"%s\" is not of the form HOST:PORT", text);
    struct str host = {text, (size_t)(colon - text)};
    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = str_first(str_from(host, 1), host.n - 2);
    auto_free char *name = str_dup(host.n > 0 ? host : STR("::"));
    auto_free char *service = xasprintf("%u", (unsigned int)port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC,
                             .ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    if (strcmp(name, "localhost") == 0)
        hints.ai_flags &= ~AI_NUMERICHOST;
    if (getaddrinfo(name, service, &hints, &found) != 0)
        return err_set(e, ERR_INVALID, 0, "\"%s\" is no address to listen on", text);
    memcpy(out, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

static int bind_socket(int fd, const struct sockaddr_storage *at, int *port, struct err *e)
{
    const socklen_t n =
        at->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    const int off = 0, on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* else: a slower restart */
    if (at->ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)); /* "::" is all */
    if (bind(fd, (const struct sockaddr *)at, n) < 0 || listen(fd, 64) < 0) {
        err_set_errno(e, errno, "listen");
        e->code = ERR_UNAVAILABLE;
        return -1;
    }
    /* The port is at the same place in both families. */
    struct sockaddr_in6 bound = {0};
    socklen_t bound_n = sizeof(bound);
    if (getsockname(fd, (struct sockaddr *)&bound, &bound_n) < 0)
        return err_set_errno(e, errno, "name of the socket");
    *port = ntohs(bound.sin6_port);
    return 0;
}

static int listen_on(const struct sockaddr_storage *at, int *out, int *port, struct err *e)
{
    const int fd = socket(at->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set_errno(e, errno, "socket");
    if (bind_socket(fd, at, port, e) < 0) {
        close_auto(&fd);
        return -1;
    }
    *out = fd;
    return 0;
}

/* A machine without IPv6 has no "::". */
static int listen_on_any(const char *address, int *fd, int *port, struct err *e)
{
    struct sockaddr_storage at = {0};
    if (parse_address(address, &at, e) < 0)
        return -1;
    if (listen_on(&at, fd, port, e) == 0)
        return 0;
    if (address[0] != ':' || e->origin != EAFNOSUPPORT)
        return err_wrap(e, "%s", address);
    auto_free char *v4 = xasprintf("0.0.0.0%s", address);
    if (parse_address(v4, &at, e) < 0 || listen_on(&at, fd, port, e) < 0)
        return err_wrap(e, "%s", address);
    return 0;
}

int server_start(const char *address, const struct server_route *routes, size_t n,
                 struct server **out, struct err *e)
{
    int fd = -1, port = 0;
    if (libmicrohttpd_load(e) < 0 || listen_on_any(address, &fd, &port, e) < 0)
        return err_wrap(e, "http server");
    struct server *s = xcalloc(1, sizeof(*s));
    s->port = port;
    s->n = n;
    s->routes = xcalloc(n, sizeof(*routes));
    memcpy(s->routes, routes, n * sizeof(*routes));

    /* Its thread inherits our mask: signals are the main thread's. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    s->daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, s,
                                 MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                                 (unsigned int)SERVER_CONNECTIONS_MAX,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)SERVER_TIMEOUT_S,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)16 * 1024,
                                 MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!s->daemon) {
        close_auto(&fd);
        free(s->routes);
        free(s);
        return err_set(e, ERR_UNAVAILABLE, errno, "http server on %s did not start", address);
    }
    *out = s;
    return 0;
}

void server_stop(struct server *s)
{
    if (!s)
        return;
    MHD_stop_daemon(s->daemon); /* closes the listening socket as well */
    free(s->routes);
    free(s);
}

int server_port(const struct server *s)
{
    return s->port;
}

void server_answer_checks(void *arg, const struct server_query *query, struct server_reply *out)
{
    const struct server_checks *checks = arg;
    bool good = true;
    auto_buf struct buf lines = BUF_INIT(SERVER_BODY_MAX);
    for (size_t i = 0; i < checks->n; i++) {
        struct err e = {0};
        if (checks->v[i].check(checks->v[i].arg, &e) == 0) {
            buf_addf(&lines, "[+]%s ok\n", checks->v[i].name);
        } else {
            good = false;
            buf_addf(&lines, "[-]%s: %s\n", checks->v[i].name, e.text);
        }
    }
    if (!good || server_query_has(query, "verbose"))
        buf_add_str(&out->body, buf_str(&lines));
    buf_add_c(&out->body, good ? "ok" : "not ready\n");
    out->status = good ? 200 : 503;
}

void server_answer_metrics(void *arg, const struct server_query *query, struct server_reply *out)
{
    (void)query;
    struct err e = {0};
    out->content_type = "text/plain; version=0.0.4; charset=utf-8";
    if (metrics_render(arg, &out->body, &e) < 0) {
        buf_reset(&out->body);
        out->status = 500;
    }
}
