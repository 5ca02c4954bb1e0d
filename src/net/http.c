/* SPDX-License-Identifier: Apache-2.0
 * On libcurl's multi interface: a blocking call is a transfer driven until it is done.
 *
 * Deadlines, cancellation and the idle limit are ours: the poll loop also waits for the
 * cancellation descriptors, so that a cancelled call returns at once. What libcurl would still do
 * then is to join its resolver thread, which a name server that never answers can hold for half
 * a minute: CURLOPT_QUICK_EXIT leaves it behind.
 *
 * Whether a request was sent is known from the read callback: libcurl has taken the first byte
 * of the body from us or it has not. libcurl repeats a request by itself when a reused connection
 * turns out to be dead, even a POST of which every byte was sent; refusing to rewind the body
 * keeps it from that. */
#include "net/http.h"

#include <assert.h>
#include <curl/curl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "net/libcurl.h"

enum { HEADER_LINE_MAX = 64 * 1024, RETRY_AFTER_MAX_S = 3600 };

struct http_transfer {
    struct http_client *client;
    struct http_transfer *next, **link; /* the client's list */
    CURL *easy;
    struct curl_slist *headers, *connect_to;
    struct http_request req; /* url is our copy; headers are in the list above */
    char *url;
    struct http_response resp;
    http_done_fn *on_done;
    size_t body_at;   /* bytes of the request body handed to libcurl */
    bool sent;        /* they may have left the machine */
    bool answered;    /* the final status came */
    struct err error; /* what a callback ended the transfer with */
    int64_t last_byte_ms;
    char why[CURL_ERROR_SIZE];
};

struct http_client {
    const struct clock *clock;
    CURLM *multi;
    struct http_transfer *transfers;
    bool started; /* a transfer that libcurl has not been given time for yet */
};

int http_setup(struct err *e)
{
    if (libcurl_load(e) < 0)
        return err_wrap(e, "http client");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        abort(); /* OpenSSL did not come up: nothing can work */
    return 0;
}

void http_response_done(struct http_response *r)
{
    if (!r)
        return;
    buf_done(&r->body);
    *r = (struct http_response){0};
}

int http_client_new(const struct clock *clock, struct http_client **out, struct err *e)
{
    struct http_client *c = xcalloc(1, sizeof(*c));
    c->clock = clock;
    c->multi = curl_multi_init();
    if (!c->multi) {
        free(c);
        return err_set(e, ERR_UNAVAILABLE, 0, "http client: out of memory or descriptors");
    }
    (void)curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    (void)curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_CONNECTIONS_MAX);
    *out = c;
    return 0;
}

void http_client_free(struct http_client *c)
{
    if (!c)
        return;
    while (c->transfers)
        http_stop(c->transfers);
    (void)curl_multi_cleanup(c->multi);
    free(c);
}

/* --- Callbacks, inside curl_multi_perform() --- */

static int on_socket(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    (void)arg;
    (void)purpose;
    const unsigned int timeout_ms = HTTP_USER_TIMEOUT_MS;
    /* Without it a vanished peer is noticed later, by the idle limit: not worth failing for. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
    return CURL_SOCKOPT_OK;
}

static size_t on_read(char *to, size_t size, size_t n, void *arg)
{
    struct http_transfer *t = arg;
    const size_t room = size * n;
    if (t->body_at == 0 && t->req.may_send && t->req.may_send(t->req.arg, &t->error) < 0)
        return CURL_READFUNC_ABORT;
    const struct str left = str_first(str_from(t->req.body, t->body_at), room);
    if (left.n > 0)
        memcpy(to, left.p, left.n);
    t->body_at += left.n;
    t->sent = true;
    return left.n;
}

static int on_seek(void *arg, curl_off_t at, int origin)
{
    struct http_transfer *t = arg;
    if (origin != SEEK_SET || at < 0 || (size_t)at > t->req.body.n)
        return CURL_SEEKFUNC_FAIL;
    if (t->sent && t->req.mutating)
        return CURL_SEEKFUNC_FAIL;
    t->body_at = (size_t)at;
    return CURL_SEEKFUNC_OK;
}

static void take_retry_after(struct http_transfer *t, struct str value)
{
    uint64_t seconds = 0;
    if (!str_u64(value, &seconds))
        return; /* the date form: not used by any server we talk to; our own backoff does */
    if (seconds > RETRY_AFTER_MAX_S)
        seconds = RETRY_AFTER_MAX_S;
    t->resp.retry_after_ms = (uint32_t)seconds * 1000;
}

