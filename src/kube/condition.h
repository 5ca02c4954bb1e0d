/* SPDX-License-Identifier: Apache-2.0
 * Conditions of a status, as metav1.Condition has them. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/json.h"

enum { CONDITION_MESSAGE_MAX = 32768, CONDITION_REASON_MAX = 1024 };

struct condition {
    const char *type;
    const char *status; /* "True", "False", "Unknown" */
    const char *reason; /* CamelCase; never empty */
    const char *message;
    int64_t generation; /* observedGeneration; 0: left out */
};

/* Sets one condition in the list, in its place or at the end; the others stay as they are,
 * including fields we do not know. lastTransitionTime moves only when the status does. Returns
 * whether anything changed, so that nothing is written when nothing did. */
bool condition_set(json_t *conditions, const struct condition *c, int64_t now_us);

/* The condition of that type, borrowed; NULL if there is none. */
const json_t *condition_get(const json_t *conditions, const char *type);
/* Whether both lists say the same of the same types, whatever the words and times. */
bool conditions_alike(const json_t *a, const json_t *b);
bool condition_is_true(const json_t *conditions, const char *type);
