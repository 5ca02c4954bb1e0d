/* SPDX-License-Identifier: Apache-2.0
 * Shared by the calls (client.c) and the streams (stream.c) of one client. */
#pragma once
#include "kube/client.h"
#include "net/http.h"

struct kube_identity;

struct kube_client {
    struct kube_config *config;
    struct http_client *http;
    struct kube_guard guard;
    int64_t call_ms;
    struct kube_stream *streams;
    const struct kube_identity *refused; /* the last stream was answered 401 with it; owned */
};

struct kube_headers {
    struct http_header v[32];
    size_t n;
};

void kube_headers(const struct kube_identity *id, const char *accept, const char *content_type,
                  struct kube_headers *out);
NODISCARD int kube_url(const struct kube_client *k, const struct kube_ref *at, const char *query,
                       struct buf *out, struct err *e);
int kube_err_wrap(const char *verb, const struct kube_ref *at, struct err *e);
