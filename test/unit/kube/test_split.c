/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/split.h"

#include <stdio.h>

#include "base/json.h"
#include "base/mem.h"
#include "unit.h"

struct seen {
    struct buf texts; /* each followed by '|' */
    size_t n, too_big, salvaged;
    char last_name[254], last_version[24], last_type[12];
};

static int see(void *arg, const struct split_item *item, struct err *e)
{
    (void)e;
    struct seen *s = arg;
    s->n++;
    buf_add_str(&s->texts, item->text);
    buf_add_char(&s->texts, '|');
    s->too_big += item->too_big;
    s->salvaged += item->salvaged;
    if (item->too_big) {
        (void)snprintf(s->last_name, sizeof(s->last_name), "%s", item->id->name);
        (void)snprintf(s->last_version, sizeof(s->last_version), "%s", item->id->version);
        (void)snprintf(s->last_type, sizeof(s->last_type), "%s", item->id->type);
    }
    return 0;
}

/* The same text in pieces of every size gives the same cuts. */
static void check(enum split_mode mode, struct str text, size_t max, const char *want,
                  const char *version, const char *token)
{
    for (size_t piece = 1; piece <= text.n; piece++) {
        struct err e = {0};
        struct split s;
        struct seen seen = {.texts = BUF_INIT(1 << 20)};
        split_init(&s, mode, max);
        for (size_t at = 0; at < text.n; at += piece)
            assert_ok(split_feed(&s, str_first(str_from(text, at), piece), see, &seen, &e));
        assert_ok(split_end(&s, &e));
        assert_string_equal(buf_cstr(&seen.texts), want);
        if (version)
            assert_string_equal(s.version, version);
        if (token)
            assert_string_equal(s.token, token);
        else
            assert_null(s.token);
        split_done(&s);
        buf_done(&seen.texts);
    }
}

static void events_are_lines(void **state)
{
    (void)state;
    check(SPLIT_WATCH, STR("{\"type\":\"ADDED\"}\n{}\n\n[1]\n"), 100,
          "{\"type\":\"ADDED\"}|{}|[1]|", NULL, NULL);
}

static void items_of_a_list_come_one_by_one(void **state)
{
    (void)state;
    check(
        SPLIT_LIST,
        STR("{\"kind\":\"PodList\",\"metadata\":{\"resourceVersion\":\"77\",\"continue\":\"a=b\"},"
            "\"items\":[{\"a\":[{\"items\":[{}]}]},{\"b\":\"}]\\\"{\"} , {}]}\n"),
        100, "{\"a\":[{\"items\":[{}]}]}|{\"b\":\"}]\\\"{\"}|{}|", "77", "a=b");
    check(SPLIT_LIST,
          STR("{\"items\":[],\"metadata\":{\"continue\":\"\",\"resourceVersion\":\"1\"}}"), 100, "",
          "1", NULL);
    check(SPLIT_LIST, STR("{\"items\":null,\"metadata\":{\"resourceVersion\":\"1\"}}"), 100, "",
          "1", NULL);
}

static void a_list_may_carry_its_metadata_last(void **state)
{
    (void)state;
    check(SPLIT_LIST,
          STR("{\"items\":[{\"metadata\":{\"resourceVersion\":\"5\"}}],"
              "\"metadata\":{\"resourceVersion\":\"9\"}}"),
          100, "{\"metadata\":{\"resourceVersion\":\"5\"}}|", "9", NULL);
}

