/* SPDX-License-Identifier: Apache-2.0
 * Where the API server is and how to be let in: a kubeconfig, or the account of our own Pod.
 *
 * Files that rotate (tokens, certificates, authorities) are looked at before every use and read
 * again when they changed. Thread-safe: one struct kube_config serves every client. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"
#include "net/http.h"

struct ctx;
struct kube_config;

enum {
    KUBE_CONFIG_MAX = 4 * 1024 * 1024, /* one file */
    KUBE_CONFIG_FILES_MAX = 32,
    KUBE_SECRET_FILE_MAX = 1024 * 1024, /* one token, certificate or key */
};

struct kube_config_source {
    const char *kubeconfig;         /* --kubeconfig; this file and no other */
    const char *context;            /* NULL: current-context */
    char *(*env)(const char *name); /* getenv() in the program, a table in tests */
    const char *account_dir;        /* NULL: where Kubernetes mounts it */
};

/* In this order: source->kubeconfig; $KUBECONFIG, several files merged as kubectl does; the Pod's
 * account when $KUBERNETES_SERVICE_HOST is set; ~/.kube/config. Nothing is sent.
 * ERR_NOT_FOUND no configuration · ERR_INVALID names file and field. */
NODISCARD int kube_config_load(const struct ctx *ctx, const struct kube_config_source *source,
                               struct kube_config **out, struct err *e);
void kube_config_free(struct kube_config *c); /* NULL-safe; after every client of it */
AUTO_DEFINE(struct kube_config, kube_config_free)

const char *kube_config_server(const struct kube_config *c);    /* no trailing slash */
const char *kube_config_namespace(const struct kube_config *c); /* never NULL */

/* Who to be at this moment; shared, immutable, wiped when the last reference goes. */
struct kube_identity {
    struct http_tls tls;
    const char *proxy; /* NULL: by environment */
    const struct http_header *headers;
    size_t n_headers;
};

/* May read files and run a credential plugin, under ctx. `refused` is the identity the server has
 * just answered 401 to, so that a cached credential is not used again; else NULL. */
NODISCARD int kube_config_identity(const struct ctx *ctx, struct kube_config *c,
                                   const struct kube_identity *refused,
                                   const struct kube_identity **out, struct err *e);
void kube_identity_unref(const struct kube_identity *id); /* NULL-safe */
