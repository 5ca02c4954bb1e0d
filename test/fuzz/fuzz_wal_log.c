/* SPDX-License-Identifier: Apache-2.0
 * A log of several segments, as a directory holds them, under one running checksum: what its
 * records say together. The fuzzer chooses records, where segments end, and where the last is
 * cut. */
#include "datadir/wal.h"
#include "datadir/wire.h"
#include "fuzz.h"

enum { SEGMENTS_MAX = 4, LOG_MAX = 64 * 1024 };

struct log {
    struct buf segments[SEGMENTS_MAX];
    size_t n;
    uint32_t crc;
};

static void begin_segment(struct log *l)
{
    if (l->n == SEGMENTS_MAX)
        return;
    l->segments[l->n] = BUF_INIT(LOG_MAX);
    wal_add_record(&l->segments[l->n++], &l->crc, WAL_CRC, (struct str){0});
}

/* An entry, a mark or a state with these numbers; or any record of any bytes. */
static void add(struct log *l, unsigned kind, uint64_t a, uint64_t b, struct str raw)
{
    auto_buf struct buf data = BUF_INIT(256);
    struct buf *into = &l->segments[l->n - 1];
    wire_put_number(&data, 1, kind == WAL_SNAPSHOT ? a : b % 3);
    wire_put_number(&data, 2, b);
    if (kind != WAL_SNAPSHOT)
        wire_put_number(&data, 3, a);
    if (into->n > LOG_MAX / 2)
        return;
    if (kind == WAL_ENTRY || kind == WAL_STATE || kind == WAL_SNAPSHOT)
        wal_add_record(into, &l->crc, (enum wal_type)kind, buf_str(&data));
    else if (kind % 2 == 0)
        begin_segment(l);
    else
        wal_add_record(into, &l->crc, (enum wal_type)(a % WAL_SNAPSHOT + 1), raw);
}

static int read_segment(struct str bytes, struct wal_cursor *c, struct wal_summary *s,
                        struct err *e)
{
    struct wal_record r;
    int got = 0;
    c->p = (const uint8_t *)bytes.p;
    c->n = bytes.n;
    c->at = 0;
    while ((got = wal_next(c, &r, e)) > 0)
        if (wal_summary_add(s, &r, e) < 0)
            return -1;
    return got;
}

static void read_log(const struct log *l, size_t cut)
{
    struct err e = {0};
    struct wal_summary s = {0};
    struct wal_cursor c = {0};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < l->n; i++) {
        c.last = i + 1 == l->n;
        rc = read_segment(str_first(buf_str(&l->segments[i]), c.last ? cut : SIZE_MAX), &c, &s, &e);
        FUZZ_CHECK(c.last || !c.torn);
    }
    FUZZ_CHECK(rc == 0 || e.code == ERR_CORRUPT);
    FUZZ_CHECK(s.snapshots.n <= 64);
    FUZZ_CHECK(s.first_index <= s.last_index);
    wal_summary_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct log l = {0};
    begin_segment(&l);
    for (size_t i = 0; i + 3 <= size; i += 3) {
        const struct str raw =
            str_first(str_from((struct str){(const char *)data, size}, i + 3), data[i + 2] % 32);
        add(&l, data[i] % 8, data[i + 1], data[i + 2], raw);
    }
    read_log(&l, SIZE_MAX);
    if (size > 0)
        read_log(&l, l.segments[l.n - 1].n * data[size - 1] / 256);
    for (size_t i = 0; i < l.n; i++)
        buf_done(&l.segments[i]);
    return 0;
}
