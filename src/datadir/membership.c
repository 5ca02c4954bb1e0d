/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/membership.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sha1.h"
#include "datadir/wire.h"

enum { TEXT_MAX = 1024 * 1024 };

void membership_done(struct membership *m)
{
    for (size_t i = 0; i < m->members.n; i++) {
        struct planned_member *p = &m->members.v[i];
        free(p->name);
        for (size_t k = 0; k < p->urls.n; k++)
            free(p->urls.v[k]);
        vec_done(&p->urls);
    }
    vec_done(&m->members);
}

/* scheme://host:port and nothing behind it, as etcd demands. */
static int check_url(struct str url, const char *flag, struct err *e)
{
    static const char *const schemes[] = {"http://", "https://", "unix://", "unixs://"};
    struct str rest = {0};
    for (size_t i = 0; i < COUNT_OF(schemes); i++)
        if (str_starts(url, str_c(schemes[i])))
            rest = str_from(url, strlen(schemes[i]));
    if (rest.n == 0)
        return err_set(e, ERR_INVALID, 0, "%s: \"%.*s\" is not an http or https URL", flag,
                       STR_ARG(url));
    for (size_t i = 0; i < rest.n; i++)
        if (strchr("/?#@ ", rest.p[i]) || rest.p[i] == '\0')
            return err_set(e, ERR_INVALID, 0, "%s: \"%.*s\" has more than host and port", flag,
                           STR_ARG(url));
    const char *colon = memrchr(rest.p, ':', rest.n);
    uint64_t port = 0;
    if (!colon || colon == rest.p ||
        !str_u64(str_from(rest, (size_t)(colon - rest.p) + 1), &port) || port > 65535)
        return err_set(e, ERR_INVALID, 0, "%s: \"%.*s\" needs host and port", flag, STR_ARG(url));
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_id(const void *a, const void *b)
{
    const uint64_t x = ((const struct planned_member *)a)->id;
    const uint64_t y = ((const struct planned_member *)b)->id;
    return (x > y) - (x < y);
}

static struct planned_member *find_member(struct membership *m, struct str name)
{
    for (size_t i = 0; i < m->members.n; i++)
        if (str_eq(str_c(m->members.v[i].name), name))
            return &m->members.v[i];
    return NULL;
}

static int check_new_url(const struct membership *m, struct str url, struct err *e)
{
    for (size_t i = 0; i < m->members.n; i++)
        for (size_t k = 0; k < m->members.v[i].urls.n; k++)
            if (str_eq(str_c(m->members.v[i].urls.v[k]), url))
                return err_set(e, ERR_INVALID, 0, "--initial-cluster: %.*s appears twice",
                               STR_ARG(url));
    return 0;
}

static int parse_map(struct membership *m, struct str text, struct err *e)
{
    while (text.n > 0) {
        struct str pair, name, url;
        (void)str_cut(text, ',', &pair, &text);
        pair = str_trim(pair);
        if (!str_cut(pair, '=', &name, &url) || name.n == 0)
            return err_set(e, ERR_INVALID, 0, "--initial-cluster: \"%.*s\" is not NAME=URL",
                           STR_ARG(pair));
        if (check_url(url, "--initial-cluster", e) < 0 || check_new_url(m, url, e) < 0)
            return -1;
        struct planned_member *p = find_member(m, name);
        if (!p) {
            vec_push(&m->members, (struct planned_member){.name = str_dup(name)});
            p = &m->members.v[m->members.n - 1];
        }
        vec_push(&p->urls, str_dup(url));
    }
    for (size_t i = 0; i < m->members.n; i++) {
        struct planned_member *p = &m->members.v[i];
        qsort(p->urls.v, p->urls.n, sizeof(*p->urls.v), by_text);
    }
    return 0;
}

/* The advertised URLs are those of the map, in any order. */
static int check_advertised(const struct planned_member *p, struct str text, struct err *e)
{
    size_t n = 0;
    while (text.n > 0) {
        struct str url;
        bool found = false;
        (void)str_cut(text, ',', &url, &text);
        url = str_trim(url);
        if (check_url(url, "--initial-advertise-peer-urls", e) < 0)
            return -1;
        for (size_t i = 0; i < p->urls.n; i++)
            found = found || str_eq(str_c(p->urls.v[i]), url);
        if (!found)
            return err_set(e, ERR_INVALID, 0,
                           "--initial-advertise-peer-urls: --initial-cluster has no %s=%.*s",
                           p->name, STR_ARG(url));
        n++;
    }
    if (n != p->urls.n)
        return err_set(e, ERR_INVALID, 0,
                       "--initial-cluster has %zu URLs of %s, %zu are advertised", p->urls.n,
                       p->name, n);
    return 0;
}

static uint64_t first_8(const unsigned char sum[SHA1_BYTES])
{
    uint64_t v;
    memcpy(&v, sum, sizeof(v));
    return be64toh(v);
}

static uint64_t member_id(const struct planned_member *p, const char *token)
{
    auto_buf struct buf text = BUF_INIT(TEXT_MAX);
    for (size_t i = 0; i < p->urls.n; i++)
        buf_add_c(&text, p->urls.v[i]);
    buf_add_c(&text, token);
    unsigned char sum[SHA1_BYTES];
    sha1_of(buf_str(&text), sum);
    return first_8(sum);
}

static int compute_ids(struct membership *m, const char *name, const char *token, struct err *e)
{
    auto_buf struct buf ids = BUF_INIT(TEXT_MAX);
    for (size_t i = 0; i < m->members.n; i++)
        m->members.v[i].id = member_id(&m->members.v[i], token);
    qsort(m->members.v, m->members.n, sizeof(*m->members.v), by_id);
    for (size_t i = 0; i < m->members.n; i++) {
        const struct planned_member *p = &m->members.v[i];
        if (p->id == 0 || (i > 0 && p->id == p[-1].id))
            return err_set(e, ERR_INVALID, 0, "member %s: its id is already taken", p->name);
        if (strcmp(p->name, name) == 0)
            m->local = i;
        const uint64_t big = htobe64(p->id);
        buf_add(&ids, &big, sizeof(big));
    }
    if (buf_check(&ids, "--initial-cluster", e) < 0)
        return -1;
    unsigned char sum[SHA1_BYTES];
    sha1_of(buf_str(&ids), sum);
    m->cluster_id = first_8(sum);
    return 0;
}

static int parse(struct membership *m, const char *name, const char *initial_cluster,
                 const char *token, const char *peer_urls, struct err *e)
{
    const size_t longest = TEXT_MAX / 4;
    if (strlen(initial_cluster) > longest || strlen(token) > longest || strlen(name) > longest)
        return err_set(e, ERR_TOO_BIG, 0, "a flag of more than %zu bytes", longest);
    if (parse_map(m, str_c(initial_cluster), e) < 0)
        return -1;
    const struct planned_member *local = find_member(m, str_c(name));
    if (!local)
        return err_set(e, ERR_INVALID, 0, "--name: \"%s\" is not in --initial-cluster", name);
    if (check_advertised(local, str_c(peer_urls), e) < 0)
        return -1;
    return compute_ids(m, name, token, e);
}

int membership_parse(const char *name, const char *initial_cluster, const char *token,
                     const char *peer_urls, struct membership *out, struct err *e)
{
    struct membership m = {0};
    if (parse(&m, name, initial_cluster, token, peer_urls, e) < 0) {
        membership_done(&m);
        return -1;
    }
    *out = m;
    return 0;
}

void json_string_like_go(struct str s, struct buf *out)
{
    buf_add_char(out, '"');
    while (s.n > 0) {
        const unsigned char c = (unsigned char)s.p[0];
        const size_t n = utf8_first(s);
        if (c == '"' || c == '\\')
            buf_addf(out, "\\%c", c);
        else if (c == '\n' || c == '\r' || c == '\t')
            buf_addf(out, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (c < 0x20 || c == '<' || c == '>' || c == '&')
            buf_addf(out, "\\u%04x", c);
        else if (n == 0)
            buf_add_c(out, "\\ufffd");
        else if (n == 3 && memcmp(s.p, "\xe2\x80\xa8", 2) == 0 &&
                 ((unsigned char)s.p[2] | 1) == 0xa9)
            buf_addf(out, "\\u20%02x", (unsigned)((unsigned char)s.p[2] - 0x80));
        else
            buf_add(out, s.p, n);
        s = str_from(s, n > 0 ? n : 1);
    }
    buf_add_char(out, '"');
}

static void add_urls(const struct planned_member *m, struct buf *out)
{
    buf_add_c(out, "\"peerURLs\":[");
    for (size_t i = 0; i < m->urls.n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        json_string_like_go(str_c(m->urls.v[i]), out);
    }
    buf_add_char(out, ']');
}

void member_json(const struct planned_member *m, struct buf *out)
{
    buf_addf(out, "{\"id\":%" PRIu64 ",", m->id);
    add_urls(m, out);
    buf_add_c(out, ",\"name\":");
    json_string_like_go(str_c(m->name), out);
    buf_add_char(out, '}');
}

void member_raft_json(const struct planned_member *m, struct buf *out)
{
    buf_add_char(out, '{');
    add_urls(m, out);
    buf_add_char(out, '}');
}

void membership_conf_state_json(const struct membership *m, struct buf *out)
{
    buf_add_c(out, "{\"voters\":[");
    for (size_t i = 0; i < m->members.n; i++)
        buf_addf(out, "%s%" PRIu64, i > 0 ? "," : "", m->members.v[i].id);
    buf_add_c(out, "],\"auto_leave\":false}");
}

void membership_conf_state(const struct membership *m, struct buf *out)
{
    for (size_t i = 0; i < m->members.n; i++)
        wire_put_number(out, 1, m->members.v[i].id);
    wire_put_number(out, 5, 0);
}
