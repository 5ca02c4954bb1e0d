/* SPDX-License-Identifier: Apache-2.0
 * YAML to JSON, once, at the edge. One document; plain scalars are typed as kubectl does (null,
 * booleans, numbers, else strings). Aliases are refused: nothing we read needs them, and they
 * are how a small file becomes a huge value. JSON is YAML: both are read by this. */
#pragma once
#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "base/str.h"

enum { YAML_DEPTH_MAX = 64, YAML_NODES_MAX = 100000 };

/* An empty document is null. ERR_INVALID names line and column. */
NODISCARD int yaml_parse(struct str text, json_t **out, struct err *e);
