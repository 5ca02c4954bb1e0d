/* SPDX-License-Identifier: Apache-2.0
 * Events for people (events.k8s.io/v1), never a flood: what happens again is counted, and the
 * count is written rarely; one object gets a limited number of different events. Emitting does
 * not block; a thread writes. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "kube/client.h"

struct ctx;
struct kube_config;
struct metrics;
struct events;

enum {
    EVENT_NOTE_MAX = 1024,
    EVENT_KEYS_MAX = 4096,       /* remembered at once; more are dropped and counted */
    EVENT_BURST = 25,            /* different events of one object … */
    EVENT_REFILL_MS = 60 * 1000, /* … and one more each minute */
    EVENT_AGAIN_MS = 10 * 1000,  /* first update of a count; then ever more rarely … */
    EVENT_AGAIN_MAX_MS = 10 * 60 * 1000,
    EVENT_FORGET_MS = 6 * 60 * 1000, /* a series is over when nothing happened for so long */
};

/* What it is about, and the other object that takes part, if there is one, of the same
 * namespace. */
struct event_subject {
    const struct kube_kind *kind;
    const char *ns, *name, *uid;
    const struct kube_kind *related_kind; /* NULL: none */
    const char *related;
};

struct events_options {
    struct kube_config *config;
    const char *controller; /* reportingController: "raftsman/operator" */
    const char *instance;   /* reportingInstance */
    struct kube_guard guard;
    struct metrics *metrics; /* may be NULL */
    int64_t call_ms;         /* limit of a write */
    const struct clock *clock;
};

struct events *events_new(const struct events_options *o) NONNULL;
void events_free(struct events *ev); /* NULL-safe; joined */
NODISCARD int events_start(const struct ctx *ctx, struct events *ev, struct err *e);
/* Lets the thread write what it still has, for at most a second, and joins it. */
void events_stop(struct events *ev);

/* Thread-safe. `reason` and `action` are CamelCase, `note` is for people and passes the redaction
 * list. Events of one subject, related object, reason and action are one series. */
void event_normal(struct events *ev, const struct event_subject *about, const char *reason,
                  const char *action, const char *note);
void event_warning(struct events *ev, const struct event_subject *about, const char *reason,
                   const char *action, const char *note);
