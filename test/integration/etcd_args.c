/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_args.h"

#include <signal.h>

#include "base/cfg.h"
#include "base/file.h"
#include "base/log.h"
#include "net/tls.h"

struct raw {
    const char *endpoints, *server_name, *cacert, *cert, *key, *user, *password_file, *cluster_id;
    int64_t timeout_ms, count, revision, keepalive_ms;
};

#define ROW(name_, type_, field, ...)                                                              \
    {                                                                                              \
        .name = name_, .type = type_, .offset = offsetof(struct raw, field), .help = "",           \
        __VA_ARGS__                                                                                \
    }

static const struct cfg_option table[] = {
    ROW("endpoints", CFG_STR, endpoints, .dflt = "http://127.0.0.1:2379"),
    ROW("server-name", CFG_STR, server_name),
    ROW("cacert", CFG_FILE, cacert),
    ROW("cert", CFG_FILE, cert),
    ROW("key", CFG_FILE, key),
    ROW("user", CFG_STR, user),
    ROW("password-file", CFG_FILE, password_file),
    ROW("cluster-id", CFG_STR, cluster_id),
    ROW("timeout-ms", CFG_INT, timeout_ms, .dflt = "10000", .min = 1, .max = INT64_MAX),
    ROW("count", CFG_INT, count, .dflt = "0", .max = INT64_MAX),
    ROW("rev", CFG_INT, revision, .dflt = "0", .max = INT64_MAX),
    ROW("keepalive-ms", CFG_INT, keepalive_ms, .dflt = "0", .max = INT64_MAX),
};

static struct log_sink sink;
static const struct log root_log = {.sink = &sink};

static void read_pem(const struct ctx *ctx, const char *path, struct buf *out)
{
    struct err e;
    *out = BUF_INIT(1 << 20);
    if (path)
        OK(file_read(ctx, path, out, &e));
}

static void load_tls(struct etcd_args *a, const struct raw *raw)
{
    struct err e;
    auto_buf struct buf ca, cert, key;
    read_pem(&a->root, raw->cacert, &ca);
    read_pem(&a->root, raw->cert, &cert);
    read_pem(&a->root, raw->key, &key);
    const struct tls_client_options o = {buf_str(&ca), buf_str(&cert), buf_str(&key)};
    if (raw->cacert)
        OK(tls_client_new(&o, &a->tls, &e));
}

void etcd_args_init(struct etcd_args *a, int argc, const char *const *argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    log_sink_init(&sink, 2, LOG_TEXT, LOG_DEBUG, &clock_real);
    *a = (struct etcd_args){.root = ctx_root(&clock_real, &root_log), .password = BUF_INIT(4096)};
    struct raw raw = {0};
    const struct cfg_section section = {.options = table, .n = COUNT_OF(table), .into = &raw};
    struct cfg_parsed parsed = {0};
    if (!cfg_parse(&section, 1, argc - 1, argv + 1, getenv, &parsed)) {
        for (size_t i = 0; i < parsed.problems.n; i++)
            (void)fprintf(stderr, "%s\n", parsed.problems.v[i]);
        exit(2);
    }
    for (size_t i = 0; i < parsed.args.n && i < COUNT_OF(a->words); i++)
        a->words[a->n_words++] = parsed.args.v[i];
    cfg_parsed_done(&parsed);
    a->urls = xstrdup(raw.endpoints);
    for (char *next = a->urls; next && a->n_endpoints < ENDPOINTS_MAX;) {
        a->endpoints[a->n_endpoints++] = (struct etcd_endpoint){next, raw.server_name};
        next = strchr(next, ',');
        if (next)
            *next++ = '\0';
    }
    load_tls(a, &raw);
    a->user = raw.user;
    if (raw.password_file) {
        struct err e;
        OK(file_read(&a->root, raw.password_file, &a->password, &e));
        buf_trim_to(&a->password, str_trim(buf_str(&a->password)).n);
    }
    if (raw.cluster_id)
        CHECK(sscanf(raw.cluster_id, "%lx", &a->cluster_id) == 1);
    a->timeout_ms = raw.timeout_ms;
    a->count = raw.count;
    a->revision = raw.revision;
    a->keepalive_ms = raw.keepalive_ms;
}

void etcd_args_done(struct etcd_args *a)
{
    tls_client_unref(a->tls);
    buf_wipe(&a->password);
    free(a->urls);
    log_sink_done(&sink);
}

struct etcd_client *etcd_args_client(const struct etcd_args *a)
{
    struct err e;
    struct etcd_client *c = NULL;
    const struct etcd_options o = {
        .endpoints = a->endpoints,
        .n_endpoints = a->n_endpoints,
        .tls = a->tls,
        .user = a->user,
        .password = buf_str(&a->password),
        .cluster_id = a->cluster_id,
        .keepalive_ms = a->keepalive_ms,
    };
    OK(etcd_client_new(&clock_real, &o, &c, &e));
    return c;
}
