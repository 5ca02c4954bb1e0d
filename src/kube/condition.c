/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/condition.h"

#include <string.h>

#include "base/time.h"

static json_t *find(const json_t *conditions, const char *type)
{
    size_t i = 0;
    json_t *at = NULL;
    json_array_foreach(conditions, i, at) if (strcmp(jstr(at, "type", ""), type) == 0) return at;
    return NULL;
}

const json_t *condition_get(const json_t *conditions, const char *type)
{
    return find(conditions, type);
}

bool conditions_alike(const json_t *a, const json_t *b)
{
    size_t i = 0;
    const json_t *each = NULL;
    if (json_array_size(a) != json_array_size(b))
        return false;
    json_array_foreach(a, i, each)
    {
        const json_t *other = condition_get(b, jstr(each, "type", ""));
        if (!other || strcmp(jstr(each, "status", ""), jstr(other, "status", "")) != 0 ||
            strcmp(jstr(each, "reason", ""), jstr(other, "reason", "")) != 0)
            return false;
    }
    return true;
}

bool condition_is_true(const json_t *conditions, const char *type)
{
    return strcmp(jstr(find(conditions, type), "status", ""), "True") == 0;
}

/* The API refuses a longer text, and with it the whole status. Cut at a character. */
static json_t *cut(const char *text, size_t max)
{
    struct str s = str_first(str_c(text), max);
    if (s.n == max)
        while (s.n > 0 && utf8_is_continuation(text[s.n]))
            s.n--;
    return jsn(s);
}

static bool put(json_t *into, const char *key, json_t *take_value)
{
    const bool same = json_equal(json_object_get(into, key), take_value) != 0;
    if (same)
        json_decref(take_value);
    else
        (void)json_object_set_new(into, key, take_value); /* keys of ours: never fails */
    return !same;
}

bool condition_set(json_t *conditions, const struct condition *c, int64_t now_us)
{
    json_t *at = find(conditions, c->type);
    bool changed = !at;
    if (!at) {
        at = JOBJ(J("type", js(c->type)));
        (void)json_array_append_new(conditions, at); /* fails only for NULL */
    }
    if (put(at, "status", js(c->status)) || !jget(at, "lastTransitionTime")) {
        char now[TIME_TEXT_MAX];
        (void)put(at, "lastTransitionTime", js(time_print(now_us, TIME_SECONDS, now)));
        changed = true;
    }
    changed |= put(at, "reason", cut(c->reason, CONDITION_REASON_MAX));
    changed |= put(at, "message", cut(c->message ? c->message : "", CONDITION_MESSAGE_MAX));
    if (c->generation > 0)
        changed |= put(at, "observedGeneration", ji(c->generation));
    return changed;
}