static int status_of(struct http_transfer *t)
{
    long status = 0;
    (void)curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct http_transfer *t = arg;
    struct str name, value;
    t->last_byte_ms = clock_boot_ms(t->client->clock);
    const struct str whole = {line, size * n};
    if (whole.n > HEADER_LINE_MAX)
        return 0;
    if (str_starts(whole, STR("HTTP/"))) { /* also after a 100 and a proxy's answer */
        t->resp.status = 0;
        t->resp.retry_after_ms = 0;
        t->resp.content_type[0] = '\0';
        return whole.n;
    }
    if (str_trim(whole).n == 0) { /* the end of a header */
        const int status = status_of(t);
        if (t->req.on_open && status >= 200 && status < 300)
            t->req.on_open(t->req.arg);
        return whole.n;
    }
    if (!str_cut(whole, ':', &name, &value))
        return whole.n;
    value = str_trim(value);
    if (str_eq_nocase(name, STR("retry-after")))
        take_retry_after(t, value);
    if (str_eq_nocase(name, STR("content-type")) && value.n < sizeof(t->resp.content_type)) {
        memcpy(t->resp.content_type, value.p, value.n);
        t->resp.content_type[value.n] = '\0';
    }
    return whole.n;
}

static size_t on_write(char *bytes, size_t size, size_t n, void *arg)
{
    struct http_transfer *t = arg;
    const struct str piece = {bytes, size * n};
    t->last_byte_ms = clock_boot_ms(t->client->clock);
    if (!t->answered) {
        t->resp.status = status_of(t);
        t->answered = true;
    }
    if (t->req.on_data && t->resp.status < 300)
        return t->req.on_data(t->req.arg, piece, &t->error) < 0 ? 0 : piece.n;
    if (buf_add_str(&t->resp.body, piece))
        return piece.n;
    if (t->resp.status >= 400) /* the beginning of an error text is enough of it */
        return piece.n;
    err_set(&t->error, ERR_TOO_BIG, t->resp.status, "answer is larger than %zu bytes",
            t->resp.body.max);
    return 0;
}

/* --- Setting up --- */

static struct curl_blob blob_of(struct str s)
{
    /* The caller keeps the bytes; libcurl copies what a connection needs. */
    return (struct curl_blob){.data = (void *)s.p, .len = s.n, .flags = CURL_BLOB_NOCOPY};
}

static void set_tls(CURL *easy, const struct http_tls *tls)
{
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    (void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (!tls)
        return;
    if (tls->ca_pem.n > 0 || tls->ca_file) {
        /* Else the system's directory would be trusted as well. */
        (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, tls->ca_pem.n > 0 ? NULL : tls->ca_file);
    }
    if (tls->ca_pem.n > 0) {
        struct curl_blob ca = blob_of(tls->ca_pem);
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &ca);
    }
    if (tls->cert_pem.n > 0) {
        struct curl_blob cert = blob_of(tls->cert_pem);
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT_BLOB, &cert);
    } else if (tls->cert_file) {
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, tls->cert_file);
    }
    if (tls->key_pem.n > 0) {
        struct curl_blob key = blob_of(tls->key_pem);
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY_BLOB, &key);
    } else if (tls->key_file) {
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY, tls->key_file);
    }
}

/* The certificate must carry another name than the address we dial: ask for that name, connect
 * to the address, and name the address in the Host header as before. */
