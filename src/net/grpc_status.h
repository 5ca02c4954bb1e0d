/* SPDX-License-Identifier: Apache-2.0
 * What a server's header blocks say about a call: HTTP status, content type, gRPC status and
 * message. Pure. The status is in the trailers or, in a trailers-only reply, in the headers. */
#pragma once
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

enum grpc_code {
    GRPC_OK,
    GRPC_CANCELLED,
    GRPC_UNKNOWN,
    GRPC_INVALID_ARGUMENT,
    GRPC_DEADLINE_EXCEEDED,
    GRPC_NOT_FOUND,
    GRPC_ALREADY_EXISTS,
    GRPC_PERMISSION_DENIED,
    GRPC_RESOURCE_EXHAUSTED,
    GRPC_FAILED_PRECONDITION,
    GRPC_ABORTED,
    GRPC_OUT_OF_RANGE,
    GRPC_UNIMPLEMENTED,
    GRPC_INTERNAL,
    GRPC_UNAVAILABLE,
    GRPC_DATA_LOSS,
    GRPC_UNAUTHENTICATED,
};

struct grpc_status {
    int http;          /* 0: no :status seen */
    bool grpc_type;    /* content-type says gRPC */
    bool has_code;     /* grpc-status was there and a number */
    int code;          /* enum grpc_code, or a number from the future */
    char message[256]; /* grpc-message, decoded; cut, and without control characters */
};

void grpc_status_header(struct grpc_status *s, struct str name, struct str value);

/* At the end of a stream: 0 only for HTTP 200, gRPC content and status 0. Otherwise *e as the
 * codes alone tell it; etcd's texts say more (etcd/errors.h). mutating: whether "perhaps done"
 * must be told apart. ERR_UNAVAILABLE only where the server certainly did nothing. */
NODISCARD int grpc_status_result(const struct grpc_status *s, bool mutating, struct err *e);

const char *grpc_code_name(int code); /* "UNAVAILABLE"; "code 42" is "?" */
