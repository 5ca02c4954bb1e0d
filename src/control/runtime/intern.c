/* SPDX-License-Identifier: Apache-2.0 */
#include "control/runtime/intern.h"

#include <assert.h>
#include <pthread.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"

struct intern {
    pthread_mutex_t lock; /* guards: the map and the counts of its strings */
    struct map strings;
};

struct intern *intern_new(void)
{
    struct intern *t = xcalloc(1, sizeof(*t));
    (void)pthread_mutex_init(&t->lock, NULL); /* cannot fail without attributes */
    return t;
}

void intern_free(struct intern *t)
{
    if (!t)
        return;
    assert(t->strings.n == 0 && "an interned string was not released");
    map_done(&t->strings);
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

const struct istr *intern(struct intern *t, struct str text)
{
    MUTEX_HOLD(&t->lock);
    struct istr *s = map_get(&t->strings, text);
    if (!s) {
        s = xcalloc(1, sizeof(*s) + text.n + 1);
        s->table = t;
        if (text.n > 0)
            memcpy(s->text, text.p, text.n);
        map_put(&t->strings, text, s);
    }
    s->refs++;
    return s;
}

void istr_unref(const struct istr *shared)
{
    if (!shared)
        return;
    struct istr *s = (struct istr *)shared; /* the count is not part of what is shared */
    MUTEX_HOLD(&s->table->lock);
    if (--s->refs > 0)
        return;
    map_del(&s->table->strings, str_c(s->text));
    free(s);
}

size_t intern_count(struct intern *t)
{
    MUTEX_HOLD(&t->lock);
    return t->strings.n;
}
