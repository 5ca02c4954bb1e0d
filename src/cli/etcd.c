/* SPDX-License-Identifier: Apache-2.0
 * `raftsman etcd`: day-2 work on an etcd cluster from a shell, over plain endpoints. */
#include "cli/etcd.h"

#include <string.h>

#include "base/buf.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/output.h"
#include "etcd/client.h"
#include "net/endpoint.h"
#include "net/tls.h"

enum { PEM_MAX = 1 << 20, PASSWORD_MAX = 4096 };

#define OFFSET(field) offsetof(struct etcd_cli_options, field)

const struct cfg_option etcd_cli_table[] = {
    {
        .name = "endpoints",
        .type = CFG_STR,
        .offset = OFFSET(endpoints),
        .dflt = "http://127.0.0.1:2379",
        .arg = "URL,...",
        .help = "members to talk to",
    },
    {
        .name = "server-name",
        .type = CFG_STR,
        .offset = OFFSET(server_name),
        .arg = "NAME",
        .help = "name the servers' certificates carry, if it is not the host of the URL",
    },
    {
        .name = "cacert",
        .type = CFG_FILE,
        .offset = OFFSET(cacert),
        .help = "CA certificates to trust; needed for https",
    },
    {
        .name = "cert",
        .type = CFG_FILE,
        .offset = OFFSET(cert),
        .help = "client certificate to show",
    },
    {
        .name = "key",
        .type = CFG_FILE,
        .offset = OFFSET(key),
        .help = "private key of the client certificate",
    },
    {
        .name = "user",
        .type = CFG_STR,
        .offset = OFFSET(user),
        .arg = "NAME",
        .help = "user to log in as",
    },
    {
        .name = "password-file",
        .type = CFG_FILE,
        .offset = OFFSET(password_file),
        .help = "file whose first line is the password (/dev/stdin for a pipe)",
    },
    {
        .name = "cluster-id",
        .type = CFG_STR,
        .offset = OFFSET(cluster_id),
        .arg = "HEX",
        .help = "refuse to talk to any other cluster",
    },
    {
        .name = "timeout",
        .type = CFG_DURATION,
        .offset = OFFSET(timeout_ns),
        .dflt = "5s",
        .min = DURATION_MS,
        .max = 3600 * DURATION_S,
        .help = "give up a request after this long; watch goes on until it is interrupted",
    },
    {
        .name = "output",
        .letter = 'o',
        .type = CFG_CHOICE,
        .offset = OFFSET(output),
        .dflt = "table",
        .choices = output_formats,
        .help = "form of the result; keys and values are base64 in json and yaml",
    },
    {
        .name = "prefix",
        .type = CFG_BOOL,
        .offset = OFFSET(prefix),
        .help = "get, del, watch: all keys that begin with KEY",
    },
    {
        .name = "rev",
        .type = CFG_INT,
        .offset = OFFSET(revision),
        .dflt = "0",
        .min = 0,
        .max = INT64_MAX,
        .help = "get: as of this revision; watch: from it on; 0 is now",
    },
    {
        .name = "limit",
        .type = CFG_INT,
        .offset = OFFSET(limit),
        .dflt = "0",
        .min = 0,
        .max = INT64_MAX,
        .help = "get: at most this many keys; 0 is all, read in pages",
    },
    {
        .name = "events",
        .type = CFG_INT,
        .offset = OFFSET(events),
        .dflt = "0",
        .min = 0,
        .max = INT64_MAX,
        .help = "watch: end after this many events; 0 is never",
    },
    {
        .name = "serializable",
        .type = CFG_BOOL,
        .offset = OFFSET(serializable),
        .help = "members: as the asked member knows them, without a quorum",
    },
};

/* The options that are not for every verb. */
enum {
    USES_PREFIX = 1,
    USES_REV = 2,
    USES_LIMIT = 4,
    USES_EVENTS = 8,
    USES_SERIALIZABLE = 16,
};

