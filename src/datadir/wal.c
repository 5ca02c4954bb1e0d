/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/wal.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mapping.h"
#include "base/mem.h"
#include "datadir/membership.h"
#include "datadir/wire.h"

enum { FRAME_BYTES = 8, SECTOR_BYTES = 512, SNAPSHOTS_MAX = 64, RECORD_MAX = 2 * 1024 * 1024 };

/* --- Reading ------------------------------------------------------------------------------ */

static bool is_zero(const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i] != 0)
            return false;
    return true;
}

/* A sector of the record that is all zero was never written: the power went in the middle. */
static bool is_torn(const struct wal_cursor *c, uint64_t begin, uint64_t n)
{
    if (!c->last)
        return false;
    for (uint64_t at = begin; at < begin + n;) {
        const uint64_t to_sector = SECTOR_BYTES - at % SECTOR_BYTES;
        const uint64_t left = begin + n - at, part = left < to_sector ? left : to_sector;
        if (is_zero(c->p + at, part))
            return true;
        at += part;
    }
    return false;
}

/* The end of the data, forgiven or not. */
static int damaged(struct wal_cursor *c, bool forgiven, const char *what, struct err *e)
{
    if (forgiven) {
        c->torn = true;
        return 0;
    }
    return err_set(e, ERR_CORRUPT, 0, "offset %" PRIu64 ": %s", c->at, what);
}

/* A record as it is stored: its type may be one that nobody knows. */
struct stored {
    uint64_t type;
    uint32_t crc;
    struct str data;
};

static bool decode_record(struct str bytes, struct stored *out)
{
    struct wire w = wire_of(bytes);
    struct wire_field f;
    while (wire_next(&w, &f)) {
        if (f.number <= 2 && f.type != WIRE_VARINT)
            return false;
        if (f.number == 1)
            out->type = f.value;
        else if (f.number == 2)
            out->crc = (uint32_t)f.value;
        else if (f.number == 3 && f.type == WIRE_BYTES)
            out->data = f.bytes;
    }
    return !w.bad;
}

int wal_next(struct wal_cursor *c, struct wal_record *out, struct err *e)
{
    if (c->n - c->at == 0)
        return 0;
    if (c->n - c->at < FRAME_BYTES)
        return damaged(c, c->last, "the file ends in a frame", e);
    uint64_t frame;
    memcpy(&frame, c->p + c->at, sizeof(frame));
    frame = le64toh(frame);
    if (frame == 0)
        return 0; /* preallocated, not yet written */
    const uint64_t n = frame & UINT64_C(0x00FFFFFFFFFFFFFF);
    const uint64_t pad = frame >> 63 ? frame >> 56 & 7 : 0;
    const uint64_t begin = c->at + FRAME_BYTES;
    if (n > c->n || n + pad > c->n - begin)
        return damaged(c, c->last, "a record longer than the file", e);

    struct stored r = {0};
    if (!decode_record((struct str){(const char *)c->p + begin, n}, &r))
        return damaged(c, is_torn(c, begin, n + pad), "a record that does not decode", e);
    if (r.type == WAL_CRC) {
        if (c->crc != 0 && r.crc != c->crc)
            return damaged(c, false, "a checksum record that does not fit what came before", e);
    } else if (crc32c(c->crc, r.data.p, r.data.n) != r.crc) {
        return damaged(c, is_torn(c, begin, n + pad), "the checksum does not match", e);
    }
    if (r.type < WAL_METADATA || r.type > WAL_SNAPSHOT)
        return damaged(c, false, "a record of an unknown type", e); /* written so, not torn */
    *out = (struct wal_record){(enum wal_type)r.type, r.data, c->at};
    c->crc = r.crc;
    c->at = begin + n + pad;
    return 1;
}

/* --- A directory -------------------------------------------------------------------------- */

struct segment {
    char *name;
    uint64_t seq, index;
};
struct segments {
    VEC(struct segment) list;
};

static void segments_done(struct segments *s)
{
    for (size_t i = 0; i < s->list.n; i++)
        free(s->list.v[i].name);
    vec_done(&s->list);
}

static bool hex16(const char *p, uint64_t *out)
{
    uint64_t v = 0;
    for (int i = 0; i < 16; i++) {
        const char c = p[i];
        if (!ascii_is_digit(c) && (c < 'a' || c > 'f'))
            return false;
        v = v << 4 | (uint64_t)(ascii_is_digit(c) ? c - '0' : c - 'a' + 10);
    }
    *out = v;
    return true;
}

