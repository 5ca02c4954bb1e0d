/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/proof.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/mem.h"
#include "scratch.h"
#include "unit.h"

enum { HEAD = 5000, END = 3 << 20, ALL = END + 70000, STEP = 333333 };

static char *snapshot, *db;
static struct ctx ctx;
static char bytes[ALL + SHA256_BYTES]; /* of the snapshot */

/* Random bytes and their hash, as a snapshot ends in it. */
static int set_up(void **state)
{
    uint64_t seed = 1;
    if (scratch_set_up(state) < 0)
        return -1;
    ctx = ctx_root(&clock_real, NULL);
    snapshot = xasprintf("%s/s.db", scratch_dir);
    db = xasprintf("%s/db", scratch_dir);
    for (size_t i = 0; i < ALL; i++)
        bytes[i] = (char)test_next(&seed);
    AUTO(sha256_free_auto) struct sha256 *sha = sha256_new();
    sha256_add(sha, (struct str){bytes, ALL});
    sha256_finish(sha, (unsigned char *)bytes + ALL);
    return 0;
}

static int tear_down(void **state)
{
    (void)unlink(snapshot);
    (void)unlink(db);
    free(snapshot);
    free(db);
    return scratch_tear_down(state);
}

/* One changed byte: where in the snapshot, or where in the database. */
struct change {
    bool of_db;
    long at; /* -1: none */
};

static void change_byte(const char *path, long at)
{
    char c = 0;
    auto_close int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, &c, 1, at), 1);
    c = (char)(c ^ 1);
    assert_int_equal(pwrite(fd, &c, 1, at), 1);
}

/* The head is another in the database, as the edit makes it; the rest arrives step by step. */
static int prove(const struct change *change, size_t copied, struct err *out)
{
    struct err e = {0};
    assert_ok(file_write_durable(snapshot, (struct str){bytes, sizeof(bytes)}, 0600, &e));
    auto_free char *made = xcalloc(1, END + 4096);
    assert_ok(file_write_durable(db, (struct str){made, END + 4096}, 0600, &e));
    if (change && !change->of_db && change->at >= 0)
        change_byte(snapshot, change->at);
    AUTO(dbfile_done) struct dbfile f = {.path = xstrdup(snapshot), .n = ALL, .has_hash = true};
    assert_ok(mapping_open(&f.map, snapshot, MAPPING_SHARED, &e));
    AUTO(arrival_done) struct arrival arrival;
    arrival_init(&arrival, HEAD, END);
    AUTO(proof_done) struct proof p = {0};
    proof_begin(&p, &ctx, &f);
    proof_add(&p, (struct str){(const char *)f.map.p, HEAD});
    assert_ok(proof_follow(&p, db, HEAD, END, &arrival, &e));
    auto_close int fd = open(db, O_WRONLY | O_CLOEXEC);
    for (size_t at = HEAD; at < copied; at += STEP) {
        const size_t n = END - at < STEP ? END - at : STEP;
        assert_int_equal(pwrite(fd, f.map.p + at, n, (off_t)at), n);
        if (change && change->of_db && change->at >= (long)at && change->at < (long)(at + n))
            change_byte(db, change->at);
        arrival_move(&arrival, at + n);
    }
    if (copied < END)
        return 0; /* nobody waits for it */
    return proof_end(&p, out);
}

static void the_same_bytes_are_proven(void **state)
{
    (void)state;
    struct err e = {0};
    assert_ok(prove(NULL, END, &e));
}

static void any_other_byte_is_found(void **state)
{
    (void)state;
    static const struct change rows[] = {
        {false, 0},   {false, HEAD - 1},   {false, HEAD},    {false, END - 1},
        {false, END}, {false, ALL},        {false, ALL - 1}, {false, ALL + 31},
        {true, HEAD}, {true, HEAD + STEP}, {true, END - 1},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct err e = {0};
        if (prove(&rows[i], END, &e) == 0 || e.code != ERR_CORRUPT ||
            !strstr(e.text, "s.db: SHA-256 of the content is"))
            fail_msg("%s %ld: \"%s\"", rows[i].of_db ? "database" : "snapshot", rows[i].at, e.text);
    }
}

static void one_whose_bytes_do_not_all_come_ends(void **state)
{
    (void)state;
    struct err e = {0};
    assert_ok(prove(NULL, HEAD + 3 * STEP, &e));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_same_bytes_are_proven),
        TEST(any_other_byte_is_found),
        TEST(one_whose_bytes_do_not_all_come_ends),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
