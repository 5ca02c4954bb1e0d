/* SPDX-License-Identifier: Apache-2.0
 * What the conditions of a cluster say, by what was observed and planned. Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct pass;
struct plan;

struct sums {
    size_t running, ready, voters, healthy_voters, sick_voters;
};

struct sums sum_up(const struct pass *p);

/* Sets the conditions in the list; one that nothing can be said about stays as it is. `failed` is
 * what the pass failed with, or NULL. */
void judge_cluster(const struct pass *p, const struct plan *plan, const struct err *failed,
                   const struct sums *n, json_t *conditions, int64_t now_us);

/* It was paused, and whoever slept has not answered since: no loss, and no news. */
bool pass_resumes(const struct pass *p);

bool plan_because(const struct plan *plan, const char *reason);
/* Given up, for its deadline has passed. */
bool plan_parked(const struct plan *plan);
