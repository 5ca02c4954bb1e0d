/* SPDX-License-Identifier: Apache-2.0
 * The target: the part of a cluster's spec that is copied into status.observed and worked on until
 * it is reached. Pure. */
#pragma once
#include <stdbool.h>

#include "base/json.h"

/* What status.observed should be for the spec as it is now. Owned. */
json_t *target_of(const json_t *cluster);

/* Whether spec asks for something else than status.observed. Quantities compare by value, an empty
 * list or map is an absent one; the storage class is immutable and not compared. */
bool target_differs(const json_t *cluster);
