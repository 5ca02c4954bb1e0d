/* SPDX-License-Identifier: Apache-2.0
 * What a Kubernetes API server means by an answer that is no success: mapped to our codes here
 * and nowhere else. Pure. */
#pragma once
#include <stdbool.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

struct http_response;

/* Fills *e from an answer with a status of 300 and above and returns -1. The reason of the Status
 * object is kept; details.retryAfterSeconds and Retry-After are honoured, the longer one. A
 * mutating call that the server may have carried out in spite of its answer is ERR_OUTCOME_UNKNOWN.
 *
 * ERR_NOT_FOUND · ERR_EXISTS · ERR_CONFLICT · ERR_EXPIRED · ERR_INVALID · ERR_DENIED ·
 * ERR_THROTTLED · ERR_NOT_READY (an eviction that a disruption budget forbids) · ERR_TOO_BIG ·
 * ERR_UNAVAILABLE · ERR_TIMEOUT. */
int kube_status_error(const struct http_response *resp, bool mutating, struct err *e);

/* The same for the Status object inside an ERROR event of a watch. */
int kube_status_event(const json_t *status, struct err *e);
