/* SPDX-License-Identifier: Apache-2.0
 * The error value. A fallible function returns 0 or -1 and takes a never-NULL struct err last.
 * The storage is the caller's stack: nothing to free, nothing to leak, nothing allocated while
 * failing. docs/internals/errors.md says how to write and read the texts. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"

/* What a caller may branch on. Foreign statuses are mapped at the edge, once per layer. */
#define ERR_CODES(X)                                                                               \
    X(NONE)                                                                                        \
    X(INVALID) /* the input is wrong; the same input will stay wrong */                            \
    X(NOT_FOUND)                                                                                   \
    X(EXISTS)                                                                                      \
    X(CONFLICT) /* a precondition did not hold: look again */                                      \
    X(EXPIRED)  /* what was asked about is no longer kept (410, compacted) */                      \
    X(DENIED)                                                                                      \
    X(UNAVAILABLE) /* certainly not done */                                                        \
    X(NOT_READY)   /* the other side says: not now (learner lags, cluster unhealthy) */            \
    X(THROTTLED)   /* see retry_after_ms */                                                        \
    X(TIMEOUT)                                                                                     \
    X(OUTCOME_UNKNOWN) /* sent, no answer: read the world before deciding again */                 \
    X(CANCELED)                                                                                    \
    X(TOO_BIG) /* a ceiling was reached */                                                         \
    X(CORRUPT) /* bytes that cannot be what they claim to be */                                    \
    X(IO)                                                                                          \
    X(BUG)

enum err_code {
#define X(name) ERR_##name,
    ERR_CODES(X)
#undef X
};

struct err {
    enum err_code code;
    int origin;              /* errno, HTTP or gRPC status as received, for the log */
    uint32_t retry_after_ms; /* 0 = the other side did not say */
    char reason[48];         /* the other side's own word: Kubernetes Status reason, S3 code */
    char text[500];          /* always valid UTF-8 if the inputs were; never empty after err_set */
};

/* Fills *e and returns -1, so that one line fills and leaves. The text is in lower case, without
 * "failed to" and without a trailing stop. */
int err_set(struct err *e, enum err_code code, int origin, const char *fmt, ...) FORMAT(4, 5);

/* err_set() for a failed system call: maps errno_value to a code and appends its description. */
int err_set_errno(struct err *e, int errno_value, const char *fmt, ...) FORMAT(3, 4);

/* Puts what the caller was doing in front: "list members of prod: 10.0.0.4:2379: refused".
 * A text that grows too long is shortened in the middle: the root cause at the end survives.
 * Returns -1. */
int err_wrap(struct err *e, const char *fmt, ...) FORMAT(2, 3);

/* Whether a later attempt *that starts by reading the world again* may succeed by itself. It is
 * no permission to send a mutating call a second time. */
bool err_transient(const struct err *e);

const char *err_code_name(enum err_code code); /* "NOT_FOUND": as in the source, to search for */