static int set_server_name(struct http_transfer *t, const char *server_name, struct err *e)
{
    CURLU *url = curl_url();
    char *host = NULL, *port = NULL, *changed = NULL;
    int rc = -1;
    if (url && curl_url_set(url, CURLUPART_URL, t->req.url, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
        curl_url_set(url, CURLUPART_HOST, server_name, 0) == CURLUE_OK &&
        curl_url_get(url, CURLUPART_URL, &changed, 0) == CURLUE_OK) {
        auto_free char *route = xasprintf("%s:%s:%s:%s", server_name, port, host, port);
        auto_free char *named = xasprintf("Host: %s:%s", host, port);
        t->connect_to = curl_slist_append(NULL, route);
        t->headers = curl_slist_append(t->headers, named);
        (void)curl_easy_setopt(t->easy, CURLOPT_CONNECT_TO, t->connect_to);
        rc = curl_easy_setopt(t->easy, CURLOPT_URL, changed) == CURLE_OK ? 0 : -1;
    }
    curl_free(host);
    curl_free(port);
    curl_free(changed);
    curl_url_cleanup(url);
    return rc < 0 ? err_set(e, ERR_INVALID, 0, "%s with the server name %s is no address",
                            t->req.url, server_name)
                  : 0;
}

static void set_body(struct http_transfer *t)
{
    if (t->req.body.n > 0) {
        (void)curl_easy_setopt(t->easy, CURLOPT_POST, 1L);
        (void)curl_easy_setopt(t->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->req.body.n);
        (void)curl_easy_setopt(t->easy, CURLOPT_READFUNCTION, on_read);
        (void)curl_easy_setopt(t->easy, CURLOPT_READDATA, t);
        (void)curl_easy_setopt(t->easy, CURLOPT_SEEKFUNCTION, on_seek);
        (void)curl_easy_setopt(t->easy, CURLOPT_SEEKDATA, t);
    } else if (strcmp(t->req.method, "HEAD") == 0) {
        (void)curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
    }
    (void)curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, t->req.method);
}

static int set_headers(struct http_transfer *t, const struct http_request *req, struct err *e)
{
    for (size_t i = 0; i < req->n_headers; i++) {
        const struct http_header *h = &req->headers[i];
        if (strpbrk(h->value, "\r\n"))
            return err_set(e, ERR_INVALID, 0, "header %s has a line break in its value", h->name);
        char *line = xasprintf("%s: %s", h->name, h->value);
        t->headers = curl_slist_append(t->headers, line);
        secret_free(line); /* it may be a token */
    }
    t->headers = curl_slist_append(t->headers, "Expect:");
    t->headers = curl_slist_append(t->headers, "User-Agent: raftsman");
    return 0;
}

/* Every option of every transfer is set here. */
static int set_up(struct http_transfer *t, const struct http_request *req, struct err *e)
{
    CURL *easy = t->easy;
    if (set_headers(t, req, e) < 0)
        return -1;
    if (curl_easy_setopt(easy, CURLOPT_URL, req->url) != CURLE_OK)
        return err_set(e, ERR_INVALID, 0, "%s is no address", req->url);
    if (req->tls && req->tls->server_name && set_server_name(t, req->tls->server_name, e) < 0)
        return -1;
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, t->headers);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    /* Wait to see whether a connection that is being made can be shared: TLS tells. Without TLS
     * it cannot, and libcurl would wait for the end of the first transfer. */
    if (str_starts(str_c(req->url), STR("https:")))
        (void)curl_easy_setopt(easy, CURLOPT_PIPEWAIT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                           (long)(req->connect_ms > 0 ? req->connect_ms : HTTP_CONNECT_MS));
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, 15L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, 5L);
    (void)curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, t->why);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, t);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_write);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
    if (req->proxy)
        (void)curl_easy_setopt(easy, CURLOPT_PROXY, req->proxy);
    set_tls(easy, req->tls);
    set_body(t);
    return 0;
}

static void transfer_free(struct http_transfer *t)
{
    if (t->link) {
        *t->link = t->next;
        if (t->next)
            t->next->link = t->link;
        (void)curl_multi_remove_handle(t->client->multi, t->easy);
    }
    curl_easy_cleanup(t->easy);
    for (struct curl_slist *h = t->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data));
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->connect_to);
    http_response_done(&t->resp);
    free(t->url);
    free(t);
}

int http_start(struct http_client *c, const struct http_request *req, http_done_fn *on_done,
               struct http_transfer **out, struct err *e)
{
    struct http_transfer *t = xcalloc(1, sizeof(*t));
    t->client = c;
    t->req = *req;
    t->url = xstrdup(req->url);
    t->req.url = t->url;
    t->on_done = on_done;
    t->resp.body = BUF_INIT(req->body_max > 0 ? req->body_max : HTTP_BODY_MAX);
    if (req->on_data && t->resp.body.max > HTTP_ERROR_BODY_MAX)
        t->resp.body.max = HTTP_ERROR_BODY_MAX; /* only error texts are collected */
    t->last_byte_ms = clock_boot_ms(c->clock);
    t->easy = curl_easy_init();
    int rc = t->easy ? set_up(t, req, e)
                     : err_set(e, ERR_UNAVAILABLE, 0, "http transfer: out of memory");
    if (rc == 0) {
        const CURLMcode added = curl_multi_add_handle(c->multi, t->easy);
        if (added != CURLM_OK)
            rc = err_set(e, ERR_UNAVAILABLE, (int)added, "http transfer: %s",
                         curl_multi_strerror(added));
    }
    if (rc < 0) {
        transfer_free(t);
        return -1;
    }
    t->next = c->transfers;
    t->link = &c->transfers;
    if (t->next)
        t->next->link = &t->next;
    c->transfers = t;
    c->started = true;
    *out = t;
    return 0;
}

