/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "base/attr.h"
#include "base/err.h"

/* Before the first call of libcurl; see net/library.h. ERR_UNAVAILABLE. */
NODISCARD int libcurl_load(struct err *e);
