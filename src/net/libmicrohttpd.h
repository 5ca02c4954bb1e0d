/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/attr.h"
#include "base/err.h"

/* Before the first call of libmicrohttpd; see net/library.h. ERR_UNAVAILABLE. */
NODISCARD int libmicrohttpd_load(struct err *e);
