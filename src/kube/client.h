/* SPDX-License-Identifier: Apache-2.0
 * The Kubernetes API, generically: a kind, a name, JSON. Blocks under ctx; every call has a
 * deadline of its own as well. Not thread-safe: one client per thread, over one kube_config.
 *
 * Errors of every call: those of kube_status_error() and http_do(). A missing right is ERR_DENIED
 * with a text that names verb and resource. Reads are repeated once when a kept connection broke;
 * mutating calls are never repeated: see ERR_OUTCOME_UNKNOWN in base/err.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"
#include "kube/kind.h"

struct buf;
struct ctx;
struct kube_client;
struct kube_config;

enum {
    KUBE_CALL_MS = 15000,              /* one call, at most */
    KUBE_OBJECT_MAX = 4 * 1024 * 1024, /* one object in an answer */
    KUBE_PAGE = 100,                   /* objects per page of a list */
    KUBE_LOG_MAX = 1024 * 1024,        /* of a Pod's log */
};

/* Asked before each mutating call with the call's time limit, and once more at the moment its
 * first byte leaves: may we still write? -1 stops the call, certainly not sent. */
struct kube_guard {
    int (*may_write)(void *arg, int64_t within_ms, struct err *e);
    void *arg;
};

NODISCARD int kube_client_new(const struct ctx *ctx, struct kube_config *config,
                              struct kube_client **out, struct err *e);
void kube_client_free(struct kube_client *k); /* NULL-safe */
AUTO_DEFINE(struct kube_client, kube_client_free)

void kube_client_guard(struct kube_client *k, struct kube_guard guard);
/* The limit of one call; KUBE_CALL_MS unless told. */
void kube_client_limit(struct kube_client *k, int64_t call_ms);

/* *out is the caller's; out may be NULL where the answer does not matter. */
NODISCARD int kube_get(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                       const char *ns, const char *name, json_t **out, struct err *e);
NODISCARD int kube_get_sub(const struct ctx *ctx, struct kube_client *k,
                           const struct kube_kind *kind, const char *ns, const char *name,
                           const char *sub, json_t **out, struct err *e);

struct kube_list {
    const char *ns;     /* NULL: all namespaces */
    const char *labels; /* selectors; NULL: everything */
    const char *fields;
    int page; /* 0: KUBE_PAGE */
};

/* Page by page, each object handed to `each` (borrowed; -1 ends the list with *e) and freed. An
 * object that cannot be read is ERR_CORRUPT, naming it. ERR_EXPIRED: the list took too long, begin
 * again. out_version, the list's resourceVersion, is owned by the caller and may be NULL. */
NODISCARD int kube_list(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                        const struct kube_list *what,
                        int (*each)(void *arg, json_t *object, struct err *e), void *arg,
                        char **out_version, struct err *e);

NODISCARD int kube_create(const struct ctx *ctx, struct kube_client *k,
                          const struct kube_kind *kind, const char *ns, const json_t *object,
                          json_t **out, struct err *e);

enum kube_patch_type { KUBE_PATCH_MERGE, KUBE_PATCH_JSON };

struct kube_patch {
    enum kube_patch_type type;
    const char *sub;              /* "status", "scale"; NULL: the object */
    const char *resource_version; /* ERR_CONFLICT if it is another by now; NULL: any */
};

/* The resourceVersion is put into the patch here: see docs/internals/runtime.md. */
NODISCARD int kube_patch(const struct ctx *ctx, struct kube_client *k, const struct kube_kind *kind,
                         const char *ns, const char *name, const struct kube_patch *how,
                         const json_t *patch, json_t **out, struct err *e);

enum kube_propagation { KUBE_BACKGROUND, KUBE_FOREGROUND, KUBE_ORPHAN };

struct kube_delete {
    const char *uid;              /* ERR_CONFLICT if the object is another; NULL: any */
    const char *resource_version; /* likewise */
    enum kube_propagation propagation;
    int64_t grace_s; /* 0: the object's own. Objects are never force-deleted. */
};

