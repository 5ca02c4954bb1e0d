/* SPDX-License-Identifier: Apache-2.0
 * Descends only where a path may still match; everything else is stepped over as a whole, strings
 * with memchr(). */
#include "kube/prune.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"

void prune_add(struct prune *p, const char *under, const char *path)
{
    assert(p->n < PRUNE_PATHS_MAX);
    struct prune_path *to = &p->paths[p->n++];
    const char *const parts[] = {under, path};
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        for (struct str rest = str_c(parts[i]), key; rest.n > 0;) {
            (void)str_cut(rest, '.', &key, &rest);
            assert(to->n < PRUNE_DEPTH_MAX);
            to->keys[to->n++] = key;
        }
    }
}

struct walk {
    const struct prune *prune;
    const char *at, *end;
    const char *copied; /* everything before is in out, or left out */
    struct buf *out;
    struct str keys[PRUNE_DEPTH_MAX];
};

static void skip_space(struct walk *w)
{
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\n' || *w->at == '\r' || *w->at == '\t'))
        w->at++;
}

/* From the opening quote to behind the closing one, which an even number of backslashes precedes.
 */
static bool skip_string(struct walk *w)
{
    const char *const from = w->at + 1;
    for (w->at = from;;) {
        const char *quote = memchr(w->at, '"', (size_t)(w->end - w->at));
        if (!quote)
            return false;
        const char *before = quote;
        while (before > from && before[-1] == '\\')
            before--;
        w->at = quote + 1;
        if ((quote - before) % 2 == 0)
            return true;
    }
}

static bool skip_value(struct walk *w)
{
    size_t depth = 0;
    while (w->at < w->end) {
        switch (*w->at) {
        case '"':
            if (!skip_string(w))
                return false;
            break;
        case '{':
        case '[':
            depth++;
            w->at++;
            break;
        case '}':
        case ']':
            if (depth == 0)
                return false;
            depth--;
            w->at++;
            break;
        case ',':
            if (depth == 0)
                return true;
            w->at++;
            continue;
        default:
            w->at++;
            /* A number or a word ends where its surroundings go on. */
            if (depth == 0 && w->at < w->end && (*w->at == '}' || *w->at == ']'))
                return true;
            continue;
        }
        if (depth == 0)
            return true;
    }
    return false;
}

enum match { MATCH_NONE, MATCH_INSIDE, MATCH_WHOLE };

static enum match match(const struct walk *w, size_t n)
{
    enum match best = MATCH_NONE;
    for (size_t i = 0; i < w->prune->n; i++) {
        const struct prune_path *path = &w->prune->paths[i];
        size_t same = 0;
        while (same < n && same < path->n && str_eq(w->keys[same], path->keys[same]))
            same++;
        if (same < n)
            continue;
        if (path->n == n)
            return MATCH_WHOLE;
        best = MATCH_INSIDE;
    }
    return best;
}

static bool leave_out(struct walk *w)
{
    const bool kept =
        buf_add(w->out, w->copied, (size_t)(w->at - w->copied)) && buf_add_c(w->out, "null");
    if (!kept || !skip_value(w))
        return false;
    w->copied = w->at;
    return true;
}

/* At the opening bracket of an object that is n keys deep. */
static bool walk_object(struct walk *w, size_t n)
{
    w->at++;
    for (bool first = true;; first = false) {
        skip_space(w);
        if (w->at == w->end)
            return false;
        if (*w->at == '}') {
            w->at++;
            return true;
        }
        if (!first && *w->at++ != ',')
            return false;
        skip_space(w);
        if (w->at == w->end || *w->at != '"')
            return false;
        const char *key = w->at + 1;
        if (!skip_string(w))
            return false;
        w->keys[n] = (struct str){key, (size_t)(w->at - 1 - key)};
        skip_space(w);
        if (w->at == w->end || *w->at++ != ':')
            return false;
        skip_space(w);
        if (w->at == w->end)
            return false;
        const enum match found = match(w, n + 1);
        const bool inside = found == MATCH_INSIDE && *w->at == '{' && n + 1 < PRUNE_DEPTH_MAX;
        if (found == MATCH_WHOLE ? !leave_out(w) : inside ? !walk_object(w, n + 1) : !skip_value(w))
            return false;
    }
}

bool prune_text(const struct prune *p, struct str text, struct buf *out)
{
    struct walk w = {
        .prune = p, .at = text.p, .end = text.p + text.n, .copied = text.p, .out = out};
    skip_space(&w);
    if (w.at == w.end || *w.at != '{' || !walk_object(&w, 0))
        return false;
    return buf_add(out, w.copied, (size_t)(w.end - w.copied));
}
