/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

enum { TEXT_MAX = 16 * 1024 * 1024 }; /* one string value; an object is far smaller */

void json_setup(void)
{
    json_set_alloc_funcs(xmalloc, free);
    json_object_seed(0);
}

int jparse(struct str s, json_t **out, struct err *e)
{
    json_error_t why;
    /* A NUL is legal inside a Kubernetes annotation: refusing it would stop a whole watch. */
    json_t *v = json_loadb(s.p ? s.p : "", s.n,
                           JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (!v) {
        /* jansson quotes the input, which may be a Secret: say what and where, not the bytes. */
        char *quote = strstr(why.text, " near '");
        if (quote)
            *quote = '\0';
        return err_set(e, ERR_INVALID, 0, "json line %d column %d: %s", why.line, why.column,
                       why.text);
    }
    *out = v;
    return 0;
}

static int dump_piece(const char *bytes, size_t n, void *data)
{
    return buf_add(data, bytes, n) ? 0 : -1;
}

bool jvalid(struct str s)
{
    json_auto_t *v = json_loadb(
        s.p ? s.p : "", s.n,
        JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    return v != NULL;
}

int jdump(const json_t *v, struct buf *out, struct err *e)
{
    const int rc =
        json_dump_callback(v, dump_piece, out, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (buf_check(out, "json text", e) < 0)
        return -1;
    return rc == 0 ? 0 : err_set(e, ERR_BUG, 0, "json value cannot be written");
}

static json_t *step(const json_t *v, struct str key)
{
    if (json_is_array(v)) {
        uint64_t at = 0;
        return str_u64(key, &at) ? json_array_get(v, at) : NULL;
    }
    return json_object_getn(v, key.p, key.n);
}

json_t *jget(const json_t *v, const char *path)
{
    struct str rest = str_c(path);
    json_t *at = (json_t *)v; /* borrowed in, borrowed out: jansson's getters do the same */
    while (at && rest.n > 0) {
        struct str key;
        (void)str_cut(rest, '.', &key, &rest);
        at = step(at, key);
    }
    return at;
}

int64_t jint(const json_t *v, const char *path, int64_t dflt)
{
    const json_t *at = jget(v, path);
    return json_is_integer(at) ? json_integer_value(at) : dflt;
}

bool jbool(const json_t *v, const char *path, bool dflt)
{
    const json_t *at = jget(v, path);
    return json_is_boolean(at) ? json_is_true(at) : dflt;
}

const char *jstr(const json_t *v, const char *path, const char *dflt)
{
    const json_t *at = jget(v, path);
    return json_is_string(at) ? json_string_value(at) : dflt;
}

const char *jlabel(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(jget(obj, "metadata.labels"), key));
}

const char *jannotation(const json_t *obj, const char *key)
{
    return json_string_value(json_object_get(jget(obj, "metadata.annotations"), key));
}

static const char *type_name(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "a list",  [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number", [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",    [JSON_NULL] = "null",
    };
    return names[json_typeof(v)];
}

static int need(const json_t *v, const char *path, json_type type, json_t **out, struct err *e)
{
    json_t *at = jget(v, path);
    if (!at)
        return err_set(e, ERR_INVALID, 0, "%s is missing", path);
    if (json_typeof(at) != type) {
        const json_t want = {.type = type};
        return err_set(e, ERR_INVALID, 0, "%s is %s, expected %s", path, type_name(at),
                       type_name(&want));
    }
    *out = at;
    return 0;
}

int jneed_str(const json_t *v, const char *path, const char **out, struct err *e)
{
    json_t *at = NULL;
    if (need(v, path, JSON_STRING, &at, e) < 0)
        return -1;
    *out = json_string_value(at);
    return 0;
}

int jneed_int(const json_t *v, const char *path, int64_t *out, struct err *e)
{
    json_t *at = NULL;
    if (need(v, path, JSON_INTEGER, &at, e) < 0)
        return -1;
    *out = json_integer_value(at);
    return 0;
}

int jneed_obj(const json_t *v, const char *path, json_t **out, struct err *e)
{
    return need(v, path, JSON_OBJECT, out, e);
}

json_t *jsn(struct str s)
{
    json_t *v = json_stringn(s.p ? s.p : "", s.n);
    if (v)
        return v;
    auto_buf struct buf clean = BUF_INIT(TEXT_MAX);
    while (s.n > 0) {
        const size_t n = utf8_first(s);
        if (n > 0)
            buf_add(&clean, s.p, n);
        else
            buf_add_c(&clean, "\xef\xbf\xbd");
        s = str_from(s, n > 0 ? n : 1);
    }
    v = json_stringn(buf_cstr(&clean), clean.n);
    assert(v && "valid by construction");
    return v;
}

json_t *js(const char *s)
{
    assert(s);
    return jsn(str_c(s));
}

json_t *jsf(const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    auto_free char *owned = n < 0 ? xstrdup("") : text;
    return js(owned);
}

json_t *ji(int64_t n)
{
    return json_integer(n);
}

json_t *jb(bool b)
{
    return json_boolean(b);
}

json_t *jobj_of(const struct jfield *fields)
{
    json_t *obj = json_object();
    for (const struct jfield *f = fields; f->key; f++) {
        if (f->left_out)
            continue;
        const int rc = json_object_set_new(obj, f->key, f->value);
        assert(rc == 0 && "a field needs a UTF-8 key and a value");
        (void)rc;
    }
    return obj;
}

json_t *jarr_of(json_t *const *elements)
{
    json_t *arr = json_array();
    for (; *elements; elements++)
        (void)json_array_append_new(arr, *elements); /* fails only for NULL */
    return arr;
}
