/* SPDX-License-Identifier: Apache-2.0 */
#include "net/wire.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "net/endpoint.h"
#include "net/resolve.h"
#include "net/tls.h"

enum {
    ADDRESS_TRY_MS = 2000,   /* then the next address, if there is one */
    USER_TIMEOUT_MS = 20000, /* bytes we sent that nobody acknowledges */
};

enum wire_state { WIRE_NEW, WIRE_RESOLVING, WIRE_CONNECTING, WIRE_HANDSHAKE, WIRE_OPEN };

struct wire {
    const struct endpoint *ep;
    const char *server_name;
    struct tls_client *client;
    const char *alpn;
    enum wire_state state;
    struct resolve *resolve;
    const struct addrinfo *at; /* the address being tried; owned by resolve */
    int64_t next_address_ms;
    int fd;
    short events;
    struct tls *tls;
};

struct wire *wire_new(const struct endpoint *ep, const char *server_name, struct tls_client *tls,
                      const char *alpn)
{
    struct wire *w = xcalloc(1, sizeof(*w));
    *w = (struct wire){
        .ep = ep,
        .server_name = server_name ? server_name : "localhost",
        .client = tls ? tls_client_ref(tls) : NULL,
        .alpn = alpn,
        .next_address_ms = INT64_MAX,
        .fd = -1,
    };
    return w;
}

static void hang_up(struct wire *w)
{
    tls_free(TAKE(w->tls));
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
    w->events = 0;
}

void wire_free(struct wire *w)
{
    if (!w)
        return;
    hang_up(w);
    resolve_free(w->resolve);
    tls_client_unref(w->client);
    free(w);
}

bool wire_open(const struct wire *w)
{
    return w->state == WIRE_OPEN;
}

int wire_fd(const struct wire *w)
{
    return w->state == WIRE_RESOLVING ? resolve_fd(w->resolve) : w->fd;
}

short wire_events(const struct wire *w)
{
    return w->state == WIRE_RESOLVING ? POLLIN : w->events;
}

int64_t wire_timer_ms(const struct wire *w)
{
    return w->state == WIRE_CONNECTING ? w->next_address_ms : INT64_MAX;
}

static int unavailable(struct err *e, int errno_value, const char *what)
{
    err_set_errno(e, errno_value, "%s", what);
    e->code = ERR_UNAVAILABLE; /* nothing was sent */
    return -1;
}

/* A small struct on the wire must not wait for company, and a dead peer must be noticed. */
static void tune(int fd, int family)
{
    if (family == AF_UNIX)
        return;
    const int on = 1, user_timeout_ms = USER_TIMEOUT_MS;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* without it: slower */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof(user_timeout_ms));
}

static int connect_to(struct wire *w, const struct sockaddr *addr, socklen_t n, struct err *e)
{
    hang_up(w);
    w->fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (w->fd < 0)
        return unavailable(e, errno, "socket");
    tune(w->fd, addr->sa_family);
    w->state = WIRE_CONNECTING;
    w->events = POLLOUT;
    if (connect(w->fd, addr, n) < 0 && errno != EINPROGRESS)
        return unavailable(e, errno, "connect");
    return 0;
}

static int connect_unix(struct wire *w, struct err *e)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    memcpy(addr.sun_path, w->ep->path, strlen(w->ep->path)); /* its length was checked */
    if (addr.sun_path[0] == '@')
        addr.sun_path[0] = '\0'; /* an abstract name */
    const size_t n = offsetof(struct sockaddr_un, sun_path) + strlen(w->ep->path);
    return connect_to(w, (const struct sockaddr *)&addr, (socklen_t)n, e);
}

/* Tries addresses from w->at on until one is under way. */
static int connect_next(struct wire *w, int64_t now_ms, struct err *e)
{
    for (; w->at; w->at = w->at->ai_next) {
        w->next_address_ms = w->at->ai_next ? now_ms + ADDRESS_TRY_MS : INT64_MAX;
        if (connect_to(w, w->at->ai_addr, w->at->ai_addrlen, e) == 0)
            return 0;
    }
    return -1;
}

