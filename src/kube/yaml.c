/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/mem.h"

/* A container being filled. In a mapping `key` holds the key whose value comes next. */
struct level {
    json_t *into; /* borrowed: it is in its parent already */
    char *key;
};

struct reader {
    yaml_parser_t parser;
    struct level levels[YAML_DEPTH_MAX];
    size_t depth;
    size_t nodes;
    json_t *root;
};

static int fail_at(const yaml_mark_t *at, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID, 0, "yaml line %zu column %zu: %s", at->line + 1, at->column + 1,
                   why);
}

/* Puts a finished or just begun value where it belongs. Takes the value. */
static int place(struct reader *r, json_t *take_value, const yaml_mark_t *at, struct err *e)
{
    if (++r->nodes > YAML_NODES_MAX) {
        json_decref(take_value);
        return fail_at(at, "too many values", e);
    }
    if (r->depth == 0) {
        r->root = take_value;
        return 0;
    }
    struct level *top = &r->levels[r->depth - 1];
    if (json_is_array(top->into)) {
        (void)json_array_append_new(top->into, take_value); /* fails only for NULL */
        return 0;
    }
    if (!top->key) {
        if (!json_is_string(take_value)) {
            json_decref(take_value);
            return fail_at(at, "a key that is no string", e);
        }
        top->key = xstrdup(json_string_value(take_value));
        json_decref(take_value);
        return json_object_get(top->into, top->key) ? fail_at(at, "a key twice", e) : 0;
    }
    (void)json_object_set_new(top->into, top->key, take_value); /* the key is valid UTF-8 */
    free(TAKE(top->key));
    return 0;
}

static json_t *number_of(const char *text)
{
    const char *digits = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    if (digits[0] == '\0' || strspn(digits, "0123456789.eE+-") != strlen(digits) ||
        !(ascii_is_digit(digits[0]) || digits[0] == '.'))
        return NULL;
    int64_t whole = 0;
    const bool octal = digits[0] == '0' && digits[1] != '\0' && !strpbrk(digits, ".eE");
    if (!octal && str_i64(str_c(text[0] == '+' ? digits : text), &whole))
        return json_integer(whole);
    char *end = NULL;
    const double real = strtod(text, &end);
    return *end == '\0' && isfinite(real) && !octal ? json_real(real) : NULL;
}

/* The words of YAML's core schema. "yes" and "on" stay strings, as in kubectl's reader. */
static json_t *scalar_of(const yaml_event_t *ev)
{
    const struct str s = {(const char *)ev->data.scalar.value, ev->data.scalar.length};
    const bool plain = ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && !ev->data.scalar.tag;
    if (plain) {
        if (s.n == 0 || str_eq(s, STR("~")) || str_eq(s, STR("null")) || str_eq(s, STR("Null")))
            return json_null();
        if (str_eq_nocase(s, STR("true")))
            return json_true();
        if (str_eq_nocase(s, STR("false")))
            return json_false();
        json_t *number = memchr(s.p, '\0', s.n) ? NULL : number_of(s.p);
        if (number)
            return number;
    }
    return jsn(s);
}

static int begin(struct reader *r, json_t *take_container, const yaml_event_t *ev, struct err *e)
{
    if (r->depth == YAML_DEPTH_MAX) {
        json_decref(take_container);
        return fail_at(&ev->start_mark, "nested too deeply", e);
    }
    if (r->depth > 0 && json_is_object(r->levels[r->depth - 1].into) &&
        !r->levels[r->depth - 1].key) {
        json_decref(take_container);
        return fail_at(&ev->start_mark, "a key that is no string", e);
    }
    if (place(r, take_container, &ev->start_mark, e) < 0)
        return -1;
    r->levels[r->depth++] = (struct level){.into = take_container};
    return 0;
}

/* A key keeps its text whatever it looks like: `8080:` and `true:` are keys. */
static json_t *scalar_or_key(const struct reader *r, const yaml_event_t *ev)
{
    const struct level *top = r->depth > 0 ? &r->levels[r->depth - 1] : NULL;
    if (top && json_is_object(top->into) && !top->key)
        return jsn((struct str){(const char *)ev->data.scalar.value, ev->data.scalar.length});
    return scalar_of(ev);
}

static int take_event(struct reader *r, const yaml_event_t *ev, struct err *e)
{
    switch (ev->type) {
    case YAML_DOCUMENT_START_EVENT:
        return r->root ? fail_at(&ev->start_mark, "more than one document", e) : 0;
    case YAML_SCALAR_EVENT:
        return place(r, scalar_or_key(r, ev), &ev->start_mark, e);
    case YAML_SEQUENCE_START_EVENT:
        return begin(r, json_array(), ev, e);
    case YAML_MAPPING_START_EVENT:
        return begin(r, json_object(), ev, e);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return 0;
    case YAML_ALIAS_EVENT:
        return fail_at(&ev->start_mark, "aliases are not supported", e);
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

static int read_all(struct reader *r, struct err *e)
{
    for (bool end = false; !end;) {
        yaml_event_t ev;
        if (!yaml_parser_parse(&r->parser, &ev)) {
            const yaml_mark_t *at = &r->parser.problem_mark;
            return fail_at(at, r->parser.problem ? r->parser.problem : "unreadable", e);
        }
        const int rc = take_event(r, &ev, e);
        end = ev.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&ev);
        if (rc < 0)
            return -1;
    }
    return 0;
}

int yaml_parse(struct str text, json_t **out, struct err *e)
{
    struct reader r = {0};
    if (!yaml_parser_initialize(&r.parser))
        return err_set(e, ERR_UNAVAILABLE, 0, "yaml parser: out of memory");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)(text.p ? text.p : ""), text.n);
    const int rc = read_all(&r, e);
    yaml_parser_delete(&r.parser);
    for (size_t i = 0; i < r.depth; i++)
        free(r.levels[i].key);
    if (rc < 0) {
        json_decref(r.root);
        return -1;
    }
    *out = r.root ? r.root : json_null();
    return 0;
}