static void what_is_too_big_is_still_known(void **state)
{
    (void)state;
    static const char head[] = "{\"type\":\"MODIFIED\",\"object\":{\"data\":\"";
    static const char tail[] = "\",\"metadata\":{\"name\":\"big\",\"namespace\":\"a\",\"labels\":"
                               "{\"name\":\"not this\"},\"resourceVersion\":\"42\"}}}\n";
    auto_buf struct buf text = BUF_INIT(1 << 20);
    buf_add_c(&text, "{}\n");
    buf_add_c(&text, head);
    for (int i = 0; i < 5000; i++)
        buf_add_char(&text, 'x');
    buf_add_c(&text, tail);
    buf_add_c(&text, "[]\n");
    for (size_t piece = 1; piece < text.n; piece += 61) {
        struct err e = {0};
        struct split s;
        struct seen seen = {.texts = BUF_INIT(1 << 20)};
        split_init(&s, SPLIT_WATCH, 1000);
        for (size_t at = 0; at < text.n; at += piece)
            assert_ok(
                split_feed(&s, str_first(str_from(buf_str(&text), at), piece), see, &seen, &e));
        assert_ok(split_end(&s, &e));
        assert_int_equal(seen.n, 3);
        assert_int_equal(seen.too_big, 1);
        assert_int_equal(seen.salvaged, 1);
        assert_string_equal(seen.last_name, "big");
        assert_string_equal(seen.last_version, "42");
        assert_string_equal(seen.last_type, "MODIFIED");
        assert_string_equal(buf_cstr(&seen.texts), "{}||[]|");
        assert_true(s.item.cap <= 64 * 1024);
        split_done(&s);
        buf_done(&seen.texts);
    }
}

static void a_cut_stream_is_noticed(void **state)
{
    (void)state;
    struct err e = {0};
    struct split s;
    struct seen seen = {.texts = BUF_INIT(100)};
    split_init(&s, SPLIT_WATCH, 100);
    assert_ok(split_feed(&s, STR("{\"type\":"), see, &seen, &e));
    assert_err(split_end(&s, &e), ERR_CORRUPT, "within an event");
    split_done(&s);
    split_init(&s, SPLIT_LIST, 100);
    assert_ok(split_feed(&s, STR("{\"items\":[{}"), see, &seen, &e));
    assert_err(split_end(&s, &e), ERR_CORRUPT, "too early");
    split_done(&s);
    split_init(&s, SPLIT_LIST, 100);
    assert_err(split_feed(&s, STR("<html>"), see, &seen, &e), ERR_CORRUPT, "no JSON");
    split_done(&s);
    buf_done(&seen.texts);
}

static void salvage_knows_json_from_noise(void **state)
{
    (void)state;
#define META                                                                                       \
    "\"metadata\":{\"name\":\"n\",\"namespace\":\"s\",\"uid\":\"u\",\"resourceVersion\":\"7\"}"
    static const struct {
        const char *name, *text;
        bool good;
    } rows[] = {
        {"plain", "{\"type\":\"ADDED\",\"object\":{" META "}}", true},
        {"absurd number", "{\"type\":\"ADDED\",\"object\":{\"a\":1e99999," META "}}", true},
        {"huge integer", "{\"type\":\"ADDED\",\"object\":{\"a\":-99999999999999999999," META "}}",
         true},
        {"lone surrogate", "{\"type\":\"ADDED\",\"object\":{\"a\":\"\\ud800\"," META "}}", true},
        {"NUL escape", "{\"type\":\"ADDED\",\"object\":{\"a\":\"\\u0000\"," META "}}", true},
        {"key twice", "{\"type\":\"ADDED\",\"object\":{\"a\":1,\"a\":2," META "}}", true},
        {"raw byte", "{\"type\":\"ADDED\",\"object\":{\"a\":\"\xff\"," META "}}", false},
        {"control byte", "{\"type\":\"ADDED\",\"object\":{\"a\":\"\x01\"," META "}}", false},
        {"broken UTF-8", "{\"type\":\"ADDED\",\"object\":{\"a\":\"\xc3\"," META "}}", false},
        {"cut", "{\"type\":\"ADDED\",\"object\":{" META "}", false},
        {"no comma", "{\"type\":\"ADDED\" \"object\":{" META "}}", false},
        {"wrong bracket", "{\"type\":\"ADDED\",\"object\":{\"a\":[}," META "}}", false},
        {"bad word", "{\"type\":\"ADDED\",\"object\":{\"a\":nul," META "}}", false},
        {"bad escape", "{\"type\":\"ADDED\",\"object\":{\"a\":\"\\x\"," META "}}", false},
        {"more behind", "{\"type\":\"ADDED\",\"object\":{" META "}}{", false},
        {"no version", "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"n\"}}}", false},
        {"metadata elsewhere", "{\"type\":\"ADDED\",\"object\":{\"spec\":{" META "}}}", false},
        {"escape in a name",
         "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"\\u0041\",\"resourceVersion\":"
         "\"7\"}}}",
         false},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct split_id id;
        if (split_salvage(SPLIT_WATCH, str_c(rows[i].text), &id) != rows[i].good)
            fail_msg("%s", rows[i].name);
        if (rows[i].good &&
            (strcmp(id.name, "n") != 0 || strcmp(id.ns, "s") != 0 || strcmp(id.uid, "u") != 0 ||
             strcmp(id.version, "7") != 0 || strcmp(id.type, "ADDED") != 0))
            fail_msg("%s: wrong identity", rows[i].name);
    }
    struct split_id id;
    assert_true(split_salvage(SPLIT_LIST, STR("{" META "}"), &id));
    assert_string_equal(id.name, "n");
}

