/* SPDX-License-Identifier: Apache-2.0
 * A stream is cut the same way whatever pieces it arrives in, and what is found of an item is
 * found again in its text. The first byte chooses the kind of stream, the second the pieces. */
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "fuzz.h"
#include "kube/prune.h"
#include "kube/split.h"

enum { ITEM_MAX = 200, OUT_MAX = 1 << 24 };

struct seen {
    enum split_mode mode;
    struct buf out;
};

/* What parses still parses after pruning. */
static void prune(enum split_mode mode, struct str text)
{
    struct prune p = {0};
    struct err e = {0};
    json_auto_t *whole = NULL, *pruned = NULL;
    auto_buf struct buf out = BUF_INIT(ITEM_MAX * 2);
    prune_add(&p, mode == SPLIT_WATCH ? "object" : "", "metadata");
    const bool done = prune_text(&p, text, &out);
    if (jparse(text, &whole, &e) < 0 || !json_is_object(whole))
        return;
    FUZZ_CHECK(done);
    FUZZ_CHECK(jparse(buf_str(&out), &pruned, &e) == 0);
}

static int see(void *arg, const struct split_item *item, struct err *e)
{
    (void)e;
    struct seen *s = arg;
    struct split_id id;
    FUZZ_CHECK(item->text.n <= ITEM_MAX);
    FUZZ_CHECK(item->too_big || item->text.n > 0);
    buf_addf(&s->out, "%d %d ", item->too_big, item->salvaged);
    buf_add_str(&s->out, item->text);
    if (item->too_big && item->salvaged)
        buf_addf(&s->out, "%s %s %s", item->id->ns, item->id->name, item->id->version);
    if (!item->too_big)
        prune(s->mode, item->text);
    if (!item->too_big && split_salvage(s->mode, item->text, &id))
        FUZZ_CHECK(id.name[0] != '\0' && id.version[0] != '\0');
    buf_add_char(&s->out, '\n');
    return 0;
}

static int cut(enum split_mode mode, struct str text, size_t piece, struct buf *out)
{
    struct err e = {0};
    struct split s;
    struct seen seen = {.mode = mode, .out = BUF_INIT(OUT_MAX)};
    int rc = 0;
    split_init(&s, mode, ITEM_MAX);
    for (size_t at = 0; rc == 0 && at < text.n; at += piece)
        rc = split_feed(&s, str_first(str_from(text, at), piece), see, &seen, &e);
    if (rc == 0)
        rc = split_end(&s, &e);
    buf_addf(&seen.out, "%s %s", s.version, s.token ? s.token : "");
    split_done(&s);
    *out = seen.out;
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const enum split_mode mode = data[0] % 2 ? SPLIT_LIST : SPLIT_WATCH;
    const struct str text = {(const char *)data + 2, size - 2};
    auto_buf struct buf whole = {0}, pieces = {0};
    const int rc = cut(mode, text, text.n > 0 ? text.n : 1, &whole);
    FUZZ_CHECK(cut(mode, text, 1 + data[1] % 64, &pieces) == rc);
    FUZZ_CHECK(rc < 0 || str_eq(buf_str(&whole), buf_str(&pieces)));
    return 0;
}
