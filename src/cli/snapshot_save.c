/* SPDX-License-Identifier: Apache-2.0
 * `snapshot save`: a member's database into a file, complete and durable or not there at all. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/types.h>

#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "cli/etcd.h"
#include "cli/progress.h"
#include "cli/snapshot.h"
#include "etcd/client.h"
#include "etcd/maintenance.h"
#include "etcd/probe.h"
#include "etcd/source.h"

static const struct output_column columns[] = {
    {"FILE", "file"},       {"SIZE", "sizeText"}, {"SHA-256", "sha256"},
    {"VERSION", "version"}, {NULL, NULL},
};

struct saving {
    const struct file_replace *file;
    bool unwritten; /* the error is of the file, not of the member */
    uint64_t done, total;
    const struct progress *progress;
};

static int write_piece(void *arg, struct str bytes, struct err *e)
{
    struct saving *s = arg;
    s->done += bytes.n;
    s->progress->tell(s->progress->arg, s->done, s->total);
    if (file_write_all(s->file->fd, bytes, e) == 0)
        return 0;
    s->unwritten = true;
    return err_wrap(e, "%s", s->file->path);
}

/* What the endpoints answered when they were asked all at once. */
struct asked {
    size_t n;
    struct etcd_probe_answer *answers;
    struct etcd_witness *witnesses;
};

static void asked_done(struct asked *a)
{
    for (size_t i = 0; i < a->n; i++)
        etcd_probe_answer_done(&a->answers[i]);
    free(a->answers);
    free(a->witnesses);
}

static int ask(const struct ctx *ctx, const struct etcd_cli *cli, struct asked *out, struct err *e)
{
    const size_t n = etcd_client_endpoints(cli->client);
    *out =
        (struct asked){n, xcalloc(n, sizeof(*out->answers)), xcalloc(n, sizeof(*out->witnesses))};
    auto_free struct etcd_probe_target *targets = xcalloc(n, sizeof(*targets));
    /* One each: a member that is silent in the middle of a shared login would hold up the rest. */
    auto_free struct etcd_login *logins = xcalloc(n, sizeof(*logins));
    for (size_t i = 0; i < n; i++) {
        logins[i] = (struct etcd_login){.user = cli->o->user, .password = cli->password};
        targets[i] = (struct etcd_probe_target){
            .endpoint = {etcd_client_url(cli->client, i), cli->o->server_name},
            .tls = cli->tls,
            .cluster_id = cli->cluster_id,
            .login = &logins[i],
            .timeout_ms = cli->o->timeout_ns / DURATION_MS,
        };
    }
    const int rc = etcd_probe(ctx, targets, n, out->answers, e);
    for (size_t i = 0; i < n; i++) {
        etcd_login_done(&logins[i]);
        const struct etcd_status *st = &out->answers[i].status;
        if (out->answers[i].outcome == ETCD_PROBE_ANSWERED)
            out->witnesses[i] = (struct etcd_witness){
                .answered = true,
                .member_id = st->header.member_id,
                .leader = st->leader,
                .term = st->raft_term,
                .index = st->raft_index,
                .applied = st->raft_applied,
                .learner = st->learner,
            };
    }
    return rc;
}

/* Terms and indexes of two clusters do not compare. */
static int check_one_cluster(const struct etcd_cli *cli, const struct asked *a, struct err *e)
{
    size_t first = 0;
    while (first < a->n && !a->witnesses[first].answered)
        first++;
    for (size_t i = first; i < a->n; i++)
        if (a->witnesses[i].answered &&
            a->answers[i].status.header.cluster_id != a->answers[first].status.header.cluster_id)
            return err_set(e, ERR_CONFLICT, 0, "%s and %s belong to different clusters",
                           etcd_client_url(cli->client, first), etcd_client_url(cli->client, i));
    return 0;
}

static int refuse(const struct etcd_cli *cli, const struct asked *a, struct err *e)
{
    if (a->n == 1 && !a->witnesses[0].answered) {
        *e = a->answers[0].err;
        return -1;
    }
    auto_buf struct buf why = BUF_INIT(PRINT_MAX_BYTES);
    for (size_t i = 0; i < a->n; i++)
        buf_addf(&why, "%s%s: %s", i > 0 ? "; " : "", etcd_client_url(cli->client, i),
                 a->witnesses[i].answered ? etcd_source_name(etcd_source_of(a->witnesses, a->n, i))
                                          : etcd_probe_outcome_name(a->answers[i].outcome));
    return err_set(e, ERR_NOT_READY, 0, "no member to save from: %s", buf_cstr(&why));
}

static int choose_member(const struct ctx *ctx, const struct etcd_cli *cli, size_t *out_at,
                         uint64_t *out_bytes, struct err *e)
{
    AUTO(asked_done) struct asked a = {0};
    if (ask(ctx, cli, &a, e) < 0 || check_one_cluster(cli, &a, e) < 0)
        return -1;
    const size_t at = etcd_source_choose(a.witnesses, a.n);
    if (at == a.n)
        return refuse(cli, &a, e);
    *out_at = at;
    *out_bytes = (uint64_t)a.answers[at].status.db_size_bytes;
    return 0;
}

static int save(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    AUTO(progress_end) struct progress_line line;
    progress_begin(&line, "saving", ctx->clock);
    const char *path = cli->args[0];
    AUTO(file_replace_done) struct file_replace f = {0};
    struct saving s = {.file = &f, .progress = &line.progress};
    struct etcd_snapshot got;
    size_t at = 0;
    if (choose_member(ctx, cli, &at, &s.total, e) < 0 || file_replace_begin(&f, path, 0600, e) < 0)
        return -1;
    /* The stream takes as long as it takes: only what comes before it has the time limit. */
    if (etcd_snapshot(cli->root, cli->client, at, write_piece, &s, &got, e) < 0)
        return s.unwritten ? -1 : err_wrap(e, "%s", etcd_client_url(cli->client, at));
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
    .about = "Asks all --endpoints at once and streams the database of one that sees a leader and\n"
             "is up to date, preferably not of the leader itself; checks it against the hash the\n"
             "member sends, syncs it and gives it its name last.\n"
             "A stream that ends early or does not match its hash leaves nothing behind.",
    .options = etcd_cli_table,
    .n_options = ETCD_CLI_CONNECT_ROWS,
    .options_bytes = sizeof(struct etcd_cli_options),
    .run = run_save,
};
