/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/wal.h"

#include <endian.h>

#include "base/crc32c.h"
#include "base/sha256.h"
#include "datadir/membership.h"
#include "datadir/snapfile.h"
#include "datadir/wire.h"
#include "image.h"
#include "unit.h"

static struct membership three(void)
{
    struct err e = {0};
    struct membership m = {0};
    assert_ok(membership_parse(
        "n1", "n1=http://127.0.0.1:27801,n2=http://127.0.0.1:27802,n3=http://127.0.0.1:27803",
        "tok3", "http://127.0.0.1:27801", &m, &e));
    return m;
}

static struct buf three_log(void)
{
    struct buf b = BUF_INIT(1 << 20);
    AUTO(membership_done) struct membership m = three();
    wal_build(&m, &b);
    return b;
}

static void a_restored_log_is_byte_for_byte_etcds(void **state)
{
    (void)state;
    auto_buf struct buf b = three_log();
    assert_int_equal(b.n, 536);
    AUTO(sha256_free_auto) struct sha256 *h = sha256_new();
    unsigned char sum[SHA256_BYTES];
    char text[SHA256_HEX_MAX];
    sha256_add(h, buf_str(&b));
    sha256_finish(h, sum);
    assert_string_equal(sha256_print(sum, text),
                        "6f8fb59703d87b80fab1d9c5483a5a2d0bd9b8c1c6f5a774f37bf8e1cf8eae2b");
}

static void the_snap_file_holds_what_it_says(void **state)
{
    (void)state;
    struct err e = {0};
    AUTO(membership_done) struct membership m = three();
    auto_buf struct buf b = BUF_INIT(1 << 20);
    struct raft_snapshot s;
    snapfile_build(&m, &b);
    assert_ok(snapfile_decode(buf_str(&b), &s, &e));
    assert_true(s.at.index == 3 && s.at.term == 1 && s.voters == 3);
    assert_true(str_starts(s.data, STR("{\"Root\":{\"Path\":\"/\"")));
    const struct str metadata =
        BYTES("\x12\x27\x0a\x21\x08\xc0\x91\x91\xb4\x84\x96\xbc\xa3\x03\x08\xa2\xfa\xf5\xdb\xb3\x95"
              "\xe9\xa1\x58\x08\x97\xf9\xa8\xc5\xf4\xca\x86\xb2\x88\x01\x28\x00\x10\x03\x18\x01");
    assert_true(str_ends(buf_str(&b), metadata));
    for (size_t i = 0; i < b.n; i++) {
        b.p[i] ^= 0x20;
        struct raft_snapshot damaged;
        assert_int_equal(snapfile_decode(buf_str(&b), &damaged, &e), -1);
        b.p[i] ^= 0x20;
    }
    struct raft_snapshot_point at = {0};
    char name[SNAPFILE_NAME_BYTES];
    snapfile_name((struct raft_snapshot_point){.index = 0x12345, .term = 7}, name);
    assert_string_equal(name, "0000000000000007-0000000000012345.snap");
    assert_true(snapfile_name_parse(name, &at) && at.index == 0x12345 && at.term == 7);
    assert_false(snapfile_name_parse("0000000000000007-000000000001234G.snap", &at));
    assert_false(snapfile_name_parse("db", &at));
}

static size_t count_records(struct wal_cursor *c, struct err *e)
{
    struct wal_record r;
    size_t n = 0;
    int got = 0;
    while ((got = wal_next(c, &r, e)) > 0)
        n++;
    return got < 0 ? SIZE_MAX : n;
}

static void records_read_back(void **state)
{
    (void)state;
    struct err e = {0};
    auto_buf struct buf b = three_log();
    struct wal_cursor c = {.p = (const uint8_t *)b.p, .n = b.n, .last = true};
    static const uint32_t chain[] = {0,          0xa0ea04f0, 0xbb3ad7db, 0x560ad9e2,
                                     0x956e2003, 0x83f4a48b, 0x69668fbd, 0x5d73fdaa};
    static const enum wal_type types[] = {WAL_CRC,   WAL_METADATA, WAL_SNAPSHOT, WAL_ENTRY,
                                          WAL_ENTRY, WAL_ENTRY,    WAL_STATE,    WAL_SNAPSHOT};
    struct wal_record r;
    for (size_t i = 0; i < COUNT_OF(chain); i++) {
        assert_int_equal(wal_next(&c, &r, &e), 1);
        assert_int_equal(c.crc, chain[i]);
        assert_int_equal(r.type, types[i]);
    }
    assert_int_equal(wal_next(&c, &r, &e), 0);
    assert_false(c.torn);
    static const char padded[1024]; /* preallocated space ends a segment too */
    buf_add(&b, padded, sizeof(padded));
    c = (struct wal_cursor){.p = (const uint8_t *)b.p, .n = b.n};
    assert_int_equal(count_records(&c, &e), COUNT_OF(chain));
}

/* What etcd forgives and what it does not. */
static void torn_ends(void **state)
{
    (void)state;
    struct err e = {0};
    auto_buf struct buf b = three_log();
    const size_t whole = b.n;
    for (size_t n = 17; n < whole; n++) { /* cut anywhere: fewer records, never an error */
        struct wal_cursor c = {.p = (const uint8_t *)b.p, .n = n, .last = true};
        assert_true(count_records(&c, &e) < 8);
        struct wal_cursor inner = {.p = (const uint8_t *)b.p, .n = n};
        const size_t records = count_records(&inner, &e);
        assert_true(records == SIZE_MAX || (records < 8 && inner.at == n));
    }
    /* A flipped byte in the data is no torn write... */
    b.p[100] ^= 1;
    struct wal_cursor c = {.p = (const uint8_t *)b.p, .n = b.n, .last = true};
    assert_int_equal(count_records(&c, &e), SIZE_MAX);
    assert_true(e.code == ERR_CORRUPT && strstr(e.text, "offset"));
    b.p[100] ^= 1;
    /* ...but a sector of zeros is: the last record lies across byte 512. */
    memset(b.p + 512, 0, whole - 512);
    c = (struct wal_cursor){.p = (const uint8_t *)b.p, .n = b.n, .last = true};
    assert_int_equal(count_records(&c, &e), 7);
    assert_true(c.torn);
    c = (struct wal_cursor){.p = (const uint8_t *)b.p, .n = b.n};
    assert_int_equal(count_records(&c, &e), SIZE_MAX); /* not in an earlier segment */
}

