/* SPDX-License-Identifier: Apache-2.0
 * The one list of what must never be shown. The log applies it to every line; whoever puts
 * foreign text into an event or a status applies it there. It is the last line of defence: code
 * that holds a secret does not pass it to a message in the first place. */
#pragma once
#include <stdbool.h>

#include "base/buf.h"
#include "base/str.h"

#define REDACTED "[redacted]"

/* Whether a field of this name holds a secret: "password", "bearerToken", "secret-access-key".
 * Names of Secret objects ("secret", "secretName") are not secrets. */
bool redact_key(struct str key);

/* Appends text with secrets inside it replaced: bearer and basic credentials, passwords in URLs,
 * signatures of presigned URLs, PEM private keys, "password=…" pairs. */
bool redact_text(struct buf *out, struct str text);
