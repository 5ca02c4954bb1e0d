/* SPDX-License-Identifier: Apache-2.0
 * What the subcommands of `raftsman snapshot` share. */
#pragma once
#include "base/buf.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"

enum { PRINT_MAX_BYTES = 64 * 1024 * 1024 };

/* Options of most subcommands; first in their option structs, so that the offset fits. */
struct output_options {
    int output; /* enum output_format */
};
#define OUTPUT_OPTION(formats)                                                                     \
    {                                                                                              \
        .name = "output", .letter = 'o', .type = CFG_CHOICE,                                       \
        .offset = offsetof(struct output_options, output), .dflt = "table", .choices = (formats),  \
        .help = "how to print the result"                                                          \
    }

/* ERR_INVALID unless there are exactly n; `what` names them in the message. */
NODISCARD int need_args(size_t n_args, size_t n, const char *what, struct err *e);

/* Prints `take_row` as a table of one line, or `take_value` in the other formats; releases both. */
NODISCARD int print_result(json_t *take_value, json_t *take_row,
                           const struct output_column *columns, int output, struct err *e);

const char *human_bytes(uint64_t n, char out[32]); /* "413 MB" */

extern const struct command command_snapshot_status, command_snapshot_verify,
    command_snapshot_hashkv, command_snapshot_save, command_snapshot_restore,
    command_snapshot_defrag, command_snapshot_diff, command_snapshot_get, command_snapshot_list;
