/* SPDX-License-Identifier: Apache-2.0
 * raftsman etcd get, put, del, watch. */
#include <string.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/etcd.h"
#include "cli/output.h"
#include "etcd/kv.h"
#include "etcd/watch.h"

enum {
    VALUE_MAX = 64 << 20,
    TEXT_MAX = 128 << 20,
    SHOWN_MAX = 4 * VALUE_MAX, /* "\x00" for a byte */
    EVENT_MAX = 2 * SHOWN_MAX, /* a key and a value */
};

static json_t *base64(struct str bytes)
{
    auto_buf struct buf text = BUF_INIT(TEXT_MAX);
    (void)base64_encode(&text, bytes); /* a response is smaller than its ceiling */
    return jsn(buf_str(&text));
}

/* Keys and values are anybody's bytes; a terminal gets text, and what it does not show is spelt
 * out. */
static void add_text(struct buf *out, struct str bytes)
{
    while (bytes.n > 0) {
        const unsigned char c = (unsigned char)bytes.p[0];
        size_t n = utf8_first(bytes);
        /* Below 0x20, and what UTF-8 makes of 0x80 to 0x9f, terminals obey. */
        const bool control =
            c < 0x20 || c == 0x7f || (n == 2 && c == 0xc2 && (unsigned char)bytes.p[1] < 0xa0);
        if (c == '\n')
            buf_add_c(out, "\\n");
        else if (c == '\\')
            buf_add_c(out, "\\\\");
        else if (n > 0 && !control)
            buf_add(out, bytes.p, n);
        else
            for (size_t i = 0; i < (n > 0 ? n : 1); i++)
                buf_addf(out, "\\x%02x", (unsigned char)bytes.p[i]);
        bytes = str_from(bytes, n > 0 ? n : 1);
    }
}

static json_t *shown(struct str bytes)
{
    auto_buf struct buf text = BUF_INIT(SHOWN_MAX);
    add_text(&text, bytes);
    return jsn(buf_str(&text));
}

static json_t *kv_json(const struct etcd_kv *kv, bool text)
{
    return JOBJ(J("key", text ? shown(kv->key) : base64(kv->key)),
                J("value", text ? shown(kv->value) : base64(kv->value)),
                J("create_revision", ji(kv->create_revision)),
                J("mod_revision", ji(kv->mod_revision)), J("version", ji(kv->version)),
                J_IF(kv->lease != 0, "lease", jsf("%llx", (unsigned long long)kv->lease)));
}

/* KEY and --prefix as a range; *end holds the end's bytes. */
static struct etcd_range range_of(const struct etcd_cli *cli, struct buf *end)
{
    struct etcd_range r = {.key = str_c(cli->args[0]), .revision = cli->o->revision};
    if (!cli->o->prefix)
        return r;
    etcd_prefix_end(r.key, end);
    r.end = buf_str(end);
    if (r.key.n == 0)
        r.key = STR("\0");
    return r;
}

int etcd_cli_get(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    if (etcd_cli_want_args(cli, 1, 1, "get KEY", e) < 0)
        return -1;
    static const struct output_column columns[] = {
        {"KEY", "key"}, {"VALUE", "value"}, {"REVISION", "mod_revision"}, {0}};
    auto_buf struct buf end = BUF_INIT(VALUE_MAX);
    const bool text = cli->o->output == OUTPUT_TABLE;
    json_auto_t *kvs = json_array();
    AUTO(etcd_pages_done) struct etcd_pages pages = {.range = range_of(cli, &end)};
    pages.range.limit = cli->o->limit;
    for (int rc; (rc = etcd_pages_next(ctx, cli->client, &pages, e)) != 0;) {
        if (rc < 0)
            return -1;
        for (size_t i = 0; i < pages.page.n; i++)
            (void)json_array_append_new(kvs, kv_json(&pages.page.v[i], text));
        if (cli->o->limit > 0)
            break;
    }
    json_auto_t *result = JOBJ(J("revision", ji(pages.revision)), J("kvs", json_incref(kvs)));
    return output_print(result, "kvs", columns, (enum output_format)cli->o->output, e);
}

static int print_count(const struct etcd_cli *cli, const struct etcd_kvs *kvs, int64_t count,
                       struct err *e)
{
    static const struct output_column columns[] = {{"KEYS", "keys"}, {"REVISION", "revision"}, {0}};
    json_auto_t *result = JARR(JOBJ(J("keys", ji(count)), J("revision", ji(kvs->header.revision))));
    return output_print(result, "", columns, (enum output_format)cli->o->output, e);
}