void http_stop(struct http_transfer *t)
{
    if (t)
        transfer_free(t);
}

/* --- Ending --- */

static bool was_sent(struct http_transfer *t)
{
    if (t->req.body.n > 0)
        return t->sent;
    curl_off_t began_us = 0;
    long request_bytes = 0;
    (void)curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &began_us);
    (void)curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &request_bytes);
    return began_us > 0 || request_bytes > 0;
}

static enum err_code code_of_curl(CURLcode code)
{
    switch ((int)code) {
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CRL_BADFILE:
    case CURLE_SSL_INVALIDCERTSTATUS:
        return ERR_DENIED;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return ERR_INVALID;
    default:
        return ERR_UNAVAILABLE;
    }
}

/* Without scheme, path and query: what a person wants to see, and no secret in it. */
static struct str host_of(const char *url)
{
    struct str rest = str_c(url);
    const char *slashes = strstr(url, "://");
    if (slashes)
        rest = str_from(rest, (size_t)(slashes - url) + 3);
    (void)str_cut(rest, '/', &rest, &(struct str){0});
    struct str user, host;
    return str_cut(rest, '@', &user, &host) ? host : rest;
}

static void explain(struct http_transfer *t, CURLcode code, struct err *e)
{
    const struct str host = host_of(t->req.url);
    if (t->error.code != ERR_NONE) {
        *e = t->error; /* a callback of ours ended it */
        return;
    }
    const char *why = t->why[0] != '\0' ? t->why : curl_easy_strerror(code);
    enum err_code as = code_of_curl(code);
    long verdict = 0; /* X509_V_OK; a forged signature is not among the codes above */
    (void)curl_easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &verdict);
    if (verdict != 0)
        as = ERR_DENIED;
    if (as == ERR_UNAVAILABLE && t->req.mutating && was_sent(t))
        as = ERR_OUTCOME_UNKNOWN;
    err_set(e, as, (int)code, "%.*s: %s", STR_ARG(host), why);
}

/* The outside (deadline, cancellation, idle limit) ended the transfer with *e. */
static void explain_outside(struct http_transfer *t, struct err *e)
{
    const struct str host = host_of(t->req.url);
    if (t->req.mutating && was_sent(t)) {
        e->code = ERR_OUTCOME_UNKNOWN;
        err_wrap(e, "%.*s: sent, no answer", STR_ARG(host));
    } else {
        err_wrap(e, "%.*s", STR_ARG(host));
    }
}

static void finish(struct http_transfer *t, CURLcode code)
{
    struct err why = {0};
    t->resp.status = status_of(t);
    if (code != CURLE_OK)
        explain(t, code, &why);
    /* It leaves the list first: the callback may stop others. */
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    t->link = NULL;
    (void)curl_multi_remove_handle(t->client->multi, t->easy);
    t->on_done(t->req.arg, &t->resp, &why);
    transfer_free(t);
}

static bool finish_done(struct http_client *c)
{
    bool any = false;
    int left = 0;
    for (const CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        struct http_transfer *t = NULL;
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        finish(t, m->data.result);
        any = true;
    }
    return any;
}

static int64_t idle_left_ms(const struct http_transfer *t, int64_t now_ms)
{
    return t->req.idle_ms > 0 ? t->last_byte_ms + t->req.idle_ms - now_ms : INT64_MAX;
}

static bool finish_idle(struct http_client *c)
{
    const int64_t now_ms = clock_boot_ms(c->clock);
    for (struct http_transfer *t = c->transfers; t; t = t->next) {
        if (idle_left_ms(t, now_ms) > 0)
            continue;
        err_set(&t->error, ERR_TIMEOUT, 0, "no byte for %lld ms", (long long)t->req.idle_ms);
        finish(t, CURLE_OPERATION_TIMEDOUT);
        return true; /* the list may have changed */
    }
    return false;
}

