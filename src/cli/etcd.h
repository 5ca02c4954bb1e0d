/* SPDX-License-Identifier: Apache-2.0
 * Shared by the files of `raftsman etcd` and by what else dials a cluster: what the options say,
 * and one function per verb. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/cfg.h"
#include "base/ctx.h"
#include "base/err.h"

struct etcd_client;
struct tls_client;

struct etcd_cli_options {
    const char *endpoints;
    const char *server_name;
    const char *cacert, *cert, *key;
    const char *user, *password_file;
    const char *cluster_id;
    int64_t timeout_ns;
    int output; /* enum output_format */
    bool prefix;
    int64_t revision, limit;
    int64_t events;
    bool serializable;
};

/* What a verb works with; the client has not dialed yet. */
struct etcd_cli {
    const struct etcd_cli_options *o;
    const struct ctx *root; /* without the timeout of one request */
    struct etcd_client *client;
    struct tls_client *tls;
    uint64_t cluster_id;
    const char *password; /* NULL: none */
    size_t n_args;
    const char *const *args; /* after the verb */
};

typedef int etcd_cli_verb(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e);

/* The options; the first rows say whom to talk to and how to print, and stand by themselves. */
extern const struct cfg_option etcd_cli_table[];
enum { ETCD_CLI_CONNECT_ROWS = 10 };

/* Makes the client that the options describe and runs the verb with it. cli->o is set. */
NODISCARD int etcd_cli_run(const struct ctx *root, const struct ctx *ctx, struct etcd_cli *cli,
                           etcd_cli_verb *run, struct err *e);

etcd_cli_verb etcd_cli_status, etcd_cli_members, etcd_cli_alarms, etcd_cli_defrag,
    etcd_cli_move_leader;
etcd_cli_verb etcd_cli_get, etcd_cli_put, etcd_cli_del, etcd_cli_watch;

/* A deadline for one more request: each has the whole timeout. */
struct ctx etcd_cli_request(const struct etcd_cli *cli);

/* ERR_INVALID unless there are this many arguments. */
NODISCARD int etcd_cli_want_args(const struct etcd_cli *cli, size_t min, size_t max,
                                 const char *what, struct err *e);
/* A member or cluster ID as etcd prints it: hex without prefix. */
NODISCARD int etcd_cli_parse_id(const char *text, uint64_t *out, struct err *e);