int etcd_cli_put(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    if (etcd_cli_want_args(cli, 1, 2, "put KEY [VALUE]", e) < 0)
        return -1;
    auto_buf struct buf input = BUF_INIT(VALUE_MAX);
    if (cli->n_args == 1 && file_read_fd(ctx, STDIN_FILENO, &input, e) < 0)
        return err_wrap(e, "standard input");
    const struct etcd_put put = {
        .key = str_c(cli->args[0]),
        .value = cli->n_args == 2 ? str_c(cli->args[1]) : buf_str(&input),
    };
    AUTO(etcd_kvs_done) struct etcd_kvs out = {0};
    if (etcd_put(ctx, cli->client, &put, &out, e) < 0)
        return -1;
    return print_count(cli, &out, 1, e);
}

int etcd_cli_del(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    if (etcd_cli_want_args(cli, 1, 1, "del KEY", e) < 0)
        return -1;
    auto_buf struct buf end = BUF_INIT(VALUE_MAX);
    const struct etcd_range r = range_of(cli, &end);
    AUTO(etcd_kvs_done) struct etcd_kvs out = {0};
    if (etcd_delete(ctx, cli->client, &(struct etcd_delete){.key = r.key, .end = r.end}, &out, e) <
        0)
        return -1;
    return print_count(cli, &out, out.count, e);
}

/* One line per event: streams have no table. */
static int print_event(const struct etcd_cli *cli, const struct etcd_event *event, struct err *e)
{
    auto_buf struct buf line = BUF_INIT(EVENT_MAX);
    const char *type = event->type == ETCD_PUT ? "PUT" : "DELETE";
    if (cli->o->output == OUTPUT_TABLE) {
        buf_addf(&line, "%-6s %lld ", type, (long long)event->kv.mod_revision);
        add_text(&line, event->kv.key);
        if (event->type == ETCD_PUT) {
            buf_add_char(&line, ' ');
            add_text(&line, event->kv.value);
        }
        buf_add_char(&line, '\n');
        return print_out(&line, e);
    }
    json_auto_t *result = JOBJ(J("type", js(type)), J("kv", kv_json(&event->kv, false)));
    if (cli->o->output == OUTPUT_YAML)
        buf_add_c(&line, "--- ");
    if (jdump(result, &line, e) < 0)
        return -1;
    buf_add_char(&line, '\n');
    return print_out(&line, e);
}

/* As etcd_watcher_next(). Says once when the servers cannot be reached, and goes on trying. */
static int wait_for_news(const struct etcd_cli *cli, struct etcd_watcher *w, bool *warned,
                         struct etcd_watch_batch *out, struct err *e)
{
    for (;;) {
        const struct ctx patience = etcd_cli_request(cli);
        if (etcd_watcher_next(&patience, w, out, e) == 0) {
            *warned = false;
            return 0;
        }
        if (e->code != ERR_TIMEOUT || out->watch != 0)
            return -1;
        const struct err *trouble = etcd_watcher_trouble(w);
        if (trouble && !*warned)
            log_warn(cli->root->log, "the watch is interrupted and goes on trying",
                     KV("error", trouble->text));
        *warned = trouble != NULL;
    }
}

int etcd_cli_watch(const struct ctx *ctx, const struct etcd_cli *cli, struct err *e)
{
    (void)ctx; /* a watch has no end of its own */
    if (etcd_cli_want_args(cli, 1, 1, "watch KEY", e) < 0)
        return -1;
    auto_buf struct buf end = BUF_INIT(VALUE_MAX);
    const struct etcd_range r = range_of(cli, &end);
    AUTO(etcd_watcher_free_auto) struct etcd_watcher *w = etcd_watcher_new(cli->client);
    (void)etcd_watch_add(
        w, &(struct etcd_watch){.key = r.key, .end = r.end, .start_revision = r.revision});
    bool warned = false;
    for (int64_t seen = 0;;) {
        struct etcd_watch_batch batch;
        if (wait_for_news(cli, w, &warned, &batch, e) < 0)
            return -1;
        for (size_t i = 0; i < batch.n; i++) {
            if (print_event(cli, &batch.v[i], e) < 0)
                return -1;
            if (++seen == cli->o->events)
                return 0;
        }
    }
}
