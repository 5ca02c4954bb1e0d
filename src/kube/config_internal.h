/* SPDX-License-Identifier: Apache-2.0
 * What a configuration says, before anything of it is used: config_file.c reads it from
 * kubeconfigs, config.c makes identities of it. */
#pragma once
#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"

struct ctx;
struct kube_config_source;

/* Bytes given in place or by the name of a file. */
struct kube_material {
    char *data; /* NULL: not in place */
    char *file; /* NULL: not by file; absolute */
};

struct kube_settings {
    char *server, *namespace, *proxy, *server_name;
    struct kube_material ca, cert, key, token;
    char *username, *password;
    json_t *exec;         /* the user's exec block; NULL: none */
    json_t *exec_cluster; /* what its provideClusterInfo tells */
    char *as_user, *as_uid;
    json_t *as_groups; /* list of strings; may be NULL */
    json_t *as_extra;  /* name → list of strings; may be NULL */
};

void kube_settings_done(struct kube_settings *s); /* wipes; idempotent */

/* Reads and merges these files, in order of precedence. A file that is missing counts as empty
 * unless it is the only one. */
NODISCARD int kube_settings_from_files(const struct ctx *ctx, const char *const *paths, size_t n,
                                       const char *context, struct kube_settings *out,
                                       struct err *e);
