/* SPDX-License-Identifier: Apache-2.0
 * The rules between fields that the CRDs state in CEL, as C functions. The API server of
 * Kubernetes evaluates the CRD's; our own evaluates these. test/api/validation.json is fed to
 * both, and the messages must be the same. */
#pragma once
#include "api/kinds.h"
#include "base/json.h"

/* Called for each rule the object breaks. The message is the CRD's; static storage. */
typedef void (*api_problem_fn)(void *arg, const char *path, const char *message);

/* Checks obj, with defaults applied; `old` is the stored object on an update, NULL on a create.
 * Types are the schema's business: a field of another type counts as absent. Pure. Returns how
 * many rules are broken. */
size_t api_validate(enum api_kind kind, const json_t *old, const json_t *obj, api_problem_fn report,
                    void *arg);

/* What an object uses that this release does not do ("spec.tls"), or NULL. Such an object is
 * refused on create; one that exists already is left alone. Static storage. */
const char *api_unsupported(enum api_kind kind, const json_t *obj);
