/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

static const char *const log_levels[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_formats[] = {"auto", "json", "text", NULL};

const struct cfg_option common_option_table[] = {
    {
        .name = "log-level",
        .type = CFG_CHOICE,
        .offset = offsetof(struct common_options, log_level),
        .dflt = "info",
        .choices = log_levels,
        .help = "log lines of this level and above",
    },
    {
        .name = "log-format",
        .type = CFG_CHOICE,
        .offset = offsetof(struct common_options, log_format),
        .dflt = "auto",
        .choices = log_formats,
        .help = "form of log lines on standard error; auto is text on a terminal, else json",
    },
};
const size_t common_option_count = COUNT_OF(common_option_table);
