/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/keyset.h"

#include <stdio.h>

#include "base/mem.h"
#include "unit.h"

struct newest {
    const uint64_t *last; /* number of each key's newest entry, counted from 1; 0: none or dead */
    uint64_t n_keys, found;
    const uint64_t *key_of; /* of an entry */
};

static int check_newest(void *arg, uint64_t number, unsigned flags, struct err *e)
{
    struct newest *n = arg;
    (void)flags;
    (void)e;
    assert_int_equal(n->last[n->key_of[number]], number + 1);
    n->found++;
    return 0;
}

/* Against a table of all keys; enough entries that partitions spill, with one very busy key. */
static void the_newest_entry_of_every_key_is_found(void **state)
{
    (void)state;
    enum { ENTRIES = 700000, KEYS = 200000 };
    struct err e = {0};
    uint64_t seed = 3, live = 0, marked = 0;
    uint64_t *key_of = xcalloc(ENTRIES, sizeof(*key_of)), *last = xcalloc(KEYS, sizeof(*last));
    char *flags_of = xcalloc(KEYS, 1);
    AUTO(keyset_free_auto) struct keyset *s = keyset_new("/tmp/x");
    for (uint64_t i = 0; i < ENTRIES; i++) {
        const uint64_t key = test_below(&seed, 3) == 0 ? 7 : test_below(&seed, KEYS);
        const bool dead = test_below(&seed, 5) == 0, mark = test_below(&seed, 10) == 0;
        char text[32];
        const int n = snprintf(text, sizeof(text), "/registry/k/%llu", (unsigned long long)key);
        const unsigned flags =
            (dead ? (unsigned)KEYSET_TOMBSTONE : 0U) | (mark ? (unsigned)KEYSET_MARK : 0U);
        assert_ok(keyset_add(s, (struct str){text, (size_t)n}, flags, &e));
        key_of[i] = key;
        last[key] = dead ? 0 : i + 1;
        flags_of[key] = mark;
    }
    for (uint64_t k = 0; k < KEYS; k++) {
        live += last[k] > 0;
        marked += last[k] > 0 && flags_of[k];
    }
    struct newest n = {.last = last, .key_of = key_of};
    const struct keyset_visitor v = {&n, check_newest};
    struct keyset_totals totals;
    assert_ok(keyset_resolve(s, &v, &totals, &e));
    assert_int_equal(totals.live, live);
    assert_int_equal(totals.marked, marked);
    assert_int_equal(n.found, live);
    free(key_of);
    free(last);
    free(flags_of);
}

static void an_empty_set_and_an_empty_key(void **state)
{
    (void)state;
    struct err e = {0};
    struct keyset_totals totals;
    AUTO(keyset_free_auto) struct keyset *none = keyset_new("/tmp/x"), *one = keyset_new("/tmp/x");
    assert_ok(keyset_resolve(none, NULL, &totals, &e));
    assert_int_equal(totals.live, 0);
    assert_ok(keyset_add(one, (struct str){0}, 0, &e));
    assert_ok(keyset_resolve(one, NULL, &totals, &e));
    assert_int_equal(totals.live, 1);
}

static int add_until_it_spills(const char *beside, struct err *e)
{
    AUTO(keyset_free_auto) struct keyset *s = keyset_new(beside);
    int rc = 0;
    for (uint64_t i = 0; i < 1000000 && rc == 0; i++)
        rc = keyset_add(s, (struct str){(const char *)&i, sizeof(i)}, 0, e);
    return rc;
}

static void without_a_temporary_folder_the_folder_of_the_file_will_do(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(setenv("TMPDIR", "/no/such/place", 1), 0);
    assert_ok(add_until_it_spills("/tmp/s.db", &e));
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

static void no_room_for_the_temporary_file_is_an_error(void **state)
{
    (void)state;
    struct err e = {0};
    assert_int_equal(setenv("TMPDIR", "/no/such/place", 1), 0);
    assert_err(add_until_it_spills("/nor/here/s.db", &e), ERR_NOT_FOUND, "/no/such/place");
    assert_non_null(strstr(e.text, "in /nor/here"));
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

TEST_MAIN(TEST(the_newest_entry_of_every_key_is_found), TEST(an_empty_set_and_an_empty_key),
          TEST(without_a_temporary_folder_the_folder_of_the_file_will_do),
          TEST(no_room_for_the_temporary_file_is_an_error))
