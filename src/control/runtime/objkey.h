/* SPDX-License-Identifier: Apache-2.0
 * Namespace and name of an object, by value: what the queue hands to a worker. */
#pragma once
#include <stdbool.h>
#include <string.h>

#include "base/str.h"
#include "kube/kind.h"

enum { OBJKEY_TEXT_MAX = KUBE_NAMESPACE_MAX + KUBE_NAME_MAX + 2 };

struct objkey {
    char ns[KUBE_NAMESPACE_MAX + 1]; /* "" for kinds without namespaces */
    char name[KUBE_NAME_MAX + 1];
};

/* False: one of them is longer than Kubernetes allows, or there is no name. */
static inline bool objkey_set(struct objkey *out, const char *ns, const char *name)
{
    const size_t ns_n = ns ? strlen(ns) : 0, name_n = strlen(name);
    if (ns_n > KUBE_NAMESPACE_MAX || name_n > KUBE_NAME_MAX || name_n == 0)
        return false;
    memset(out, 0, sizeof(*out));
    if (ns_n > 0)
        memcpy(out->ns, ns, ns_n);
    memcpy(out->name, name, name_n);
    return true;
}

/* "ns/name", in out; the separator is in no name. */
static inline struct str objkey_text(const struct objkey *k, char out[OBJKEY_TEXT_MAX])
{
    const size_t ns_n = strlen(k->ns), name_n = strlen(k->name);
    memcpy(out, k->ns, ns_n);
    out[ns_n] = '/';
    memcpy(out + ns_n + 1, k->name, name_n + 1);
    return (struct str){out, ns_n + 1 + name_n};
}