static int step_resolving(struct wire *w, int64_t now_ms, struct err *e)
{
    const struct addrinfo *list = NULL;
    if (!resolve_poll(w->resolve, &list, e))
        return 0;
    if (!list)
        return -1;
    w->at = list;
    return connect_next(w, now_ms, e);
}

static int step_connecting(struct wire *w, int64_t now_ms, struct err *e)
{
    struct pollfd ready = {.fd = w->fd, .events = POLLOUT};
    int why = 0;
    if (poll(&ready, 1, 0) <= 0) {
        if (now_ms < w->next_address_ms)
            return 0;
        why = ETIMEDOUT;
    } else {
        socklen_t n = sizeof(why);
        if (getsockopt(w->fd, SOL_SOCKET, SO_ERROR, &why, &n) < 0)
            why = errno;
    }
    if (why != 0) {
        unavailable(e, why, "connect");
        w->at = w->at ? w->at->ai_next : NULL;
        return w->at ? connect_next(w, now_ms, e) : -1;
    }
    w->events = 0;
    w->state = WIRE_OPEN;
    if (w->ep->tls) {
        w->tls = tls_new(w->client, w->fd, w->server_name, w->alpn);
        w->state = WIRE_HANDSHAKE;
    }
    return 0;
}

static int step_handshake(struct wire *w, struct err *e)
{
    enum tls_want want = TLS_DONE;
    if (tls_handshake(w->tls, &want, e) < 0)
        return -1;
    w->events = want == TLS_WANT_READ ? POLLIN : want == TLS_WANT_WRITE ? POLLOUT : 0;
    if (want == TLS_DONE)
        w->state = WIRE_OPEN;
    return 0;
}

static int start(struct wire *w, int64_t now_ms, struct err *e)
{
    if (w->ep->tls && !w->client)
        return err_set(e, ERR_INVALID, 0, "https needs a CA certificate");
    if (w->ep->path)
        return connect_unix(w, e);
    if (resolve_start(w->ep->host, w->ep->port, &w->resolve, e) < 0)
        return -1;
    w->state = WIRE_RESOLVING;
    return step_resolving(w, now_ms, e);
}

int wire_step(struct wire *w, int64_t now_ms, struct err *e)
{
    if (w->state == WIRE_NEW && start(w, now_ms, e) < 0)
        return -1;
    if (w->state == WIRE_RESOLVING && step_resolving(w, now_ms, e) < 0)
        return -1;
    if (w->state == WIRE_CONNECTING && step_connecting(w, now_ms, e) < 0)
        return -1;
    if (w->state == WIRE_HANDSHAKE && step_handshake(w, e) < 0)
        return -1;
    return 0;
}

int wire_read(struct wire *w, void *into, size_t cap, size_t *n, bool *again, struct err *e)
{
    *again = false;
    w->events = (short)(w->events & ~POLLIN);
    if (w->tls) {
        enum tls_want want = TLS_DONE;
        if (tls_read(w->tls, into, cap, n, &want, e) < 0)
            return -1;
        *again = want != TLS_DONE;
        if (*again)
            w->events |= want == TLS_WANT_READ ? POLLIN : POLLOUT;
        return 0;
    }
    const ssize_t got = recv(w->fd, into, cap, 0);
    *n = got > 0 ? (size_t)got : 0;
    *again = got < 0 && (errno == EAGAIN || errno == EINTR);
    if (*again)
        w->events |= POLLIN;
    return got >= 0 || *again ? 0 : unavailable(e, errno, "read");
}

int wire_write(struct wire *w, const void *bytes, size_t len, size_t *n, bool *again, struct err *e)
{
    *again = false;
    w->events = (short)(w->events & ~POLLOUT);
    if (w->tls) {
        enum tls_want want = TLS_DONE;
        if (tls_write(w->tls, bytes, len, n, &want, e) < 0)
            return -1;
        *again = want != TLS_DONE;
        if (*again)
            w->events |= want == TLS_WANT_READ ? POLLIN : POLLOUT;
        return 0;
    }
    const ssize_t put = send(w->fd, bytes, len, MSG_NOSIGNAL);
    *n = put > 0 ? (size_t)put : 0;
    *again = put < 0 && (errno == EAGAIN || errno == EINTR);
    if (*again)
        w->events |= POLLOUT;
    return put >= 0 || *again ? 0 : unavailable(e, errno, "write");
}
