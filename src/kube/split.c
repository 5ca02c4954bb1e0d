/* SPDX-License-Identifier: Apache-2.0
 * The scanner is a pushdown automaton of one bit per level that takes one byte at a time. It
 * remembers the keys of the first three levels, because what it looks for is nowhere deeper. */
#include "kube/split.h"

#include <string.h>

#include "base/mem.h"

enum state {
    WANT_VALUE, /* the zero value: where a text begins */
    WANT_VALUE_OR_END,
    WANT_KEY,
    WANT_KEY_OR_END,
    WANT_COLON,
    WANT_COMMA_OR_END,
    IN_KEY,
    IN_KEY_ESCAPE,
    IN_STRING,
    IN_STRING_ESCAPE,
    IN_LITERAL,
    ENDED,
    BAD,
};

enum key {
    KEY_OTHER,
    KEY_TYPE,
    KEY_OBJECT,
    KEY_METADATA,
    KEY_ITEMS,
    KEY_NS,
    KEY_NAME,
    KEY_UID,
    KEY_VERSION,
    KEY_CONTINUE
};

static const struct {
    const char *text;
    enum key key;
} known_keys[] = {
    {"type", KEY_TYPE},         {"object", KEY_OBJECT},
    {"metadata", KEY_METADATA}, {"items", KEY_ITEMS},
    {"namespace", KEY_NS},      {"name", KEY_NAME},
    {"uid", KEY_UID},           {"resourceVersion", KEY_VERSION},
    {"continue", KEY_CONTINUE},
};

enum { KEY_LEVELS = 4, KEEP_CAPACITY = 64 * 1024 };

static bool in_object(const struct split_scan *s)
{
    const size_t at = s->depth - 1;
    return s->depth > 0 && (s->nesting[at / 8] >> (at % 8) & 1) != 0;
}

static enum state push(struct split_scan *s, bool object)
{
    if (s->depth == SPLIT_DEPTH_MAX)
        return BAD;
    unsigned char *byte = &s->nesting[s->depth / 8];
    const unsigned char bit = (unsigned char)(1U << (s->depth % 8));
    *byte = (unsigned char)(object ? *byte | bit : *byte & ~bit);
    s->depth++;
    if (s->depth < KEY_LEVELS)
        s->keys[s->depth] = KEY_OTHER;
    return object ? WANT_KEY_OR_END : WANT_VALUE_OR_END;
}

static enum state after_value(const struct split_scan *s)
{
    return s->depth == 0 ? ENDED : WANT_COMMA_OR_END;
}

static enum state pop(struct split_scan *s, char c)
{
    if (s->depth == 0 || in_object(s) != (c == '}'))
        return BAD;
    s->depth--;
    return after_value(s);
}

static enum key key_of(const struct split_scan *s)
{
    for (size_t i = 0; i < COUNT_OF(known_keys); i++)
        if (str_eq((struct str){s->word, s->word_n}, str_c(known_keys[i].text)))
            return known_keys[i].key;
    return KEY_OTHER;
}

/* The keys that lead to where we are, seen from the object itself. */
static bool at_metadata(const struct split_scan *s)
{
    return s->depth == s->base + 2 && s->keys[s->base + 1] == KEY_METADATA &&
           (s->base == 0 || s->keys[1] == KEY_OBJECT);
}

struct slot {
    char *p;
    size_t max;
};

static struct slot slot_of(const struct split_scan *s, struct split_id *id)
{
    if (s->base == 1 && s->depth == 1 && s->keys[1] == KEY_TYPE)
        return (struct slot){id->type, sizeof(id->type)};
    if (!id || !at_metadata(s))
        return (struct slot){0};
    switch ((enum key)s->keys[s->depth]) {
    case KEY_NS:
        return (struct slot){id->ns, sizeof(id->ns)};
    case KEY_NAME:
        return (struct slot){id->name, sizeof(id->name)};
    case KEY_UID:
        return (struct slot){id->uid, sizeof(id->uid)};
    case KEY_VERSION:
        return (struct slot){id->version, sizeof(id->version)};
    case KEY_OTHER:
    case KEY_TYPE:
    case KEY_OBJECT:
    case KEY_METADATA:
    case KEY_ITEMS:
    case KEY_CONTINUE:
        break;
    }
    return (struct slot){0};
}

