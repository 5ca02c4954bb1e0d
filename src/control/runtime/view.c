/* SPDX-License-Identifier: Apache-2.0
 * Slots are kept by key in a map and chained by owner. A slot without a view stands for an object
 * in quarantine.
 *
 * Deletion detection: each source counts its lists, a slot remembers the count at which it was
 * last seen, and what lags behind at the end of a list is gone. */
#include "control/runtime/view.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"

struct slot {
    struct view *view;         /* NULL: in quarantine */
    struct slot *next, **link; /* of the same owner */
    char *why;                 /* in quarantine */
    uint32_t seen;
    uint16_t source;
};

struct chain { /* of one owner */
    struct slot *first;
};

struct view_set {
    const struct view_kind *kind;
    uint32_t lists[VIEW_SOURCES_MAX]; /* the writer's alone, like the next two */
    VEC(char *) stale;
    bool sweeping;

    pthread_mutex_t lock; /* guards: everything below; views are unreferenced outside of it */
    struct map slots;     /* "ns/name" → struct slot */
    struct map owners;    /* owner → struct chain */
    size_t n_views, n_quarantined;
};

/* --- Views --- */

const struct view *view_ref(const struct view *v)
{
    if (v)
        atomic_fetch_add(&((struct view *)v)->refs, 1); /* the count is not what is shared */
    return v;
}

void view_unref(const struct view *shared)
{
    struct view *v = (struct view *)shared;
    if (!v || atomic_fetch_sub(&v->refs, 1) > 1)
        return;
    if (v->kind->done)
        v->kind->done(v);
    istr_unref(v->ns);
    istr_unref(v->owner);
    free(v->name);
    free(v);
}

