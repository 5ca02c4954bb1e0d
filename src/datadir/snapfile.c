/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/snapfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/json.h"
#include "datadir/membership.h"
#include "datadir/wire.h"

enum { TEXT_MAX = 16 * 1024 * 1024 };

int snapfile_decode(struct str bytes, struct raft_snapshot *out, struct err *e)
{
    struct wire w = wire_of(bytes);
    struct wire_field f;
    uint64_t crc = 0;
    struct str data = {0};
    while (wire_next(&w, &f)) {
        if (f.number == 1 && f.type == WIRE_VARINT)
            crc = f.value;
        else if (f.number == 2 && f.type == WIRE_BYTES)
            data = f.bytes;
    }
    if (w.bad || data.n == 0)
        return err_set(e, ERR_CORRUPT, 0, "not a snapshot message");
    if (crc == 0 || crc != crc32c(0, data.p, data.n))
        return err_set(e, ERR_CORRUPT, 0, "the checksum does not match");
    struct raft_snapshot s;
    if (!raft_snapshot_decode(data, &s))
        return err_set(e, ERR_CORRUPT, 0, "the raft snapshot does not decode");
    *out = s;
    json_auto_t *store = NULL;
    if (jparse(s.data, &store, e) < 0 || !json_is_object(jget(store, "Root")))
        return err_set(e, ERR_INVALID, 0, "the v2 store in it is not JSON");
    return 0;
}

void snapfile_name(struct raft_snapshot_point at, char out[SNAPFILE_NAME_BYTES])
{
    (void)snprintf(out, SNAPFILE_NAME_BYTES, "%016" PRIx64 "-%016" PRIx64 ".snap", at.term,
                   at.index);
}

bool snapfile_name_parse(const char *name, struct raft_snapshot_point *out)
{
    struct raft_snapshot_point at = {0};
    char again[SNAPFILE_NAME_BYTES];
    if (strlen(name) != SNAPFILE_NAME_BYTES - 1)
        return false;
    for (int i = 0; i < 33; i++) {
        const char c = name[i];
        const uint64_t digit = (uint64_t)(ascii_is_digit(c) ? c - '0' : c - 'a' + 10);
        if (i < 16)
            at.term = at.term << 4 | (digit & 15);
        else if (i > 16)
            at.index = at.index << 4 | (digit & 15);
    }
    snapfile_name(at, again);
    if (strcmp(again, name) != 0)
        return false;
    *out = at;
    return true;
}

/* --- The v2 store: a tree of directories with one file per member -------------------------- */

static void open_node(struct buf *out, const char *path, uint64_t index, struct str value)
{
    buf_add_c(out, "{\"Path\":");
    json_string_like_go(str_c(path), out);
    buf_addf(out,
             ",\"CreatedIndex\":%" PRIu64 ",\"ModifiedIndex\":%" PRIu64
             ",\"ExpireTime\":\"0001-01-01T00:00:00Z\",\"Value\":",
             index, index);
    json_string_like_go(value, out);
    buf_add_c(out, ",\"Children\":");
}

static void add_member(struct buf *out, const struct planned_member *m, uint64_t index)
{
    char path[96];
    auto_buf struct buf attributes = BUF_INIT(TEXT_MAX);
    member_raft_json(m, &attributes);
    (void)snprintf(path, sizeof(path), "/0/members/%" PRIx64, m->id);
    buf_addf(out, "\"%" PRIx64 "\":", m->id);
    open_node(out, path, index, (struct str){0});
    (void)snprintf(path, sizeof(path), "/0/members/%" PRIx64 "/raftAttributes", m->id);
    buf_add_c(out, "{\"raftAttributes\":");
    open_node(out, path, index, buf_str(&attributes));
    buf_add_c(out, "null}}}");
}

static void add_store(struct buf *out, const struct membership *m)
{
    const struct str none = {0};
    buf_add_c(out, "{\"Root\":");
    open_node(out, "/", 0, none);
    buf_add_c(out, "{\"0\":");
    open_node(out, "/0", 0, none);
    buf_add_c(out, "{\"members\":");
    open_node(out, "/0/members", 1, none);
    buf_add_char(out, '{');
    for (size_t i = 0; i < m->members.n; i++) {
        if (i > 0)
            buf_add_char(out, ',');
        add_member(out, &m->members.v[i], i + 1);
    }
    buf_add_c(out, "}}}},\"1\":");
    open_node(out, "/1", 0, none);
    buf_addf(out, "{}}}},\"CurrentIndex\":%zu,\"CurrentVersion\":2}", m->members.n);
}

void snapfile_build(const struct membership *m, struct buf *out)
{
    auto_buf struct buf store = BUF_INIT(TEXT_MAX), conf = BUF_INIT(TEXT_MAX),
                        metadata = BUF_INIT(TEXT_MAX), snapshot = BUF_INIT((size_t)2 * TEXT_MAX);
    add_store(&store, m);
    membership_conf_state(m, &conf);
    wire_put_bytes(&metadata, 1, buf_str(&conf));
    wire_put_number(&metadata, 2, m->members.n);
    wire_put_number(&metadata, 3, 1); /* term */
    wire_put_bytes(&snapshot, 1, buf_str(&store));
    wire_put_bytes(&snapshot, 2, buf_str(&metadata));
    wire_put_number(out, 1, crc32c(0, snapshot.p, snapshot.n));
    wire_put_bytes(out, 2, buf_str(&snapshot));
}
