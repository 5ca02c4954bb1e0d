/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/mvcc.h"

#include "image.h"
#include "unit.h"

#define REV(main, sub) "\0\0\0\0\0\0\0" main "_\0\0\0\0\0\0\0" sub

static void revisions_decode(void **state)
{
    (void)state;
    static const struct {
        struct str key;
        int64_t main, sub;
        bool tombstone;
        const char *says; /* NULL: good */
    } rows[] = {
        {BYTES(REV("\2", "\0")), 2, 0, false, NULL},
        {BYTES(REV("\5", "\1") "t"), 5, 1, true, NULL},
        {BYTES(REV("\5", "\1") "x"), 0, 0, false, "tombstone mark 0x78"},
        {BYTES("\0\0\0\0\0\0\0\2x\0\0\0\0\0\0\0\0"), 0, 0, false, "separator 0x78"},
        {BYTES("\0\0\0\0\0\0\0\2"), 0, 0, false, "8 bytes"},
        {BYTES(REV("\0", "\0")), 0, 0, false, "impossible revision"},
        {BYTES("\x80\0\0\0\0\0\0\2_\0\0\0\0\0\0\0\0"), 0, 0, false, "impossible revision"},
        {BYTES("\0\0\0\0\0\0\0\2_\xff\0\0\0\0\0\0\0"), 0, 0, false, "impossible revision"},
        {{0}, 0, 0, false, "0 bytes"},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct mvcc_revision r = {0};
        const int rc = mvcc_revision_decode(rows[i].key, &r, &e);
        if (rows[i].says) {
            if (rc == 0 || e.code != ERR_CORRUPT || !strstr(e.text, rows[i].says))
                fail_msg("row %zu: %s", i, e.text);
        } else if (rc < 0 || r.main != rows[i].main || r.sub != rows[i].sub ||
                   r.tombstone != rows[i].tombstone) {
            fail_msg("row %zu: %s", i, e.text);
        }
    }
    uint8_t bumped[MVCC_PUT_KEY_BYTES]; /* a store at 312 raised by a million */
    mvcc_revision_encode(1000312, bumped);
    assert_memory_equal(bumped, "\0\0\0\0\0\x0f\x43\x78_\0\0\0\0\0\0\0\0", sizeof(bumped));
}

static void entries_are_checked_against_their_revision(void **state)
{
    (void)state;
    static const struct {
        int64_t main;
        bool tombstone;
        struct str value;
        const char *says;
        bool fatal; /* etcd cannot read it */
    } rows[] = {
        {2, false,
         BYTES("\x0a\1a\x10\2\x18\2\x20\1\x2a\1"
               "1"),
         NULL},
        {4, false, BYTES("\x0a\2lk\x10\4\x18\4\x20\1\x2a\6leased\x30\xe7\x8a\x8d\x09"), NULL},
        {5, true, BYTES("\x0a\2k2"), NULL},
        {9, false, BYTES(""), NULL}, /* left by a revision bump */
        {9, true, BYTES(""), "no key"},
        {3, false, BYTES("\x0a\1a\x10\2\x18\2\x20\1"), "mod_revision 2 under revision 3"},
        {2, false, BYTES("\x10\2\x18\2\x20\1"), "no key"},
        {2, false, BYTES("\x0a\1a\x10\3\x18\2\x20\1"), "create_revision 3"},
        {2, false, BYTES("\x0a\1a\x10\2\x18\2\x20\2"), "version 2 does not fit"},
        {4, false, BYTES("\x0a\1a\x10\2\x18\4\x20\1"), "version 1 does not fit"},
        {4, false, BYTES("\x0a\1a\x10\2\x18\4\x20\7"), "version 7 in 3 revisions"},
        {4, false, BYTES("\x0a\1a\x10\2\x18\4"), "version 0"},
        {2, false, BYTES("\x10\2\x0a\1a\x18\2\x20\1"), "out of order"},
        {2, false, BYTES("\x0a\1a\x10\2\x18\2\x20\1\x2a\0"), "though empty"},
        {2, false, BYTES("\x0a\1a\x10\2\x18\2\x20\1\x38\1"), "unknown field 7"},
        {2, false, BYTES("\x0a\1a\x10\x82\0\x18\2\x20\1"), "longer than needed"},
        {2, false, BYTES("\x0a\1a\x10\2\x18\2\x20\1\x2a\5x"), "not a key-value", true},
        {2, false, BYTES("\x0a\1a\x12\1x\x18\2\x20\1"), "not a key-value", true},
        {5, true, BYTES("\x0a\1a\x10\2"), "more than a key"},
        {5, true, BYTES("\x0a\7a"), "not a key-value", true},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        struct mvcc_kv kv;
        const struct mvcc_revision at = {rows[i].main, 0, rows[i].tombstone};
        const int rc = mvcc_entry_check(&at, rows[i].value, &kv, &e);
        const enum err_code want = rows[i].fatal ? ERR_CORRUPT : rows[i].says ? ERR_INVALID : 0;
        if ((rc == 0) != !rows[i].says || e.code != want ||
            (rows[i].says && !strstr(e.text, rows[i].says)))
            fail_msg("row %zu: %d \"%s\"", i, rc, e.text);
    }
}

static void the_lenient_decoder_skips_what_it_does_not_know(void **state)
{
    (void)state;
    struct err e = {0};
    struct mvcc_kv kv;
    assert_ok(mvcc_kv_decode(BYTES("\x0a\1a\x38\1\x10\2\x30\x0a"), &kv, &e));
    assert_true(str_eq(kv.key, STR("a")));
    assert_int_equal(kv.create_revision, 2);
    assert_int_equal(kv.lease, 10);
    assert_err(mvcc_kv_decode(BYTES("\x0a\5a"), &kv, &e), ERR_CORRUPT, "not a key-value");
    assert_err(mvcc_kv_decode(BYTES("\x08\1"), &kv, &e), ERR_CORRUPT, "not a key-value");
}

TEST_MAIN(TEST(revisions_decode), TEST(entries_are_checked_against_their_revision),
          TEST(the_lenient_decoder_skips_what_it_does_not_know))
