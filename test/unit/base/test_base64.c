/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include "base/buf.h"
#include "unit.h"

static void known_pairs_go_both_ways(void **state)
{
    (void)state;
    static const char *const rows[][2] = {/* RFC 4648, section 10 */
                                          {"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_buf struct buf text = BUF_INIT(100), bytes = BUF_INIT(100);
        assert_true(base64_encode(&text, str_c(rows[i][0])));
        assert_string_equal(buf_cstr(&text), rows[i][1]);
        assert_true(base64_decode(&bytes, str_c(rows[i][1])));
        assert_string_equal(buf_cstr(&bytes), rows[i][0]);
    }
}

static void what_is_no_base64_is_refused(void **state)
{
    (void)state;
    static const char *const rows[] = {"Z",    "Zg",    "Zg=",      "Zg===", "Zm9v=", "Z===",
                                       "====", "Zm 9v", "Zg==Zg==", "Zm9*",  "=Zm9",  "Z=g="};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        auto_buf struct buf bytes = BUF_INIT(100);
        if (base64_decode(&bytes, str_c(rows[i])))
            fail_msg("%s", rows[i]);
    }
}

static void every_byte_survives_and_ceilings_hold(void **state)
{
    (void)state;
    char all[256];
    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)i;
    auto_buf struct buf text = BUF_INIT(1000), bytes = BUF_INIT(1000), small = BUF_INIT(10);
    assert_true(base64_encode(&text, (struct str){all, sizeof(all)}));
    buf_add_c(&text, "\n");
    assert_true(base64_decode(&bytes, buf_str(&text)));
    assert_int_equal(bytes.n, sizeof(all));
    assert_memory_equal(bytes.p, all, sizeof(all));
    assert_false(base64_decode(&small, buf_str(&text)));
    assert_false(base64_encode(&small, (struct str){all, sizeof(all)}));
}

TEST_MAIN(TEST(known_pairs_go_both_ways), TEST(what_is_no_base64_is_refused),
          TEST(every_byte_survives_and_ceilings_hold))
