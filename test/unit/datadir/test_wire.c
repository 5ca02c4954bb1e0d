/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/wire.h"

#include "image.h"
#include "unit.h"

static void fields_come_in_order(void **state)
{
    (void)state;
    struct wire w = wire_of(BYTES("\x08\xac\x02\x12\3abc\x19\1\0\0\0\0\0\0\0\x25\2\0\0\0"));
    struct wire_field f;
    assert_true(wire_next(&w, &f) && f.number == 1 && f.value == 300);
    assert_true(wire_next(&w, &f) && f.number == 2 && str_eq(f.bytes, STR("abc")));
    assert_true(wire_next(&w, &f) && f.number == 3 && f.value == 1);
    assert_true(wire_next(&w, &f) && f.number == 4 && f.value == 2);
    assert_false(wire_next(&w, &f));
    assert_false(w.bad || w.clumsy);
}

static void damage_is_noticed(void **state)
{
    (void)state;
    static const struct str rows[] = {
        BYTES("\x08"),                                         /* no value */
        BYTES("\x08\x80"),                                     /* cut varint */
        BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"), /* 65 bits */
        BYTES("\x12\5abc"),                                    /* longer than the message */
        BYTES("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), /* overflow of the length */
        BYTES("\x19\1\0\0"),                                   /* cut fixed */
        BYTES("\x0b"),                                         /* a group */
        BYTES("\x00\x01"),                                     /* field 0 */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (wire_is_message(rows[i]))
            fail_msg("row %zu is taken for a message", i);
    assert_true(wire_is_message((struct str){0}));
    struct wire w = wire_of(BYTES("\x08\x81\x00"));
    struct wire_field f;
    assert_true(wire_next(&w, &f) && f.value == 1 && w.clumsy);
}

static void what_is_written_reads_back(void **state)
{
    (void)state;
    static const uint64_t values[] = {0, 1, 127, 128, 300, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        auto_buf struct buf b = BUF_INIT(1000);
        struct wire_field f;
        wire_put_number(&b, 100, values[i]);
        wire_put_bytes(&b, 2000, STR("x"));
        struct wire w = wire_of(buf_str(&b));
        assert_true(wire_next(&w, &f) && f.number == 100 && f.value == values[i]);
        assert_true(wire_next(&w, &f) && f.number == 2000 && f.bytes.n == 1);
        assert_false(w.clumsy);
    }
}

TEST_MAIN(TEST(fields_come_in_order), TEST(damage_is_noticed), TEST(what_is_written_reads_back))
