/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/file.h"
#include "base/redact.h"
#include "base/thread.h"
#include "base/time.h"

enum {
    LINE_MAX_BYTES = 16 * 1024,
    VALUE_MAX_BYTES = 2 * 1024,
};

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_sink_init(struct log_sink *s, int fd, enum log_format format, enum log_level level,
                   const struct clock *clock)
{
    *s = (struct log_sink){.fd = fd, .format = format, .level = level, .clock = clock};
    /* https://no-color.org: set and not empty means no colour */
    const char *no_color = getenv("NO_COLOR");
    s->colour = format == LOG_TEXT && isatty(fd) && !(no_color && *no_color);
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail with default attributes */
}

void log_sink_done(struct log_sink *s)
{
    (void)pthread_mutex_destroy(&s->lock);
}

bool log_enabled(const struct log *lg, enum log_level level)
{
    return level >= lg->sink->level;
}

/* The inside of a JSON string. Also right for text lines: no control character survives. */
static void add_escaped(struct buf *b, struct str s)
{
    while (s.n > 0) {
        const size_t n = utf8_first(s);
        const unsigned char c = (unsigned char)s.p[0];
        if (n == 0)
            buf_add_c(b, "\\ufffd");
        else if (c == '"' || c == '\\')
            buf_addf(b, "\\%c", c);
        else if (c == '\n')
            buf_add_c(b, "\\n");
        else if (c == '\t')
            buf_add_c(b, "\\t");
        else if (c < 0x20 || c == 0x7f)
            buf_addf(b, "\\u%04x", c);
        else
            buf_add(b, s.p, n);
        s = str_from(s, n > 0 ? n : 1);
    }
}

/* A value without its quotes: redacted, cut at its ceiling, escaped. */
static void add_shown(struct buf *b, const char *key, struct str value)
{
    auto_buf struct buf shown = BUF_INIT(LINE_MAX_BYTES);
    if (redact_key(str_c(key)))
        buf_add_c(&shown, REDACTED);
    else
        redact_text(&shown, str_first(value, LINE_MAX_BYTES / 2));
    const bool cut = shown.n > VALUE_MAX_BYTES;
    size_t keep = cut ? VALUE_MAX_BYTES : shown.n;
    while (cut && keep > 0 && utf8_is_continuation(shown.p[keep])) /* not inside a character */
        keep--;
    add_escaped(b, str_first(buf_str(&shown), keep));
    if (cut)
        buf_add_c(b, "\xe2\x80\xa6");
}

static void add_quoted(struct buf *b, const char *key, struct str value)
{
    buf_add_char(b, '"');
    add_shown(b, key, value);
    buf_add_char(b, '"');
}

static void add_key(struct buf *b, const struct log_sink *s, const char *key)
{
    if (s->format == LOG_JSON) {
        buf_add_c(b, ",\"");
        add_escaped(b, str_c(key));
        buf_add_c(b, "\":");
    } else {
        buf_addf(b, s->colour ? "  \x1b[2m%s=\x1b[0m" : "  %s=", key);
    }
}

static void add_field(struct buf *b, const struct log_sink *s, const struct kv *f)
{
    if (f->type == KV_TYPE_ERR) {
        add_field(b, s, &KV(f->key, f->err->text));
        add_field(b, s, &KV("code", err_code_name(f->err->code)));
        if (f->err->reason[0] != '\0')
            add_field(b, s, &KV("reason", f->err->reason));
        return;
    }
    add_key(b, s, f->key);
    switch (f->type) {
    case KV_TYPE_STR:
        if (f->str)
            add_quoted(b, f->key, str_c(f->str));
        else
            buf_add_c(b, "null");
        break;
    case KV_TYPE_I64:
        buf_addf(b, "%" PRId64, f->i64);
        break;
    case KV_TYPE_U64:
        buf_addf(b, "%" PRIu64, f->u64);
        break;
    case KV_TYPE_HEX:
        buf_addf(b, "\"%" PRIx64 "\"", f->u64);
        break;
    case KV_TYPE_BOOL:
        buf_add_c(b, f->boolean ? "true" : "false");
        break;
    case KV_TYPE_ERR: /* handled above */
        break;
    }
}

static void add_head(struct buf *b, const struct log_sink *s, enum log_level level, const char *msg)
{
    static const char *const colours[] = {"2", "32", "33", "31"};
    char at[TIME_TEXT_MAX];
    time_print(clock_wall_us(s->clock), TIME_MILLIS, at);
    const char *name = level_names[level];
    if (s->format == LOG_JSON) {
        buf_addf(b, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", at, name);
        add_quoted(b, "msg", str_c(msg));
    } else {
        if (s->colour)
            buf_addf(b, "\x1b[2m%.12s\x1b[0m \x1b[%sm%-5s\x1b[0m ", at + 11, colours[level], name);
        else
            buf_addf(b, "%.12s %-5s ", at + 11, name);
        add_shown(b, "msg", str_c(msg));
    }
}

/* A field that does not fit is left out whole: the line stays well-formed and says so. */
static void add_if_fits(struct buf *b, const struct log_sink *s, const struct kv *f, bool *left_out)
{
    const size_t before = b->n;
    add_field(b, s, f);
    if (b->over) {
        b->over = false;
        buf_trim_to(b, before);
        *left_out = true;
    }
}

static void add_inherited(struct buf *b, const struct log *lg, bool *left_out)
{
    if (lg->parent)
        add_inherited(b, lg->parent, left_out);
    for (size_t i = 0; i < lg->n_fields; i++)
        add_if_fits(b, lg->sink, &lg->fields[i], left_out);
}

void log_write(const struct log *lg, enum log_level level, const char *msg, const struct kv *fields)
{
    struct log_sink *s = lg->sink;
    bool left_out = false;
    auto_buf struct buf line = BUF_INIT(LINE_MAX_BYTES - 32); /* 32: room for the end */
    add_head(&line, s, level, msg);
    add_inherited(&line, lg, &left_out);
    for (const struct kv *f = fields; f->key; f++)
        add_if_fits(&line, s, f, &left_out);
    line.max = LINE_MAX_BYTES;
    if (left_out)
        add_field(&line, s, &KV_BOOL("cut", true));
    buf_add_c(&line, s->format == LOG_JSON ? "}\n" : "\n");

    MUTEX_HOLD(&s->lock);
    struct err e = {0};
    if (file_write_all(s->fd, buf_str(&line), &e) < 0)
        return; /* there is nowhere left to report it */
}