NODISCARD int kube_delete(const struct ctx *ctx, struct kube_client *k,
                          const struct kube_kind *kind, const char *ns, const char *name,
                          const struct kube_delete *how, struct err *e);

/* ERR_NOT_READY with reason DisruptionBudget: a budget forbids it now. */
NODISCARD int kube_evict(const struct ctx *ctx, struct kube_client *k, const char *ns,
                         const char *pod, const char *uid, struct err *e);

NODISCARD int kube_get_scale(const struct ctx *ctx, struct kube_client *k,
                             const struct kube_kind *kind, const char *ns, const char *name,
                             int64_t *out_replicas, struct err *e);
NODISCARD int kube_set_scale(const struct ctx *ctx, struct kube_client *k,
                             const struct kube_kind *kind, const char *ns, const char *name,
                             int64_t replicas, struct err *e);

struct kube_logs {
    const char *container; /* NULL: the only one */
    bool previous;
    int64_t tail_lines;  /* 0: all */
    int64_t limit_bytes; /* 0: KUBE_LOG_MAX */
};

/* Appends to out, whose ceiling is the caller's. */
NODISCARD int kube_pod_logs(const struct ctx *ctx, struct kube_client *k, const char *ns,
                            const char *pod, const struct kube_logs *how, struct buf *out,
                            struct err *e);

/* Whether the server knows the kind, by discovery. A server without the group does not. */
NODISCARD int kube_has_kind(const struct ctx *ctx, struct kube_client *k,
                            const struct kube_kind *kind, bool *out, struct err *e);

/* Whether the kind's CRD describes a field: "spec.storage.size"; list elements by "[]":
 * "status.members.[].id". ERR_NOT_FOUND: no such CRD or version. */
NODISCARD int kube_crd_has_field(const struct ctx *ctx, struct kube_client *k,
                                 const struct kube_kind *kind, const char *field, bool *out,
                                 struct err *e);

/* Whether we hold a right (SelfSubjectAccessReview). ns NULL: in all namespaces. */
struct kube_right {
    const char *verb;
    const struct kube_kind *kind;
    const char *sub; /* may be NULL */
    const char *ns, *name;
};
NODISCARD int kube_may(const struct ctx *ctx, struct kube_client *k, const struct kube_right *right,
                       bool *out, struct err *e);

/* --- Streams: several watches and list pages side by side on one connection --- */

struct kube_stream;

struct kube_stream_request {
    const struct kube_kind *kind;
    const char *ns;    /* NULL: all */
    const char *query; /* escaped: built with kube_query_add(); may be NULL */
    bool watch;        /* for messages: "watch pods" or "list pods" */
    int64_t idle_ms;   /* the stream ends when no byte came for so long; 0: no limit */

    /* The server accepted and will speak when it has something to say. May be NULL. */
    void (*on_open)(void *arg);
    /* Called from kube_run(). Bytes of a successful answer; -1 ends the stream with *e. */
    int (*on_data)(void *arg, struct str piece, struct err *e);
    /* Once, unless kube_stream_close() came first; the stream is gone when it returns.
     * why->code is ERR_NONE when the server ended it properly. */
    void (*on_end)(void *arg, const struct err *why);
    void *arg;
};

NODISCARD int kube_stream_open(const struct ctx *ctx, struct kube_client *k,
                               const struct kube_stream_request *req, struct kube_stream **out,
                               struct err *e);
void kube_stream_close(struct kube_stream *s); /* NULL-safe */

/* Drives all streams until something happened or max_wait_ms passed: see http_run(). */
NODISCARD int kube_run(const struct ctx *ctx, struct kube_client *k, int64_t max_wait_ms,
                       struct err *e);
void kube_wake(struct kube_client *k); /* thread-safe: ends a waiting kube_run() */

/* Appends "name=value" with the separator it needs; value NULL: nothing. */
void kube_query_add(struct buf *query, const char *name, const char *value);