static void depth_does_not_matter_to_salvage(void **state)
{
    (void)state;
    auto_buf struct buf text = BUF_INIT(1 << 20);
    buf_add_c(&text, "{\"type\":\"ADDED\",\"object\":{\"a\":");
    for (int i = 0; i < 3000; i++)
        buf_add_c(&text, i % 2 == 0 ? "[" : "{\"a\":");
    buf_add_c(&text, "1");
    for (int i = 3000; i-- > 0;)
        buf_add_c(&text, i % 2 == 0 ? "]" : "}");
    buf_add_c(&text, "," META "}}");
    struct split_id id;
    struct err e = {0};
    json_t *v = NULL;
    assert_err(jparse(buf_str(&text), &v, &e), ERR_INVALID, "depth");
    assert_true(split_salvage(SPLIT_WATCH, buf_str(&text), &id));
    assert_string_equal(id.version, "7");
}

/* Whatever jansson can read, the scanner takes for JSON as well. */
static void salvage_agrees_with_the_parser(void **state)
{
    (void)state;
    uint64_t seed = 0x5eed;
    static const char *const parts[] = {"{\"a\":", "[", "]",      "}",    ",",        ":",
                                        "\"x\"",   "1", "-2.5e3", "true", "null",     " ",
                                        "\"\\n\"", "{", "\"a\":", "[]",   "{\"b\":1}"};
    size_t valid = 0;
    for (int round = 0; round < 200000; round++) {
        char text[256] = "{\"metadata\":{\"name\":\"n\",\"resourceVersion\":\"1\"},\"z\":";
        for (uint64_t n = 1 + test_below(&seed, 6); n > 0; n--)
            (void)strcat(text, parts[test_below(&seed, COUNT_OF(parts))]);
        (void)strcat(text, "}");
        struct err e = {0};
        json_t *v = NULL;
        struct split_id id;
        if (jparse(str_c(text), &v, &e) < 0)
            continue;
        valid++;
        json_decref(v);
        if (!split_salvage(SPLIT_LIST, str_c(text), &id))
            fail_msg("%s", text);
    }
    assert_true(valid > 1000);
}

TEST_MAIN(TEST(events_are_lines), TEST(items_of_a_list_come_one_by_one),
          TEST(a_list_may_carry_its_metadata_last), TEST(what_is_too_big_is_still_known),
          TEST(a_cut_stream_is_noticed), TEST(salvage_knows_json_from_noise),
          TEST(depth_does_not_matter_to_salvage), TEST(salvage_agrees_with_the_parser))