static int hex_of(char c)
{
    c = ascii_lower(c);
    return ascii_is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* "7f1b…-…": 32 digits, hyphens anywhere. Anything else is not a UID of ours: zeros. */
static void parse_uid(const char *text, unsigned char out[16])
{
    unsigned char uid[16] = {0};
    size_t n = 0;
    for (; *text; text++) {
        if (*text == '-')
            continue;
        const int digit = hex_of(*text);
        if (digit < 0 || n == 32)
            return;
        uid[n / 2] = (unsigned char)(uid[n / 2] << 4 | digit);
        n++;
    }
    if (n == 32)
        memcpy(out, uid, sizeof(uid));
}

int view_make(const struct view_kind *kind, const json_t *object, struct intern *strings,
              struct view **out, struct err *e)
{
    const char *name = NULL, *version = NULL;
    const char *ns = jstr(object, "metadata.namespace", "");
    struct objkey key;
    if (jneed_str(object, "metadata.name", &name, e) < 0 ||
        jneed_str(object, "metadata.resourceVersion", &version, e) < 0)
        return -1;
    if (!objkey_set(&key, ns, name))
        return err_set(e, ERR_INVALID, 0, "metadata.name or namespace is too long");
    struct view *v = xcalloc(1, kind->size);
    v->kind = kind;
    atomic_init(&v->refs, 1);
    v->ns = intern(strings, str_c(ns));
    v->name = xstrdup(name);
    (void)!str_u64(str_c(version), &v->version); /* opaque by contract: 0 if it is no number */
    parse_uid(jstr(object, "metadata.uid", ""), v->uid);
    if (kind->project(object, strings, v, e) < 0) {
        view_unref(v);
        return -1;
    }
    *out = v;
    return 0;
}

void views_done(struct views *v)
{
    for (size_t i = 0; i < v->list.n; i++)
        view_unref(v->list.v[i]);
    vec_done(&v->list);
}

void view_change_done(struct view_change *c)
{
    view_unref(c->before);
    view_unref(c->now);
    *c = (struct view_change){0};
}

/* --- The set --- */

struct view_set *view_set_new(const struct view_kind *kind)
{
    struct view_set *s = xcalloc(1, sizeof(*s));
    s->kind = kind;
    (void)pthread_mutex_init(&s->lock, NULL); /* cannot fail without attributes */
    return s;
}

void view_set_clear(struct view_set *s)
{
    void *at = NULL;
    MUTEX_HOLD(&s->lock);
    for (size_t i = 0; map_next(&s->slots, &i, NULL, &at);) {
        struct slot *slot = at;
        view_unref(slot->view);
        free(slot->why);
        free(slot);
    }
    for (size_t i = 0; map_next(&s->owners, &i, NULL, &at);)
        free(at);
    for (size_t i = 0; i < s->stale.n; i++)
        free(s->stale.v[i]);
    vec_done(&s->stale);
    map_done(&s->slots);
    map_done(&s->owners);
    s->n_views = s->n_quarantined = 0;
}

void view_set_free(struct view_set *s)
{
    if (!s)
        return;
    view_set_clear(s);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

static struct str key_of(const char *ns, const char *name, char out[OBJKEY_TEXT_MAX])
{
    struct objkey key;
    const bool good = objkey_set(&key, ns, name);
    return good ? objkey_text(&key, out) : (struct str){0};
}

const struct view *view_get(struct view_set *s, const char *ns, const char *name)
{
    char text[OBJKEY_TEXT_MAX];
    const struct str key = key_of(ns, name, text);
    MUTEX_HOLD(&s->lock);
    const struct slot *slot = map_get(&s->slots, key);
    return slot ? view_ref(slot->view) : NULL;
}

void view_list_owner(struct view_set *s, const char *owner, struct views *out)
{
    MUTEX_HOLD(&s->lock);
    const struct chain *chain = map_get(&s->owners, str_c(owner));
    for (const struct slot *slot = chain ? chain->first : NULL; slot; slot = slot->next)
        vec_push(&out->list, view_ref(slot->view));
}

void view_list_all(struct view_set *s, struct views *out)
{
    MUTEX_HOLD(&s->lock);
    void *at = NULL;
    for (size_t i = 0; map_next(&s->slots, &i, NULL, &at);) {
        const struct slot *slot = at;
        if (slot->view)
            vec_push(&out->list, view_ref(slot->view));
    }
}

size_t view_count(struct view_set *s)
{
    MUTEX_HOLD(&s->lock);
    return s->n_views;
}

size_t view_quarantined(struct view_set *s, view_quarantine_fn *each, void *arg)
{
    MUTEX_HOLD(&s->lock);
    void *at = NULL;
    struct str key;
    for (size_t i = 0; each && map_next(&s->slots, &i, &key, &at);) {
        const struct slot *slot = at;
        auto_free char *text = slot->view ? NULL : str_dup(key);
        if (text)
            each(arg, text, slot->why);
    }
    return s->n_quarantined;
}

/* --- Writing; the lock is held in the helpers --- */

static void chain_add(struct view_set *s, struct slot *slot)
{
    const struct istr *owner = slot->view ? slot->view->owner : NULL;
    if (!owner)
        return;
    struct chain *chain = map_get(&s->owners, str_c(owner->text));
    if (!chain) {
        chain = xcalloc(1, sizeof(*chain));
        map_put(&s->owners, str_c(owner->text), chain);
    }
    slot->next = chain->first;
    slot->link = &chain->first;
    if (slot->next)
        slot->next->link = &slot->next;
    chain->first = slot;
}

static void chain_del(struct view_set *s, struct slot *slot)
{
    if (!slot->link)
        return;
    *slot->link = slot->next;
    if (slot->next)
        slot->next->link = slot->link;
    slot->link = NULL;
    slot->next = NULL;
    const struct str owner = str_c(slot->view->owner->text);
    const struct chain *chain = map_get(&s->owners, owner);
    if (!chain->first)
        free(map_del(&s->owners, owner));
}

/* Empties a slot: its view, if any, moves to the change. */
static void clear(struct view_set *s, struct slot *slot, struct view_change *out)
{
    chain_del(s, slot);
    if (slot->view)
        s->n_views--;
    if (slot->why)
        s->n_quarantined--;
    out->before = TAKE(slot->view);
    free(TAKE(slot->why));
}

static struct slot *slot_for(struct view_set *s, struct str key, unsigned int source,
                             struct view_change *out)
{
    assert(source < VIEW_SOURCES_MAX);
    struct slot *slot = map_get(&s->slots, key);
    if (slot) {
        clear(s, slot, out);
    } else {
        slot = xcalloc(1, sizeof(*slot));
        map_put(&s->slots, key, slot);
    }
    slot->source = (uint16_t)source;
    slot->seen = s->lists[source];
    return slot;
}

void view_put(struct view_set *s, unsigned int source, struct view *take_view,
              struct view_change *out)
{
    char text[OBJKEY_TEXT_MAX];
    const struct str key = key_of(take_view->ns->text, take_view->name, text);
    MUTEX_HOLD(&s->lock);
    struct slot *slot = slot_for(s, key, source, out);
    slot->view = take_view;
    s->n_views++;
    chain_add(s, slot);
    out->now = view_ref(take_view);
}

/* The slot's place in the map goes as well. */
static void drop(struct view_set *s, struct str key, struct slot *slot, struct view_change *out)
{
    clear(s, slot, out);
    (void)map_del(&s->slots, key);
    free(slot);
}

void view_del(struct view_set *s, const char *ns, const char *name, struct view_change *out)
{
    char text[OBJKEY_TEXT_MAX];
    const struct str key = key_of(ns, name, text);
    MUTEX_HOLD(&s->lock);
    struct slot *slot = map_get(&s->slots, key);
    if (slot)
        drop(s, key, slot, out);
}

void view_quarantine(struct view_set *s, unsigned int source, const char *ns, const char *name,
                     const char *why, struct view_change *out)
{
    char text[OBJKEY_TEXT_MAX];
    const struct str key = key_of(ns, name, text);
    if (key.n == 0)
        return;
    MUTEX_HOLD(&s->lock);
    struct slot *slot = map_get(&s->slots, key);
    if (s->n_quarantined >= VIEW_QUARANTINE_MAX) { /* a flood of them must not become ours */
        if (slot)
            drop(s, key, slot, out);
        return;
    }
    slot = slot_for(s, key, source, out);
    slot->why = xstrdup(why);
    s->n_quarantined++;
}

void view_sync_begin(struct view_set *s, unsigned int source)
{
    assert(source < VIEW_SOURCES_MAX);
    s->lists[source]++;
}

/* The lock is held. */
static void collect_stale(struct view_set *s, unsigned int source)
{
    void *at = NULL;
    struct str key;
    for (size_t i = 0; map_next(&s->slots, &i, &key, &at);) {
        const struct slot *slot = at;
        if (slot->source == source && slot->seen != s->lists[source])
            vec_push(&s->stale, str_dup(key));
    }
    s->sweeping = true;
}

bool view_sweep(struct view_set *s, unsigned int source, struct view_change *out)
{
    MUTEX_HOLD(&s->lock);
    if (!s->sweeping)
        collect_stale(s, source);
    if (s->stale.n == 0) {
        vec_done(&s->stale);
        s->sweeping = false;
        return false;
    }
    auto_free char *key = s->stale.v[--s->stale.n];
    struct slot *slot = map_get(&s->slots, str_c(key));
    if (slot)
        drop(s, str_c(key), slot, out);
    return true;
}
