/* SPDX-License-Identifier: Apache-2.0 */
#include "net/endpoint.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "base/mem.h"

enum { HOST_MAX = 253, URL_MAX = 1024 };

static const struct {
    struct str prefix;
    bool tls, local;
} schemes[] = {
    {STR("http://"), false, false},
    {STR("https://"), true, false},
    {STR("unix://"), false, true},
    {STR("unixs://"), true, true},
};

void endpoint_done(struct endpoint *ep)
{
    if (!ep)
        return;
    free(ep->host);
    free(ep->port);
    free(ep->path);
    free(ep->authority);
    *ep = (struct endpoint){0};
}

bool host_is_address(const char *host)
{
    const char *zone = strchr(host, '%');
    char bare[INET6_ADDRSTRLEN];
    const int n = zone ? (int)(zone - host) : INET6_ADDRSTRLEN;
    if (snprintf(bare, sizeof(bare), "%.*s", n, host) >= (int)sizeof(bare))
        return false;
    struct in6_addr any;
    return inet_pton(AF_INET6, bare, &any) == 1 || (!zone && inet_pton(AF_INET, bare, &any) == 1);
}

static int bad(struct str url, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID, 0, "endpoint \"%.*s\": %s", STR_ARG(str_first(url, 200)), why);
}

static bool host_is_clean(struct str host)
{
    for (size_t i = 0; i < host.n; i++) {
        const char c = host.p[i];
        const bool letter = ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z';
        if (!letter && !ascii_is_digit(c) && !(c && strchr(".-_:%", c)))
            return false;
    }
    return host.n > 0 && host.n <= HOST_MAX;
}

char *host_with_port(const char *host, const char *port)
{
    return strchr(host, ':') ? xasprintf("[%s]:%s", host, port) : xasprintf("%s:%s", host, port);
}

char *host_without_zone(const char *host)
{
    return str_dup(str_first(str_c(host), strcspn(host, "%")));
}

int server_name_check(const char *name, struct err *e)
{
    if (host_is_clean(str_c(name)) && (!strpbrk(name, ":%") || host_is_address(name)))
        return 0;
    return err_set(
        e, ERR_INVALID, 0,
        "server name \"%.*s\" is neither an address nor a DNS name of 1 to %d characters",
        STR_ARG(str_first(str_c(name), 200)), HOST_MAX);
}

/* "host", "host:port", "[v6]", "[v6]:port" → host, port (empty: none). */
static bool split_host(struct str s, struct str *host, struct str *port)
{
    *port = (struct str){0};
    if (s.n > 0 && s.p[0] == '[') {
        struct str rest;
        if (!str_cut(str_from(s, 1), ']', host, &rest))
            return false;
        if (rest.n == 0)
            return true;
        *port = str_from(rest, 1);
        return rest.p[0] == ':' && port->n > 0;
    }
    if (!str_cut(s, ':', host, port))
        return true;
    return port->n > 0 && !memchr(port->p, ':', port->n);
}

static int parse_tcp(struct str url, struct str rest, struct endpoint *ep, struct err *e)
{
    if (str_ends(rest, STR("/"))) /* "http://host:1/" is common and means nothing more */
        rest.n--;
    struct str host, port;
    if (!split_host(rest, &host, &port))
        return bad(url, "expected host:port; an IPv6 address needs brackets", e);
    if (!host_is_clean(host))
        return bad(url, "host is empty or has characters no host name has", e);
    const bool bracketed = rest.p[0] == '[';
    uint64_t number = 2379;
    if (port.n > 0 && (!str_u64(port, &number) || number == 0 || number > UINT16_MAX))
        return bad(url, "port is not a number from 1 to 65535", e);
    ep->host = str_dup(host);
    if (bracketed != (strchr(ep->host, ':') != NULL) || (bracketed && !host_is_address(ep->host)))
        return bad(url, "brackets are for IPv6 addresses", e);
    ep->port = xasprintf("%u", (unsigned)number);
    ep->authority = host_with_port(ep->host, ep->port);
    return 0;
}

static int parse_unix(struct str url, struct str rest, struct endpoint *ep, struct err *e)
{
    if (rest.n == 0 || rest.n >= sizeof((struct sockaddr_un){0}.sun_path))
        return bad(url, "socket path is empty or longer than the kernel allows", e);
    ep->path = str_dup(rest);
    ep->authority = xstrdup("localhost");
    return 0;
}

int endpoint_parse(struct str url, bool tls_default, struct endpoint *out, struct err *e)
{
    AUTO(endpoint_done) struct endpoint ep = {.tls = tls_default};
    struct str rest = url;
    bool local = false;
    if (url.n > URL_MAX || (url.n > 0 && memchr(url.p, '\0', url.n)))
        return bad(url, "too long, or a NUL inside", e);
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        if (!str_starts(url, schemes[i].prefix))
            continue;
        rest = str_from(url, schemes[i].prefix.n);
        ep.tls = schemes[i].tls;
        local = schemes[i].local;
    }
    if ((local ? parse_unix : parse_tcp)(url, rest, &ep, e) < 0)
        return -1;
    *out = ep;
    ep = (struct endpoint){0};
    return 0;
}
