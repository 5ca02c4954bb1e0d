/* SPDX-License-Identifier: Apache-2.0
 * Results as people and programs want them: one JSON value, printed as a table, JSON or YAML. */
#pragma once
#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"

enum output_format { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_YAML };
extern const char *const output_formats[]; /* for an option table */

struct output_column {
    const char *title;
    const char *path; /* in each row, as jget() takes it */
};

/* The table shows the list at rows_path of value ("": value itself), one line each; the other
 * formats show all of value. columns end in a NULL title. */
NODISCARD int output_print(const json_t *value, const char *rows_path,
                           const struct output_column *columns, enum output_format format,
                           struct err *e);