static void a_record_of_an_impossible_length_is_no_allocation(void **state)
{
    (void)state;
    struct err e = {0};
    uint8_t bytes[64];
    memset(bytes, 0xff, sizeof(bytes));
    struct wal_record r;
    struct wal_cursor c = {.p = bytes, .n = sizeof(bytes)};
    assert_err(wal_next(&c, &r, &e), ERR_CORRUPT, "longer than the file");
    c = (struct wal_cursor){.p = bytes, .n = 5};
    assert_err(wal_next(&c, &r, &e), ERR_CORRUPT, "ends in a frame");
}

/* A log of these entries and snapshot marks, in this order. */
struct step {
    enum wal_type type; /* 0: no more */
    uint64_t index;
};

static void add_step(struct buf *log, uint32_t *crc, const struct step *s)
{
    auto_buf struct buf data = BUF_INIT(256);
    const bool entry = s->type == WAL_ENTRY;
    wire_put_number(&data, entry ? 2 : 1, entry ? 7 : s->index);
    wire_put_number(&data, entry ? 3 : 2, entry ? s->index : 7);
    wal_add_record(log, crc, s->type, buf_str(&data));
}

static int summarize(const struct step *steps, struct wal_summary *out, struct err *e)
{
    auto_buf struct buf log = BUF_INIT(1 << 20);
    uint32_t crc = 0;
    for (; steps->type != 0; steps++)
        add_step(&log, &crc, steps);
    struct wal_cursor c = {.p = (const uint8_t *)log.p, .n = log.n};
    struct wal_record r;
    int got = 0;
    while ((got = wal_next(&c, &r, e)) > 0)
        if (wal_summary_add(out, &r, e) < 0)
            return -1;
    return got;
}

static void entries_follow_each_other_or_a_snapshot(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct step steps[6];
        const char *says; /* NULL: sound */
        uint64_t first, last;
    } rows[] = {
        {"in order", {{WAL_ENTRY, 4}, {WAL_ENTRY, 5}}, NULL, 4, 5},
        {"overwritten", {{WAL_ENTRY, 4}, {WAL_ENTRY, 5}, {WAL_ENTRY, 4}}, NULL, 4, 4},
        {"a gap", {{WAL_ENTRY, 4}, {WAL_ENTRY, 6}}, "entry 6 follows 4", 0, 0},
        {"our own snapshot", {{WAL_ENTRY, 4}, {WAL_SNAPSHOT, 4}, {WAL_ENTRY, 5}}, NULL, 4, 5},
        {"a received one", {{WAL_ENTRY, 4}, {WAL_SNAPSHOT, 9}, {WAL_ENTRY, 10}}, NULL, 10, 10},
        {"and nothing yet", {{WAL_ENTRY, 4}, {WAL_SNAPSHOT, 9}}, NULL, 0, 9},
        {"a gap behind it", {{WAL_SNAPSHOT, 9}, {WAL_ENTRY, 11}}, "entry 11 follows 9", 0, 0},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        AUTO(wal_summary_done) struct wal_summary s = {0};
        const bool sound = summarize(rows[i].steps, &s, &e) == 0;
        if (sound != !rows[i].says || (!sound && !strstr(e.text, rows[i].says)))
            fail_msg("%s: \"%s\"", rows[i].name, e.text);
        if (sound && (s.first_index != rows[i].first || s.last_index != rows[i].last))
            fail_msg("%s: from %d to %d", rows[i].name, (int)s.first_index, (int)s.last_index);
    }
}

/* Its checksum is right, so it was written like this: no torn end, not even of the last one. */
static void a_record_of_an_unknown_type_is_damage(void **state)
{
    (void)state;
    static const uint64_t types[] = {0, 6, UINT64_C(1) << 32 | WAL_ENTRY};
    static const char zeros[1024];
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct err e = {0};
        auto_buf struct buf record = BUF_INIT(4096), log = BUF_INIT(4096);
        wire_put_number(&record, 1, types[i]);
        wire_put_number(&record, 2, crc32c(0, zeros, sizeof(zeros)));
        wire_put_bytes(&record, 3, (struct str){zeros, sizeof(zeros)});
        const uint64_t pad = (8 - record.n % 8) % 8;
        const uint64_t frame = htole64(record.n | (pad > 0 ? (0x80 | pad) << 56 : 0));
        buf_add(&log, &frame, sizeof(frame));
        buf_add_str(&log, buf_str(&record));
        buf_add(&log, zeros, pad);
        struct wal_cursor c = {.p = (const uint8_t *)log.p, .n = log.n, .last = true};
        struct wal_record r;
        assert_err(wal_next(&c, &r, &e), ERR_CORRUPT, "unknown type");
    }
}

TEST_MAIN(TEST(a_restored_log_is_byte_for_byte_etcds), TEST(the_snap_file_holds_what_it_says),
          TEST(records_read_back), TEST(torn_ends),
          TEST(a_record_of_an_impossible_length_is_no_allocation),
          TEST(entries_follow_each_other_or_a_snapshot),
          TEST(a_record_of_an_unknown_type_is_damage))
