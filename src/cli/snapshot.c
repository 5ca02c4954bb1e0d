/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/snapshot.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int need_args(size_t n_args, size_t n, const char *what, struct err *e)
{
    return n_args == n ? 0
                       : err_set(e, ERR_INVALID, 0, "needs %s, got %zu arguments", what, n_args);
}

int print_result(json_t *take_value, json_t *take_row, const struct output_column *columns,
                 int output, struct err *e)
{
    json_auto_t *value = take_value, *rows = JARR(take_row);
    return output_print(output == OUTPUT_TABLE ? rows : value, "", columns,
                        (enum output_format)output, e);
}

const char *human_bytes(uint64_t n, char out[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)n;
    size_t unit = 0;
    for (; value >= 1000 && unit + 1 < COUNT_OF(units); unit++)
        value /= 1000;
    (void)snprintf(out, 32, value < 10 && unit > 0 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return out;
}

static const struct command *const below[] = {
    &command_snapshot_status,  &command_snapshot_verify,
    &command_snapshot_hashkv,  &command_snapshot_save,
    &command_snapshot_restore, &command_snapshot_defrag,
    &command_snapshot_diff,    &command_snapshot_get,
    &command_snapshot_list,    NULL,
};

const struct command command_snapshot = {
    .name = "snapshot",
    .summary = "check, restore and read etcd snapshots and data directories",
    .about = "Works on etcd's files directly: no etcd and none of its tools are needed.",
    .below = below,
};