static enum state begin_value(struct split_scan *s, char c, struct split_id *id)
{
    if (c == '{' || c == '[')
        return push(s, c == '{');
    if (c == '"') {
        const struct slot slot =
            s->depth < KEY_LEVELS && in_object(s) ? slot_of(s, id) : (struct slot){0};
        s->into = slot.p;
        s->into_max = slot.max;
        s->into_n = 0;
        s->capture_bad = false;
        return IN_STRING;
    }
    if (c == '-' || ascii_is_digit(c) || c == 't' || c == 'f' || c == 'n') {
        s->word[0] = c;
        s->word_n = 1;
        return IN_LITERAL;
    }
    return BAD;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* False: this byte cannot stand here in UTF-8 text. */
static bool utf8_step(struct split_scan *s, char c)
{
    const unsigned char b = (unsigned char)c;
    if (s->more_utf8 > 0) {
        s->more_utf8--;
        return utf8_is_continuation(c);
    }
    if (b < 0x80)
        return b >= 0x20; /* control characters are escaped in JSON */
    if (b < 0xc2 || b > 0xf4)
        return false;
    s->more_utf8 = b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
    return true;
}

static void capture(struct split_scan *s, char c)
{
    if (!s->into)
        return;
    if (s->into_n + 1 < s->into_max)
        s->into[s->into_n++] = c;
    else
        s->capture_bad = true;
}

static void end_capture(struct split_scan *s)
{
    if (s->into)
        s->into[s->capture_bad ? 0 : s->into_n] = '\0';
    s->into = NULL;
}

static enum state in_string(struct split_scan *s, char c, bool key)
{
    if (s->more_utf8 == 0 && c == '"') {
        if (!key) {
            end_capture(s);
            return after_value(s);
        }
        if (s->depth < KEY_LEVELS)
            s->keys[s->depth] = (unsigned char)key_of(s);
        return WANT_COLON;
    }
    if (s->more_utf8 == 0 && c == '\\')
        return key ? IN_KEY_ESCAPE : IN_STRING_ESCAPE;
    if (!utf8_step(s, c))
        return BAD;
    if (!key)
        capture(s, c);
    else if (s->word_n < sizeof(s->word))
        s->word[s->word_n++] = c;
    return key ? IN_KEY : IN_STRING;
}

static enum state in_escape(struct split_scan *s, char c, bool key)
{
    static const char known[] = "\"\\/bfnrtu";
    if (!memchr(known, c, sizeof(known) - 1)) /* the digits of \u are ordinary characters to us */
        return BAD;
    s->capture_bad = true; /* no name and no version has escapes */
    if (key)
        s->word_n = sizeof(s->word); /* nor has a key we know */
    return key ? IN_KEY : IN_STRING;
}

static const char number[] = "+-.eE0123456789";
static const char literal[] = "+-.eE0123456789truefalsn";

static bool literal_is_good(const struct split_scan *s)
{
    const struct str w = {s->word, s->word_n};
    if (s->word[0] != '-' && !ascii_is_digit(s->word[0]))
        return str_eq(w, STR("true")) || str_eq(w, STR("false")) || str_eq(w, STR("null"));
    for (size_t i = 1; i < w.n; i++)
        if (!memchr(number, w.p[i], sizeof(number) - 1))
            return false;
    return true;
}

static enum state structural(struct split_scan *s, char c, struct split_id *id)
{
    switch ((enum state)s->state) {
    case WANT_VALUE_OR_END:
        return c == ']' ? pop(s, c) : begin_value(s, c, id);
    case WANT_VALUE:
        return begin_value(s, c, id);
    case WANT_KEY_OR_END:
    case WANT_KEY:
        if (c == '}' && s->state == WANT_KEY_OR_END)
            return pop(s, c);
        s->word_n = 0;
        return c == '"' ? IN_KEY : BAD;
    case WANT_COLON:
        return c == ':' ? WANT_VALUE : BAD;
    case WANT_COMMA_OR_END:
        if (c == ',')
            return in_object(s) ? WANT_KEY : WANT_VALUE;
        return c == '}' || c == ']' ? pop(s, c) : BAD;
    case IN_KEY:
    case IN_KEY_ESCAPE:
    case IN_STRING:
    case IN_STRING_ESCAPE:
    case IN_LITERAL:
    case ENDED:
    case BAD:
        break;
    }
    return BAD;
}

static void scan_byte(struct split_scan *s, char c, struct split_id *id)
{
    switch ((enum state)s->state) {
    case IN_STRING:
    case IN_KEY:
        s->state = (unsigned char)in_string(s, c, s->state == IN_KEY);
        return;
    case IN_STRING_ESCAPE:
    case IN_KEY_ESCAPE:
        s->state = (unsigned char)in_escape(s, c, s->state == IN_KEY_ESCAPE);
        return;
    case IN_LITERAL:
        if (memchr(literal, c, sizeof(literal) - 1)) {
            if (s->word_n < sizeof(s->word))
                s->word[s->word_n++] = c;
            return;
        }
        if (!literal_is_good(s)) {
            s->state = BAD;
            return;
        }
        s->state = (unsigned char)after_value(s);
        break; /* and the byte behind it counts */
    case WANT_VALUE:
    case WANT_VALUE_OR_END:
    case WANT_KEY:
    case WANT_KEY_OR_END:
    case WANT_COLON:
    case WANT_COMMA_OR_END:
    case ENDED:
        break;
    case BAD:
        return;
    }
    if (!is_space(c))
        s->state = (unsigned char)structural(s, c, id);
}

static void scan(struct split_scan *s, struct str text, struct split_id *id)
{
    for (size_t i = 0; i < text.n && s->state != BAD; i++)
        scan_byte(s, text.p[i], id);
}

static bool scan_salvaged(const struct split_scan *s, const struct split_id *id)
{
    return s->state == ENDED && id->name[0] != '\0' && id->version[0] != '\0' &&
           (s->base == 0 || id->type[0] != '\0');
}

bool split_salvage(enum split_mode mode, struct str text, struct split_id *out)
{
    struct split_scan *s = xcalloc(1, sizeof(*s));
    s->base = mode == SPLIT_WATCH ? 1 : 0;
    *out = (struct split_id){0};
    scan(s, text, out);
    const bool good = scan_salvaged(s, out);
    free(s);
    return good;
}

/* --- Cutting --- */

void split_init(struct split *s, enum split_mode mode, size_t item_max)
{
    *s = (struct split){.mode = mode, .item_max = item_max, .item = BUF_INIT(item_max)};
    if (mode == SPLIT_LIST)
        s->list = xcalloc(1, sizeof(*s->list));
}

void split_done(struct split *s)
{
    buf_done(&s->item);
    free(TAKE(s->list));
    free(TAKE(s->scan));
    free(TAKE(s->token));
}

/* More of the item that is being collected. */
static void take(struct split *s, struct str piece)
{
    s->in_item = s->in_item || piece.n > 0;
    if (!s->too_big) {
        if (buf_add_str(&s->item, piece))
            return;
        s->too_big = true;
        s->id = (struct split_id){0};
        s->scan = xcalloc(1, sizeof(*s->scan));
        s->scan->base = s->mode == SPLIT_WATCH ? 1 : 0;
        scan(s->scan, buf_str(&s->item), &s->id);
        buf_done(&s->item);
        s->item = BUF_INIT(s->item_max);
    }
    scan(s->scan, piece, &s->id);
}

static int emit(struct split *s, struct str text, split_each_fn *each, void *arg, struct err *e)
{
    struct split_item item = {.text = text, .too_big = s->too_big, .id = &s->id};
    if (s->too_big)
        item.salvaged = scan_salvaged(s->scan, &s->id);
    const int rc = each(arg, &item, e);
    free(TAKE(s->scan));
    s->too_big = false;
    s->in_item = false;
    if (s->item.cap > KEEP_CAPACITY) {
        buf_done(&s->item);
        s->item = BUF_INIT(s->item_max);
    }
    buf_reset(&s->item);
    return rc;
}

static int end_line(struct split *s, struct str line, split_each_fn *each, void *arg, struct err *e)
{
    if (s->too_big || str_trim(line).n > 0)
        return emit(s, str_first(line, s->too_big ? 0 : line.n), each, arg, e);
    s->in_item = false; /* an empty line says nothing */
    buf_reset(&s->item);
    return 0;
}

static int feed_lines(struct split *s, struct str piece, split_each_fn *each, void *arg,
                      struct err *e)
{
    struct str line;
    while (str_cut(piece, '\n', &line, &piece)) {
        const bool whole = !s->in_item && line.n <= s->item_max; /* in this piece: no copy */
        if (!whole)
            take(s, line);
        if (end_line(s, whole ? line : buf_str(&s->item), each, arg, e) < 0)
            return -1;
    }
    take(s, line);
    return 0;
}

/* The list's own version and the token of its next page. */
static void list_slot(struct split *s)
{
    struct split_scan *at = s->list;
    if (at->into || at->depth != 2 || at->keys[1] != KEY_METADATA)
        return;
    if (at->keys[2] == KEY_VERSION) {
        at->into = s->version;
        at->into_max = sizeof(s->version);
    } else if (at->keys[2] == KEY_CONTINUE) {
        free(s->token);
        s->token = xcalloc(1, SPLIT_TOKEN_MAX);
        at->into = s->token;
        at->into_max = SPLIT_TOKEN_MAX;
    }
}

static int feed_list(struct split *s, struct str piece, split_each_fn *each, void *arg,
                     struct err *e)
{
    struct split_scan *at = s->list;
    size_t from = 0; /* of the item's bytes in this piece */
    for (size_t i = 0; i < piece.n; i++) {
        const size_t before = at->depth;
        scan_byte(at, piece.p[i], NULL);
        if (at->state == BAD)
            return err_set(e, ERR_CORRUPT, 0, "the list is no JSON at byte %zu of a piece", i);
        if (at->state == IN_STRING)
            list_slot(s);
        const bool in_items = at->keys[1] == KEY_ITEMS;
        if (before == 2 && at->depth == 3 && in_items && piece.p[i] == '{') {
            s->in_item = true;
            from = i;
        } else if (before == 3 && at->depth == 2 && in_items && s->in_item) {
            const struct str last = {piece.p + from, i + 1 - from};
            const bool direct = s->item.n == 0 && !s->too_big && last.n <= s->item_max;
            if (!direct)
                take(s, last);
            struct str text = direct ? last : buf_str(&s->item);
            if (s->too_big)
                text = (struct str){0};
            if (emit(s, text, each, arg, e) < 0)
                return -1;
        }
    }
    if (s->in_item)
        take(s, str_from(piece, from));
    return 0;
}

int split_feed(struct split *s, struct str piece, split_each_fn *each, void *arg, struct err *e)
{
    if (piece.n == 0)
        return 0;
    return s->mode == SPLIT_WATCH ? feed_lines(s, piece, each, arg, e)
                                  : feed_list(s, piece, each, arg, e);
}

int split_end(struct split *s, struct err *e)
{
    if (s->mode == SPLIT_WATCH)
        return s->in_item ? err_set(e, ERR_CORRUPT, 0, "the stream ended within an event") : 0;
    if (s->list->state != ENDED)
        return err_set(e, ERR_CORRUPT, 0, "the list ended too early");
    if (s->token && s->token[0] == '\0')
        free(TAKE(s->token));
    return 0;
}
