/* SPDX-License-Identifier: Apache-2.0
 * How many clusters may be disturbed at once, by all workers together: whatever makes one removal
 * go wrong should not meet the whole fleet. Thread-safe. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "control/runtime/objkey.h"

struct budget;
struct clock;

/* A slot counts until the cluster is whole again, but no longer than this: one that never gets
 * well does not hold up the others for ever. */
enum { BUDGET_HOLD_MS = 10 * 60 * 1000 };

struct budget *budget_new(const struct clock *clock, size_t max) NONNULL;
void budget_free(struct budget *b); /* NULL-safe */

/* True if the cluster holds a slot now. */
NODISCARD bool budget_take(struct budget *b, const struct objkey *key);
void budget_release(struct budget *b, const struct objkey *key); /* nothing if it holds none */
