/* SPDX-License-Identifier: Apache-2.0
 * What we remember of the objects we watch: small structs, not objects.
 *
 * A view is immutable once published and shared by reference count: replaced, never changed. The
 * watch thread writes a set, everybody reads it. Absent from a set is not absent: only a live
 * read decides that (design: views may lag behind our own writes). */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/json.h"
#include "base/vec.h"
#include "control/runtime/intern.h"
#include "control/runtime/objkey.h"
#include "kube/kind.h"

struct view_set;

/* The head of every view. */
struct view {
    const struct view_kind *kind;
    const struct istr *ns;
    const struct istr *owner; /* "ns/name" of the key it belongs to; NULL: nobody's */
    char *name;
    uint64_t version; /* resourceVersion */
    atomic_uint refs;
    unsigned char uid[16];
};

/* A kind of view: how to make one of an object. */
struct view_kind {
    const struct kube_kind *kube;
    size_t size; /* of the struct that begins with a struct view */
    /* What project does not look at ("spec.containers"): left out before the object is parsed, as
     * metadata.managedFields always is. Ends in NULL; may be NULL. */
    const char *const *unread;
    /* Fills what follows the head, and head->owner; the rest of the head is filled already.
     * -1 quarantines the object. `done` is called in either case. Pure but for the table. */
    int (*project)(const json_t *object, struct intern *strings, struct view *out, struct err *e);
    void (*done)(struct view *v); /* releases what project took; may be NULL */
    /* Whether nothing changed that anybody waits for; NULL: every event counts. */
    bool (*same)(const struct view *a, const struct view *b);
};

const struct view *view_ref(const struct view *v);
void view_unref(const struct view *v); /* NULL-safe */

/* Name, version and UID of an object that is said to be of that kind, and its projection.
 * ERR_INVALID: metadata is not what it has to be, or what project says. */
NODISCARD int view_make(const struct view_kind *kind, const json_t *object, struct intern *strings,
                        struct view **out, struct err *e);

struct views { /* what a reader gets; each holds a reference */
    VEC(const struct view *) list;
};
void views_done(struct views *v); /* idempotent */

struct view_set *view_set_new(const struct view_kind *kind) NONNULL;
void view_set_free(struct view_set *s);  /* NULL-safe */
void view_set_clear(struct view_set *s); /* when nobody writes any more */

/* --- Readers --- */

const struct view *view_get(struct view_set *s, const char *ns, const char *name); /* or NULL */
void view_list_owner(struct view_set *s, const char *owner, struct views *out);
void view_list_all(struct view_set *s, struct views *out);
size_t view_count(struct view_set *s);

/* Objects that cannot be viewed: their keys, why, and at which version. */
typedef void view_quarantine_fn(void *arg, const char *key, const char *why);
size_t view_quarantined(struct view_set *s, view_quarantine_fn *each, void *arg); /* how many */

/* --- The writer: one thread --- */

enum { VIEW_SOURCES_MAX = 64, VIEW_QUARANTINE_MAX = 1000 };

/* What a change did. Both may be NULL; each holds a reference, for view_change_done(). */
struct view_change {
    const struct view *before, *now;
};
void view_change_done(struct view_change *c);

/* `source` tells apart several watches that fill one set (one per namespace). */
void view_put(struct view_set *s, unsigned int source, struct view *take_view,
              struct view_change *out);
void view_del(struct view_set *s, const char *ns, const char *name, struct view_change *out);
/* The view goes, the key stays known. */
void view_quarantine(struct view_set *s, unsigned int source, const char *ns, const char *name,
                     const char *why, struct view_change *out);

/* A list begins: what is not put or quarantined before it ends is gone from the server. Call
 * view_sweep() until it returns false; each call removes one. */
void view_sync_begin(struct view_set *s, unsigned int source);
NODISCARD bool view_sweep(struct view_set *s, unsigned int source, struct view_change *out);