static int by_seq(const void *a, const void *b)
{
    const uint64_t x = ((const struct segment *)a)->seq, y = ((const struct segment *)b)->seq;
    return (x > y) - (x < y);
}

static int list_segments(const char *dir, struct segments *out, struct err *e)
{
    DIR *d = opendir(dir);
    if (!d)
        return err_set_errno(e, errno, "open %s", dir);
    for (const struct dirent *entry = NULL; (entry = readdir(d));) {
        struct segment s = {0};
        const char *n = entry->d_name;
        if (strlen(n) == WAL_NAME_BYTES - 1 && n[16] == '-' && strcmp(n + 33, ".wal") == 0 &&
            hex16(n, &s.seq) && hex16(n + 17, &s.index)) {
            s.name = xstrdup(n);
            vec_push(&out->list, s);
        }
    }
    (void)closedir(d);
    if (out->list.n == 0)
        return err_set(e, ERR_NOT_FOUND, 0, "%s: no *.wal file", dir);
    qsort(out->list.v, out->list.n, sizeof(*out->list.v), by_seq);
    for (size_t i = 1; i < out->list.n; i++)
        if (out->list.v[i].seq != out->list.v[i - 1].seq + 1)
            return err_set(e, ERR_CORRUPT, 0, "%s: the segment before %s is missing", dir,
                           out->list.v[i].name);
    return 0;
}

static int take_entry(struct wal_summary *s, struct str data, struct err *e)
{
    struct raft_entry entry;
    if (!raft_entry_decode(data, &entry))
        return err_set(e, ERR_CORRUPT, 0, "an entry that does not decode");
    /* A smaller index overwrites uncommitted entries; a gap cannot be. */
    if (s->last_index > 0 && entry.index > s->last_index + 1)
        return err_set(e, ERR_CORRUPT, 0, "entry %" PRIu64 " follows %" PRIu64, entry.index,
                       s->last_index);
    if (s->first_index == 0 || entry.index < s->first_index)
        s->first_index = entry.index;
    s->last_index = entry.index;
    s->last_term = entry.term;
    if (entry.type == RAFT_CONF_CHANGE || entry.type == RAFT_CONF_CHANGE_V2)
        s->last_conf_change = entry.index;
    return 0;
}

/* Behind a snapshot that the leader sent, the log goes on after it: what lies between was never
 * an entry here, and entries before it do not count any more. */
static int take_snapshot(struct wal_summary *s, struct str data, struct err *e)
{
    struct raft_snapshot_point point;
    if (!wal_snapshot_decode(data, &point))
        return err_set(e, ERR_CORRUPT, 0, "a snapshot mark that does not decode");
    if (s->snapshots.n == SNAPSHOTS_MAX)
        memmove(s->snapshots.v, s->snapshots.v + 1, --s->snapshots.n * sizeof(*s->snapshots.v));
    vec_push(&s->snapshots, point);
    if (point.index > s->last_index) {
        s->first_index = 0;
        s->last_index = point.index;
        s->last_term = point.term;
    }
    return 0;
}

int wal_summary_add(struct wal_summary *s, const struct wal_record *r, struct err *e)
{
    struct wal_metadata metadata;
    s->records++;
    switch (r->type) {
    case WAL_METADATA:
        if (!wal_metadata_decode(r->data, &metadata))
            return err_set(e, ERR_CORRUPT, 0, "metadata that does not decode");
        if (s->has_metadata && memcmp(&metadata, &s->metadata, sizeof(metadata)) != 0)
            return err_set(e, ERR_CORRUPT, 0, "metadata of another member or cluster");
        s->metadata = metadata;
        s->has_metadata = true;
        return 0;
    case WAL_ENTRY:
        return take_entry(s, r->data, e);
    case WAL_STATE:
        return raft_hard_state_decode(r->data, &s->state)
                   ? 0
                   : err_set(e, ERR_CORRUPT, 0, "a state that does not decode");
    case WAL_SNAPSHOT:
        return take_snapshot(s, r->data, e);
    case WAL_CRC:
        break;
    }
    return 0;
}

static int read_records(const struct mapping *map, struct wal_cursor *c, struct wal_summary *out,
                        struct err *e)
{
    struct mapping_window window = mapping_window_of(map);
    for (;;) {
        struct wal_record r = {0};
        mapping_reach(&window, c->at);
        const int got = wal_next(c, &r, e);
        if (got <= 0)
            return got;
        if (wal_summary_add(out, &r, e) < 0)
            return err_wrap(e, "offset %" PRIu64, r.offset);
    }
}

