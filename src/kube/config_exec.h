/* SPDX-License-Identifier: Apache-2.0
 * Credential plugins of a kubeconfig (client.authentication.k8s.io/v1 and v1beta1): a program
 * that prints a credential. Run without a shell, without a terminal, under a deadline. */
#pragma once
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"

struct ctx;

enum {
    EXEC_TIMEOUT_MS = 60000,
    EXEC_OUTPUT_MAX = 1024 * 1024,
    EXEC_ERROR_MAX = 2048, /* of its standard error, for the message */
};

struct exec_credential {
    char *token, *cert_pem, *key_pem; /* owned; any may be NULL */
    int64_t expires_us;               /* wall time; 0: not said */
};

void exec_credential_done(struct exec_credential *c); /* wipes; idempotent */

/* Whether the `exec` block of a user can be used. ERR_INVALID names the field. */
NODISCARD int exec_check(const json_t *spec, struct err *e);

/* `cluster` is given to the plugin when it asks for it; may be NULL. ERR_TIMEOUT · ERR_CANCELED ·
 * ERR_NOT_FOUND the program (with its install hint) · ERR_TOO_BIG · ERR_INVALID what it printed ·
 * ERR_DENIED it ended with a failure. */
NODISCARD int exec_run(const struct ctx *ctx, const json_t *spec, const json_t *cluster,
                       struct exec_credential *out, struct err *e);