static const struct verb {
    const char *name;
    etcd_cli_verb *run;
    unsigned uses;
} verbs[] = {
    {"status", etcd_cli_status, 0},
    {"members", etcd_cli_members, USES_SERIALIZABLE},
    {"alarms", etcd_cli_alarms, 0},
    {"defrag", etcd_cli_defrag, 0},
    {"move-leader", etcd_cli_move_leader, 0},
    {"get", etcd_cli_get, USES_PREFIX | USES_REV | USES_LIMIT},
    {"put", etcd_cli_put, 0},
    {"del", etcd_cli_del, USES_PREFIX},
    {"watch", etcd_cli_watch, USES_PREFIX | USES_REV | USES_EVENTS},
};

/* Who says --prefix means it: a verb that would not heed it does nothing. */
static int check_uses(const struct verb *v, const struct etcd_cli_options *o, struct err *e)
{
    const struct {
        unsigned use;
        bool given;
        const char *name;
    } rows[] = {
        {USES_PREFIX, o->prefix, "prefix"},
        {USES_REV, o->revision != 0, "rev"},
        {USES_LIMIT, o->limit != 0, "limit"},
        {USES_EVENTS, o->events != 0, "events"},
        {USES_SERIALIZABLE, o->serializable, "serializable"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].given && !(v->uses & rows[i].use))
            return err_set(e, ERR_INVALID, 0, "%s has no --%s", v->name, rows[i].name);
    return 0;
}

struct ctx etcd_cli_request(const struct etcd_cli *cli)
{
    return ctx_with_timeout(cli->root, cli->o->timeout_ns / DURATION_MS);
}

int etcd_cli_want_args(const struct etcd_cli *cli, size_t min, size_t max, const char *what,
                       struct err *e)
{
    if (cli->n_args >= min && cli->n_args <= max)
        return 0;
    return err_set(e, ERR_INVALID, 0, "expected %s", what);
}

int etcd_cli_parse_id(const char *text, uint64_t *out, struct err *e)
{
    uint64_t id = 0;
    size_t n = 0;
    for (; text[n]; n++) {
        const char c = ascii_lower(text[n]);
        if (n >= 16 || !(ascii_is_digit(c) || (c >= 'a' && c <= 'f')))
            break;
        id = id << 4 | (uint64_t)(ascii_is_digit(c) ? c - '0' : c - 'a' + 10);
    }
    if (n == 0 || text[n])
        return err_set(e, ERR_INVALID, 0, "\"%s\" is no ID of up to 16 hex digits", text);
    *out = id;
    return 0;
}

static int load_tls(const struct ctx *ctx, const struct etcd_cli_options *o,
                    struct tls_client **out, struct err *e)
{
    if (!o->cacert) {
        if (o->cert || o->key)
            return err_set(e, ERR_INVALID, 0, "--cert and --key need --cacert");
        return 0;
    }
    if (!o->cert != !o->key)
        return err_set(e, ERR_INVALID, 0, "--cert and --key belong together");
    auto_buf struct buf ca = BUF_INIT(PEM_MAX), cert = BUF_INIT(PEM_MAX);
    AUTO(buf_wipe) struct buf key = BUF_INIT(PEM_MAX);
    if (!buf_reserve(&key, PEM_MAX) || file_read(ctx, o->cacert, &ca, e) < 0)
        return -1;
    if (o->cert && (file_read(ctx, o->cert, &cert, e) < 0 || file_read(ctx, o->key, &key, e) < 0))
        return -1;
    return tls_client_new(&(struct tls_client_options){buf_str(&ca), buf_str(&cert), buf_str(&key)},
                          out, e);
}

/* The first line; empty without a file. */
static int load_password(const struct ctx *ctx, const char *path, struct buf *out, struct err *e)
{
    if (!buf_reserve(out, PASSWORD_MAX)) /* at once: growing would leave copies behind */
        return buf_check(out, "password", e);
    if (path && file_read(ctx, path, out, e) < 0)
        return -1;
    struct str line, rest;
    (void)str_cut(buf_str(out), '\n', &line, &rest);
    buf_trim_to(out, str_ends(line, STR("\r")) ? line.n - 1 : line.n);
    return 0;
}

static int split_endpoints(const struct etcd_cli_options *o, char *text, struct etcd_endpoint *out,
                           size_t max, size_t *n, struct err *e)
{
    for (char *next = text; next;) {
        char *url = next;
        next = strchr(url, ',');
        if (next)
            *next++ = '\0';
        if (*n == max)
            return err_set(e, ERR_INVALID, 0, "more than %zu endpoints", max);
        out[(*n)++] = (struct etcd_endpoint){url, o->server_name};
    }
    return 0;
}

