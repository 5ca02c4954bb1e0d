/* SPDX-License-Identifier: Apache-2.0
 * WAL segments and .snap files: reading ends, stays in bounds, and forgives only the last end. */
#include "base/crc32c.h"
#include "base/json.h"
#include "datadir/raft.h"
#include "datadir/snapfile.h"
#include "datadir/wal.h"
#include "datadir/wire.h"
#include "fuzz.h"

static size_t read_segment(struct str bytes, bool last, bool *torn)
{
    struct wal_cursor c = {.p = (const uint8_t *)bytes.p, .n = bytes.n, .last = last};
    struct wal_record r;
    struct err e = {0};
    size_t n = 0;
    int got = 0;
    while ((got = wal_next(&c, &r, &e)) > 0) {
        struct raft_entry entry;
        struct raft_hard_state state;
        struct raft_snapshot_point point;
        struct wal_metadata metadata;
        (void)raft_entry_decode(r.data, &entry);
        (void)raft_hard_state_decode(r.data, &state);
        (void)wal_snapshot_decode(r.data, &point);
        (void)wal_metadata_decode(r.data, &metadata);
        FUZZ_CHECK(c.at <= c.n);
        n++;
    }
    FUZZ_CHECK(got == 0 || e.code == ERR_CORRUPT);
    FUZZ_CHECK(last || !c.torn);
    *torn = c.torn;
    return n;
}

/* Records with right checksums over data of the fuzzer's choice. */
static void framed(struct str bytes)
{
    auto_buf struct buf log = BUF_INIT(1 << 20);
    uint32_t crc = 0;
    size_t records = 0;
    while (bytes.n > 1) {
        const size_t n = (unsigned char)bytes.p[0] % 64;
        const unsigned type = (unsigned char)bytes.p[1] % 5 + 1;
        const struct str data = str_first(str_from(bytes, 2), n);
        wal_add_record(&log, &crc, (enum wal_type)type, data);
        bytes = str_from(bytes, 2 + n);
        records++;
    }
    bool torn = false;
    FUZZ_CHECK(read_segment(buf_str(&log), false, &torn) == records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str bytes = {(const char *)data, size};
    bool torn = false;
    const size_t strict = read_segment(bytes, false, &torn);
    const size_t lenient = read_segment(bytes, true, &torn);
    FUZZ_CHECK(strict == lenient);
    framed(bytes);
    struct raft_snapshot s;
    struct err e = {0};
    FUZZ_CHECK(snapfile_decode(bytes, &s, &e) == 0 || e.code == ERR_CORRUPT ||
               e.code == ERR_INVALID);
    if (size > 0 && crc32c(0, data, size) != 0) {
        auto_buf struct buf snap = BUF_INIT(1 << 20);
        wire_put_number(&snap, 1, crc32c(0, data, size));
        wire_put_bytes(&snap, 2, bytes);
        FUZZ_CHECK(snapfile_decode(buf_str(&snap), &s, &e) == 0 || e.code == ERR_CORRUPT ||
                   e.code == ERR_INVALID);
    }
    return 0;
}
