/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { BUF_FIRST = 64 };

void buf_done(struct buf *b)
{
    if (!b)
        return;
    free(b->p);
    *b = BUF_INIT(b->max);
}

void buf_wipe(struct buf *b)
{
    if (b && b->p)
        explicit_bzero(b->p, b->cap);
    buf_done(b);
}

void buf_reset(struct buf *b)
{
    b->n = 0;
    b->over = false;
    if (b->p)
        b->p[0] = '\0';
}

void buf_trim_to(struct buf *b, size_t n)
{
    if (n >= b->n)
        return;
    b->n = n;
    b->p[n] = '\0';
}

char *buf_reserve(struct buf *b, size_t n)
{
    assert(b->max > 0 && "a buffer needs a ceiling: BUF_INIT()");
    if (b->over || n > b->max - b->n) {
        b->over = true;
        return NULL;
    }
    const size_t need = b->n + n + 1;
    if (need > b->cap) {
        size_t cap = b->cap > 0 ? b->cap : BUF_FIRST;
        while (cap < need)
            cap += cap / 2;
        if (cap > b->max + 1) /* never hold more than the ceiling promises */
            cap = b->max + 1;
        b->p = xrealloc_array(b->p, cap, 1);
        b->cap = cap;
    }
    b->p[b->n] = '\0';
    return b->p + b->n;
}

void buf_wrote(struct buf *b, size_t n)
{
    assert(b->n + n < b->cap);
    b->n += n;
    b->p[b->n] = '\0';
}

bool buf_add(struct buf *b, const void *bytes, size_t n)
{
    char *room = buf_reserve(b, n);
    if (!room)
        return false;
    if (n > 0)
        memcpy(room, bytes, n);
    buf_wrote(b, n);
    return true;
}

bool buf_add_c(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

bool buf_add_str(struct buf *b, struct str s)
{
    return buf_add(b, s.p, s.n);
}

bool buf_add_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

bool buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *room = n < 0 ? NULL : buf_reserve(b, (size_t)n);
    if (!room) {
        b->over = true;
        return false;
    }
    va_start(ap, fmt);
    (void)vsnprintf(room, (size_t)n + 1, fmt, ap);
    va_end(ap);
    buf_wrote(b, (size_t)n);
    return true;
}

int buf_check(const struct buf *b, const char *what, struct err *e)
{
    if (!b->over)
        return 0;
    return err_set(e, ERR_TOO_BIG, 0, "%s: more than %zu bytes", what, b->max);
}

char *buf_take(struct buf *b)
{
    char *p = b->p ? TAKE(b->p) : xstrdup("");
    buf_done(b);
    return p;
}
