/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/message.h"

#include "unit.h"

static void what_was_packed_unpacks_equal(void **state)
{
    (void)state;
    struct err e = {0};
    Pb__Header header = PB__HEADER__INIT;
    header.cluster_id = UINT64_MAX;
    header.revision = -5;
    Pb__KeyValue kv = PB__KEY_VALUE__INIT;
    kv.key = bytes_of_str(STR("a\0b"));
    kv.mod_revision = INT64_MAX;
    Pb__KeyValue *kvs[] = {&kv, &kv};
    Pb__RangeResponse m = PB__RANGE_RESPONSE__INIT;
    m.header = &header;
    m.kvs = kvs;
    m.n_kvs = 2;
    auto_buf struct buf bytes = BUF_INIT(1 << 16);
    assert_ok(message_pack(&m, &bytes, &e));
    assert_true(message_cluster_id(buf_str(&bytes)) == UINT64_MAX);

    AUTO(arena_free_auto) struct arena *own = NULL;
    void *out = NULL;
    assert_ok(message_unpack(&pb__range_response__descriptor, buf_str(&bytes), &own, &out, &e));
    const Pb__RangeResponse *r = out;
    assert_int_equal(r->n_kvs, 2);
    assert_true(str_eq(str_of_bytes(r->kvs[1]->key), STR("a\0b")));
    assert_true(r->kvs[1]->mod_revision == INT64_MAX);
    assert_int_equal(r->header->revision, -5);
}

static void a_zero_in_a_comparison_is_still_sent(void **state)
{
    (void)state;
    struct err e = {0};
    Pb__Compare m = PB__COMPARE__INIT;
    m.against_case = PB__COMPARE__AGAINST_VERSION;
    auto_buf struct buf bytes = BUF_INIT(100);
    assert_ok(message_pack(&m, &bytes, &e));
    assert_true(str_eq(buf_str(&bytes), STR("\x20\x00"))); /* field 4, varint 0 */
}

static void bytes_that_are_no_message_are_corrupt(void **state)
{
    (void)state;
    struct err e;
    struct arena *own = NULL;
    void *out = NULL;
    static const struct str bad[] = {STR("\xff"), STR("\x0a\x05x"), STR("\x12\xff\xff\xff\xff\x0f"),
                                     STR("\x0a\x02\x08\xff")};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_err(message_unpack(&pb__range_response__descriptor, bad[i], &own, &out, &e),
                   ERR_CORRUPT, "RangeResponse");
    assert_null(own);
}

static void a_small_message_cannot_ask_for_a_large_arena(void **state)
{
    (void)state;
    struct err e;
    auto_buf struct buf bytes = BUF_INIT(1 << 20);
    for (int i = 0; i < 100000; i++)
        buf_add_str(&bytes, STR("\x5a\x00")); /* an empty event: 2 bytes, 100 and more unpacked */
    struct arena *own = NULL;
    void *out = NULL;
    if (message_unpack(&pb__watch_response__descriptor, buf_str(&bytes), &own, &out, &e) < 0)
        assert_int_equal(e.code, ERR_TOO_BIG);
    arena_free(own, true);
}

static void a_large_message_cannot_ask_for_more_than_there_is(void **state)
{
    (void)state;
    struct err e = {0};
    enum { KVS = 3 << 20 }; /* 96 bytes each */
    auto_buf struct buf bytes = BUF_INIT(2 * KVS);
    char *room = buf_reserve(&bytes, 2 * KVS);
    for (size_t i = 0; i < KVS; i++)
        memcpy(room + 2 * i, "\x12\x00", 2);
    buf_wrote(&bytes, 2 * KVS);
    struct arena *own = NULL;
    void *out = NULL;
    assert_err(message_unpack(&pb__range_response__descriptor, buf_str(&bytes), &own, &out, &e),
               ERR_TOO_BIG, "unpacks to too much");
}

static void the_cluster_id_is_read_only_where_it_belongs(void **state)
{
    (void)state;
    assert_true(message_cluster_id((struct str){0}) == 0);
    assert_true(message_cluster_id(STR("\x0a\x02\x08\x07")) == 7);
    assert_true(message_cluster_id(STR("\x0a\x02\x10\x07")) == 0);         /* member_id */
    assert_true(message_cluster_id(STR("\x0a\x04\x10\x07\x08\x09")) == 9); /* behind it */
    /* Behind a string, a number, a double, a float and an empty header. */
    assert_true(message_cluster_id(STR("\x12\x01x\x18\x05\x21"
                                       "12345678\x2d"
                                       "1234\x0a\x00\x0a\x02\x08\x07")) == 7);
    assert_true(message_cluster_id(STR("\x13\x0a\x02\x08\x07")) == 0); /* a group: not ours */
    assert_true(message_cluster_id(STR("\x12\x02\x08\x07")) == 0);     /* not the header */
    assert_true(message_cluster_id(STR("\x0a\x01\x08\x07")) == 0);     /* past the header's end */
    assert_true(message_cluster_id(STR("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x08")) == 0);
}

TEST_MAIN(TEST(what_was_packed_unpacks_equal), TEST(a_zero_in_a_comparison_is_still_sent),
          TEST(bytes_that_are_no_message_are_corrupt),
          TEST(a_small_message_cannot_ask_for_a_large_arena),
          TEST(a_large_message_cannot_ask_for_more_than_there_is),
          TEST(the_cluster_id_is_read_only_where_it_belongs))
