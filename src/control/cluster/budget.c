/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/budget.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/thread.h"

struct slot {
    int64_t since_ms;
};

struct budget {
    const struct clock *clock;
    size_t max;
    pthread_mutex_t lock; /* guards: slots */
    struct map slots;     /* "ns/name" -> struct slot */
};

struct budget *budget_new(const struct clock *clock, size_t max)
{
    struct budget *b = xcalloc(1, sizeof(*b));
    b->clock = clock;
    b->max = max;
    (void)pthread_mutex_init(&b->lock, NULL); /* cannot fail without attributes */
    return b;
}

void budget_free(struct budget *b)
{
    if (!b)
        return;
    void *slot = NULL;
    for (size_t at = 0; map_next(&b->slots, &at, NULL, &slot);)
        free(slot);
    map_done(&b->slots);
    (void)pthread_mutex_destroy(&b->lock);
    free(b);
}

/* Slots that count now. Locked. */
static size_t taken(const struct budget *b, int64_t now_ms)
{
    size_t n = 0;
    void *slot = NULL;
    for (size_t at = 0; map_next(&b->slots, &at, NULL, &slot);)
        n += now_ms - ((struct slot *)slot)->since_ms < BUDGET_HOLD_MS;
    return n;
}

bool budget_take(struct budget *b, const struct objkey *key)
{
    char text[OBJKEY_TEXT_MAX];
    const struct str name = objkey_text(key, text);
    const int64_t now_ms = clock_boot_ms(b->clock);
    MUTEX_HOLD(&b->lock);
    struct slot *slot = map_get(&b->slots, name);
    if (slot && now_ms - slot->since_ms < BUDGET_HOLD_MS)
        return true; /* the next step of the same change */
    if (taken(b, now_ms) >= b->max)
        return false;
    if (!slot) {
        slot = xcalloc(1, sizeof(*slot));
        (void)map_put(&b->slots, name, slot);
    }
    slot->since_ms = now_ms;
    return true;
}

void budget_release(struct budget *b, const struct objkey *key)
{
    char text[OBJKEY_TEXT_MAX];
    MUTEX_HOLD(&b->lock);
    free(map_del(&b->slots, objkey_text(key, text)));
}