int etcd_cli_run(const struct ctx *root, const struct ctx *ctx, struct etcd_cli *cli,
                 etcd_cli_verb *run, struct err *e)
{
    const struct etcd_cli_options *o = cli->o;
    AUTO(buf_wipe) struct buf password = BUF_INIT(PASSWORD_MAX);
    if (o->cluster_id && etcd_cli_parse_id(o->cluster_id, &cli->cluster_id, e) < 0)
        return err_wrap(e, "--cluster-id");
    if (o->server_name && server_name_check(o->server_name, e) < 0)
        return err_wrap(e, "--server-name");
    if (o->user && strchr(o->user, ':'))
        return err_set(e, ERR_INVALID, 0,
                       "--user takes a name only: a password on the command line is seen by others;"
                       " put it into a file for --password-file");
    if (o->password_file && !o->user)
        return err_set(e, ERR_INVALID, 0, "--password-file needs --user");
    if (load_password(ctx, o->password_file, &password, e) < 0)
        return -1;
    AUTO(tls_client_unref_auto) struct tls_client *tls = NULL;
    if (load_tls(ctx, o, &tls, e) < 0)
        return -1;
    auto_free char *urls = xstrdup(o->endpoints);
    struct etcd_endpoint endpoints[64];
    size_t n = 0;
    if (split_endpoints(o, urls, endpoints, COUNT_OF(endpoints), &n, e) < 0)
        return err_wrap(e, "--endpoints");
    AUTO(etcd_client_free_auto) struct etcd_client *client = NULL;
    const struct etcd_options options = {
        .endpoints = endpoints,
        .n_endpoints = n,
        .tls = tls,
        .user = o->user,
        .password = buf_str(&password),
        .cluster_id = cli->cluster_id,
    };
    if (etcd_client_new(root->clock, &options, &client, e) < 0)
        return -1;
    cli->root = root;
    cli->client = client;
    cli->tls = tls;
    cli->password = buf_cstr(&password);
    return run(ctx, cli, e);
}

static int run(const struct ctx *root, const void *opts, size_t n_args, const char *const *args,
               struct err *e)
{
    struct etcd_cli cli = {.o = opts};
    const struct ctx ctx = ctx_with_timeout(root, cli.o->timeout_ns / DURATION_MS);
    if (n_args == 0)
        return err_set(e, ERR_INVALID, 0, "say what to do: see raftsman etcd --help");
    cli.n_args = n_args - 1;
    cli.args = args + 1;
    for (size_t i = 0; i < COUNT_OF(verbs); i++)
        if (strcmp(verbs[i].name, args[0]) == 0)
            return check_uses(&verbs[i], cli.o, e) < 0
                       ? -1
                       : etcd_cli_run(root, &ctx, &cli, verbs[i].run, e);
    return err_set(e, ERR_INVALID, 0, "\"%s\" is nothing this can do: see raftsman etcd --help",
                   args[0]);
}

const struct command command_etcd = {
    .name = "etcd",
    .args = "status|members|alarms|defrag|move-leader|get|put|del|watch [ARG...]",
    .summary = "look after an etcd cluster from a shell",
    .about = "status             every endpoint: version, size, leader, lag, what is wrong\n"
             "members            who belongs to the cluster\n"
             "alarms [disarm]    alarms of the cluster; disarm clears them all\n"
             "defrag             the voters one after the other, the leader last\n"
             "move-leader ID     hand leadership to this member\n"
             "get KEY            one key, or with --prefix all that begin with it\n"
             "put KEY VALUE      set a key; without VALUE it is read from standard input\n"
             "del KEY            delete a key, or with --prefix all that begin with it\n"
             "watch KEY          print changes as they happen, until interrupted\n\n"
             "A change that was sent and not answered may have been made: the error says so, and\n"
             "nothing is repeated. Also called kubectl-etcd.",
    .options = etcd_cli_table,
    .n_options = COUNT_OF(etcd_cli_table),
    .options_bytes = sizeof(struct etcd_cli_options),
    .run = run,
};
