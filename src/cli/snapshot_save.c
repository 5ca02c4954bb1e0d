/* SPDX-License-Identifier: Apache-2.0
 * `snapshot save`: a member's database into a file, complete and durable or not there at all. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "base/file.h"
#include "base/time.h"
#include "cli/etcd.h"
#include "cli/progress.h"
#include "cli/snapshot.h"
#include "etcd/client.h"
#include "etcd/maintenance.h"

static const struct output_column columns[] = {
    {"FILE", "file"},       {"SIZE", "sizeText"}, {"SHA-256", "sha256"},
    {"VERSION", "version"}, {NULL, NULL},
};

struct saving {
    int fd;
    uint64_t done, total;
    const struct progress *progress;
};

static int write_piece(void *arg, struct str bytes, struct err *e)
{
    struct saving *s = arg;
    s->done += bytes.n;
    s->progress->tell(s->progress->arg, s->done, s->total);
    return file_write_all(s->fd, bytes, e);
}

/* A member that does not lead, if one answers: the stream costs it disk and network. */
static int choose_member(const struct ctx *ctx, struct etcd_client *c, size_t *out_at,
                         uint64_t *out_bytes, struct err *e)
{
    bool found = false;
    for (size_t at = 0; at < etcd_client_endpoints(c); at++) {
        AUTO(etcd_status_done) struct etcd_status st = {0};
        if (etcd_status(ctx, c, at, &st, e) < 0)
            continue;
        const bool follows = st.leader != st.header.member_id;
        if (!found || follows) {
            *out_at = at;
            *out_bytes = (uint64_t)st.db_size_bytes;
            found = true;
        }
        if (follows)
            break;
    }
    return found ? 0 : -1; /* *e is of the last one asked */
}

static int save(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "saving", ctx->clock);
    const char *path = cli->args[0];
    AUTO(file_replace_done) struct file_replace f = {0};
    struct saving s = {.progress = &line.progress};
    struct etcd_snapshot got;
    size_t at = 0;
    if (choose_member(ctx, cli->client, &at, &s.total, e) < 0 ||
        file_replace_begin(&f, path, 0600, e) < 0)
        return -1;
    s.fd = f.fd;
    /* The stream takes as long as it takes: only what comes before it has the time limit. */
    if (etcd_snapshot(cli->root, cli->client, at, write_piece, &s, &got, e) < 0)
        return err_wrap(e, "%s", etcd_client_url(cli->client, at));
    if (file_replace_commit(&f, e) < 0)
        return -1;
    progress_end(&line);
    char size[32];
    json_t *value = JOBJ(
        J("file", js(path)), J("totalSize", ji((int64_t)got.size_bytes)),
        J_IF(cli->o->output == OUTPUT_TABLE, "sizeText", js(human_bytes(got.size_bytes, size))),
        J("sha256", js(got.sha256)), J("version", js(got.version)),
        J("endpoint", js(etcd_client_url(cli->client, at))));
    return print_result(value, json_incref(value), columns, cli->o->output, e);
}

static int run_save(const struct ctx *root, const void *options, size_t n_args,
                    const char *const *args, struct err *e)
{
    struct etcd_cli cli = {.o = options, .n_args = n_args, .args = args};
    if (need_args(n_args, 1, "one FILE", e) < 0)
        return -1;
    const struct ctx ctx = ctx_with_timeout(root, cli.o->timeout_ns / DURATION_MS);
    return etcd_cli_run(root, &ctx, &cli, save, e);
}

const struct command command_snapshot_save = {
    .name = "snapshot save",
    .args = "FILE",
    .summary = "save a member's database as a snapshot file",
    .about = "Streams the database of one of --endpoints, preferably of one that does not lead,\n"
             "checks it against the hash the member sends, syncs it and renames it to FILE last.\n"
             "A stream that ends early or does not match its hash leaves nothing behind.",
    .options = etcd_cli_table,
    .n_options = ETCD_CLI_CONNECT_ROWS,
    .options_bytes = sizeof(struct etcd_cli_options),
    .run = run_save,
};