static int read_segment(const char *path, struct wal_cursor *c, struct wal_summary *out,
                        struct err *e)
{
    AUTO(mapping_done) struct mapping map = {.fd = -1};
    if (mapping_open(&map, path, MAPPING_SHARED, e) < 0)
        return -1;
    c->p = map.p;
    c->n = map.n;
    c->at = 0;
    out->bytes += map.n;
    const int rc = read_records(&map, c, out, e);
    return mapping_check(&map, e) < 0 || rc < 0 ? err_wrap(e, "%s", path) : 0;
}

int wal_read(const char *dir, struct wal_summary *out, struct err *e)
{
    *out = (struct wal_summary){0};
    AUTO(segments_done) struct segments list = {0};
    if (list_segments(dir, &list, e) < 0)
        return -1;
    struct wal_cursor c = {0};
    for (size_t i = 0; i < list.list.n; i++) {
        auto_free char *path = xasprintf("%s/%s", dir, list.list.v[i].name);
        c.last = i + 1 == list.list.n;
        if (read_segment(path, &c, out, e) < 0)
            return -1;
        out->segments++;
    }
    out->torn = c.torn;
    return 0;
}

void wal_summary_done(struct wal_summary *s)
{
    vec_done(&s->snapshots);
}

/* --- Writing ------------------------------------------------------------------------------ */

void wal_add_record(struct buf *out, uint32_t *crc, enum wal_type type, struct str data)
{
    auto_buf struct buf record = BUF_INIT(RECORD_MAX);
    if (type != WAL_CRC)
        *crc = crc32c(*crc, data.p, data.n);
    wire_put_number(&record, 1, type);
    wire_put_number(&record, 2, *crc);
    if (type != WAL_CRC)
        wire_put_bytes(&record, 3, data);
    const uint64_t pad = (8 - record.n % 8) % 8;
    const uint64_t frame = htole64(record.n | (pad > 0 ? (0x80 | pad) << 56 : 0));
    buf_add(out, &frame, sizeof(frame));
    buf_add_str(out, buf_str(&record));
    buf_add(out, (const char[8]){0}, pad);
}

static void add_member_entry(struct buf *out, uint32_t *crc, const struct planned_member *m,
                             uint64_t index)
{
    auto_buf struct buf context = BUF_INIT(RECORD_MAX), change = BUF_INIT(RECORD_MAX),
                        entry = BUF_INIT(RECORD_MAX);
    member_json(m, &context);
    wire_put_number(&change, 1, 0); /* id */
    wire_put_number(&change, 2, 0); /* add a voter */
    wire_put_number(&change, 3, m->id);
    wire_put_bytes(&change, 4, buf_str(&context));
    wire_put_number(&entry, 1, 1); /* a membership change */
    wire_put_number(&entry, 2, 1); /* term */
    wire_put_number(&entry, 3, index);
    wire_put_bytes(&entry, 4, buf_str(&change));
    wal_add_record(out, crc, WAL_ENTRY, buf_str(&entry));
}

static void add_snapshot(struct buf *out, uint32_t *crc, uint64_t index, uint64_t term,
                         const struct membership *m)
{
    auto_buf struct buf conf = BUF_INIT(RECORD_MAX), mark = BUF_INIT(RECORD_MAX);
    wire_put_number(&mark, 1, index);
    wire_put_number(&mark, 2, term);
    if (m) {
        membership_conf_state(m, &conf);
        wire_put_bytes(&mark, 3, buf_str(&conf));
    }
    wal_add_record(out, crc, WAL_SNAPSHOT, buf_str(&mark));
}

void wal_build(const struct membership *m, struct buf *out)
{
    const struct planned_member *members = m->members.v;
    const uint64_t n = m->members.n;
    uint32_t crc = 0;
    auto_buf struct buf metadata = BUF_INIT(RECORD_MAX), state = BUF_INIT(RECORD_MAX);
    wire_put_number(&metadata, 1, members[m->local].id);
    wire_put_number(&metadata, 2, m->cluster_id);
    wire_put_number(&state, 1, 1); /* term */
    wire_put_number(&state, 2, members[0].id);
    wire_put_number(&state, 3, n); /* commit */

    wal_add_record(out, &crc, WAL_CRC, (struct str){0});
    wal_add_record(out, &crc, WAL_METADATA, buf_str(&metadata));
    add_snapshot(out, &crc, 0, 0, NULL);
    for (uint64_t i = 0; i < n; i++)
        add_member_entry(out, &crc, &members[i], i + 1);
    wal_add_record(out, &crc, WAL_STATE, buf_str(&state));
    add_snapshot(out, &crc, n, 1, m);
}
