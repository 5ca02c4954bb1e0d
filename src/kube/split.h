/* SPDX-License-Identifier: Apache-2.0
 * Cuts what a watch or a list answers into single JSON texts, as bytes arrive, without parsing
 * them and without ever holding more than one. No I/O.
 *
 * What cannot be parsed, or is too big to be, still has to be known by name and version, so that
 * one odd object does not stop a stream: split_salvage() finds these by looking at the brackets
 * and quotes alone. It accepts what JSON's grammar allows, at any depth and with any numbers; text
 * that breaks the grammar was garbled on its way and names nobody. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum split_mode {
    SPLIT_WATCH, /* one event per line */
    SPLIT_LIST,  /* one list object; each element of its "items" is a text */
};

enum { SPLIT_DEPTH_MAX = 32768, SPLIT_TOKEN_MAX = 16 * 1024 };

/* Who an object is. Fields that were absent, or hold what no name can, are empty. */
struct split_id {
    char type[12]; /* of the event: "ADDED"; only SPLIT_WATCH */
    char ns[64];
    char name[254];
    char uid[40];
    char version[24]; /* metadata.resourceVersion */
};

struct split_item {
    struct str text; /* borrowed for the call; empty when too_big */
    bool too_big;
    bool salvaged; /* only when too_big: id is to be believed */
    const struct split_id *id;
};

typedef int split_each_fn(void *arg, const struct split_item *item, struct err *e);

/* How far a text has been looked at. */
struct split_scan {
    unsigned char state, keys[4];
    bool capture_bad;
    unsigned int more_utf8; /* continuation bytes that must follow */
    size_t depth, base;     /* base 1: the text is an event, its object lies one deeper */
    char word[24];          /* the key or literal being read, as far as it fits */
    size_t word_n;
    char *into; /* where the string being read is captured */
    size_t into_max, into_n;
    unsigned char nesting[SPLIT_DEPTH_MAX / 8]; /* one bit per level: an object */
};

struct split {
    enum split_mode mode;
    size_t item_max;
    struct buf item;
    bool in_item, too_big;
    struct split_scan *list; /* SPLIT_LIST: where we are in the list */
    struct split_scan *scan; /* of an item that is too big */
    struct split_id id;
    /* SPLIT_LIST, valid after split_end(). */
    char version[24];
    char *token; /* of the next page; NULL: this was the last */
};

void split_init(struct split *s, enum split_mode mode, size_t item_max);
void split_done(struct split *s); /* idempotent */

/* -1: `each` failed, or ERR_CORRUPT: this is no list. */
NODISCARD int split_feed(struct split *s, struct str piece, split_each_fn *each, void *arg,
                         struct err *e);
/* The stream ended properly: ERR_CORRUPT if it was in the middle of something. */
NODISCARD int split_end(struct split *s, struct err *e);

/* False: the text is no JSON, or does not say its name and version. */
NODISCARD bool split_salvage(enum split_mode mode, struct str text, struct split_id *out);