static int wait_for_more(const struct ctx *ctx, struct http_client *c, int64_t max_wait_ms,
                         struct err *e)
{
    const int64_t now_ms = clock_boot_ms(c->clock);
    int64_t wait_ms = ctx_left_ms(ctx);
    if (max_wait_ms >= 0 && max_wait_ms < wait_ms)
        wait_ms = max_wait_ms;
    for (const struct http_transfer *t = c->transfers; t; t = t->next)
        if (idle_left_ms(t, now_ms) < wait_ms)
            wait_ms = idle_left_ms(t, now_ms);
    const int timeout = wait_ms > INT_MAX ? INT_MAX : wait_ms < 0 ? 0 : (int)wait_ms;

    struct pollfd cancels[CTX_CANCELS_MAX];
    struct curl_waitfd extra[CTX_CANCELS_MAX] = {0};
    const size_t n = ctx_poll_fds(ctx, cancels);
    for (size_t i = 0; i < n; i++) {
        extra[i].fd = cancels[i].fd;
        extra[i].events = CURL_WAIT_POLLIN;
    }
    const CURLMcode rc = curl_multi_poll(c->multi, extra, (unsigned int)n, timeout, NULL);
    if (rc != CURLM_OK)
        return err_set(e, ERR_IO, (int)rc, "http poll: %s", curl_multi_strerror(rc));
    return 0;
}

int http_run(const struct ctx *ctx, struct http_client *c, int64_t max_wait_ms, struct err *e)
{
    int running = 0;
    if (ctx_check(ctx, e) < 0)
        return -1;
    if (c->started) { /* otherwise the last thing we did was to let it work */
        c->started = false;
        (void)curl_multi_perform(c->multi, &running); /* its failures are the transfers' */
        if (finish_done(c))
            return 0;
    }
    if (finish_idle(c))
        return 0;
    if (wait_for_more(ctx, c, max_wait_ms, e) < 0)
        return -1;
    (void)curl_multi_perform(c->multi, &running);
    if (!finish_done(c))
        (void)finish_idle(c);
    return 0;
}

void http_wake(struct http_client *c)
{
    (void)curl_multi_wakeup(c->multi); /* fails only when the pipe is full: it wakes then, too */
}

struct blocking {
    const struct http_request *req;
    struct http_response *out;
    struct err why;
    bool done;
};

static int blocking_may_send(void *arg, struct err *e)
{
    const struct blocking *b = arg;
    return b->req->may_send(b->req->arg, e);
}

static int blocking_data(void *arg, struct str piece, struct err *e)
{
    const struct blocking *b = arg;
    return b->req->on_data(b->req->arg, piece, e);
}

static void blocking_open(void *arg)
{
    const struct blocking *b = arg;
    b->req->on_open(b->req->arg);
}

static void blocking_done(void *arg, struct http_response *resp, const struct err *why)
{
    struct blocking *b = arg;
    *b->out = *resp;
    *resp = (struct http_response){0};
    b->why = *why;
    b->done = true;
}

int http_do(const struct ctx *ctx, struct http_client *c, const struct http_request *req,
            struct http_response *out, struct err *e)
{
    *out = (struct http_response){0};
    struct blocking b = {.req = req, .out = out};
    struct http_request mine = *req;
    mine.arg = &b;
    mine.may_send = req->may_send ? blocking_may_send : NULL;
    mine.on_data = req->on_data ? blocking_data : NULL;
    mine.on_open = req->on_open ? blocking_open : NULL;

    struct http_transfer *t = NULL;
    if (http_start(c, &mine, blocking_done, &t, e) < 0)
        return -1;
    while (!b.done) {
        if (http_run(ctx, c, -1, e) < 0 && !b.done) {
            /* It has not ended, so it is there: NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
            explain_outside(t, e);
            http_stop(t);
            return -1;
        }
    }
    if (b.why.code != ERR_NONE) {
        *e = b.why;
        return -1;
    }
    return 0;
}

void http_escape(struct buf *out, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.p[i];
        if (ascii_is_digit(c) || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') || c == '-' ||
            c == '.' || c == '_' || c == '~')
            buf_add_char(out, c);
        else
            buf_addf(out, "%%%02X", (unsigned int)(unsigned char)c);
    }
}
