/* SPDX-License-Identifier: Apache-2.0
 * Long answers of several requests at once, driven by kube_run(). */
#include <string.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/mem.h"
#include "kube/client_internal.h"
#include "kube/config.h"
#include "kube/status.h"

enum { URL_MAX = 64 * 1024 };

struct kube_stream {
    struct kube_client *k;
    struct kube_stream *next, **link;
    struct kube_stream_request req; /* of its strings only ns is kept, as a copy */
    char *ns;
    const struct kube_identity *id; /* its key material is used until the transfer ends */
    struct http_transfer *transfer;
};

static void stream_free(struct kube_stream *s)
{
    if (s->link) {
        *s->link = s->next;
        if (s->next)
            s->next->link = s->link;
    }
    http_stop(s->transfer);
    kube_identity_unref(s->id);
    free(s->ns);
    free(s);
}

void kube_stream_close(struct kube_stream *s)
{
    if (s)
        stream_free(s);
}

static struct kube_ref ref_of(const struct kube_stream *s)
{
    return (struct kube_ref){.kind = s->req.kind, .ns = s->ns};
}

static void wrap(const struct kube_stream *s, struct err *e)
{
    const struct kube_ref at = ref_of(s);
    kube_err_wrap(s->req.watch ? "watch" : "list", &at, e);
}

static int on_data(void *arg, struct str piece, struct err *e)
{
    const struct kube_stream *s = arg;
    return s->req.on_data(s->req.arg, piece, e);
}

static void on_open(void *arg)
{
    const struct kube_stream *s = arg;
    s->req.on_open(s->req.arg);
}

static void on_done(void *arg, struct http_response *resp, const struct err *why)
{
    struct kube_stream *s = arg;
    struct err e = *why;
    s->transfer = NULL; /* freed by whoever called us */
    if (e.code == ERR_NONE && resp->status >= 300)
        kube_status_error(resp, false, &e);
    if (e.code == ERR_DENIED && e.origin == 401) { /* the next one is opened with a fresh one */
        kube_identity_unref(s->k->refused);
        s->k->refused = TAKE(s->id);
    }
    if (e.code != ERR_NONE)
        wrap(s, &e);
    const struct kube_stream_request req = s->req;
    stream_free(s);
    req.on_end(req.arg, &e);
}

static int start(const struct ctx *ctx, struct kube_stream *s, struct err *e)
{
    struct kube_client *k = s->k;
    auto_buf struct buf url = BUF_INIT(URL_MAX);
    const struct kube_ref at = ref_of(s);
    if (kube_url(k, &at, s->req.query, &url, e) < 0)
        return -1;
    const int rc = kube_config_identity(ctx, k->config, k->refused, &s->id, e);
    kube_identity_unref(TAKE(k->refused));
    if (rc < 0)
        return -1;
    struct kube_headers headers;
    kube_headers(s->id, "application/json", NULL, &headers);
    const struct http_request req = {
        .method = "GET",
        .url = buf_cstr(&url),
        .headers = headers.v,
        .n_headers = headers.n,
        .tls = &s->id->tls,
        .proxy = s->id->proxy,
        .idle_ms = s->req.idle_ms,
        .on_open = s->req.on_open ? on_open : NULL,
        .on_data = on_data,
        .arg = s,
    };
    return http_start(k->http, &req, on_done, &s->transfer, e);
}

int kube_stream_open(const struct ctx *ctx, struct kube_client *k,
                     const struct kube_stream_request *req, struct kube_stream **out, struct err *e)
{
    struct kube_stream *s = xcalloc(1, sizeof(*s));
    s->k = k;
    s->req = *req;
    s->ns = req->ns ? xstrdup(req->ns) : NULL;
    if (start(ctx, s, e) < 0) {
        wrap(s, e);
        stream_free(s);
        return -1;
    }
    s->next = k->streams;
    s->link = &k->streams;
    if (s->next)
        s->next->link = &s->next;
    k->streams = s;
    *out = s;
    return 0;
}

int kube_run(const struct ctx *ctx, struct kube_client *k, int64_t max_wait_ms, struct err *e)
{
    return http_run(ctx, k->http, max_wait_ms, e);
}

void kube_wake(struct kube_client *k)
{
    http_wake(k->http);
}
