/* SPDX-License-Identifier: Apache-2.0
 * Kubernetes objects stay json_t: no typed model, unknown fields survive. This is the one header
 * that shows a foreign type (docs/adr/0002).
 *
 * One ownership rule: builders consume what they are given, getters borrow. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

struct buf;

/* Before the first thread: seeds hashing, and lets jansson's small allocations abort like ours. */
void json_setup(void);

/* Strict: one value, no duplicate keys, valid UTF-8; depth is limited by jansson (2048).
 * ERR_INVALID names line and column. The ceiling is the caller's: s is already in memory. */
NODISCARD int jparse(struct str s, json_t **out, struct err *e);

/* Whether it is well-formed, whatever its numbers: ids of 64 bits do not fit an integer here. */
bool jvalid(struct str s);

/* Compact text with sorted keys: the form that is hashed and compared. Appends to out. */
NODISCARD int jdump(const json_t *v, struct buf *out, struct err *e);

/* --- Getters. A path is keys joined by dots; list elements are numbers: "spec.hosts.0.name".
 * The default is returned when the value is absent, null or of another type: use them for what
 * a schema has already checked, and jneed_…() for everything else. */
json_t *jget(const json_t *v, const char *path); /* NULL: absent; borrowed */
int64_t jint(const json_t *v, const char *path, int64_t dflt);
bool jbool(const json_t *v, const char *path, bool dflt);
const char *jstr(const json_t *v, const char *path, const char *dflt); /* borrowed from v */

/* Keys with dots in them: metadata.labels[key], metadata.annotations[key]; NULL when absent. */
const char *jlabel(const json_t *obj, const char *key);
const char *jannotation(const json_t *obj, const char *key);

/* Required: ERR_INVALID names the path and says whether it is missing or of the wrong type. */
NODISCARD int jneed_str(const json_t *v, const char *path, const char **out, struct err *e);
NODISCARD int jneed_int(const json_t *v, const char *path, int64_t *out, struct err *e);
NODISCARD int jneed_obj(const json_t *v, const char *path, json_t **out, struct err *e);

/* --- Builders. Never NULL; strings that are not UTF-8 get U+FFFD for each bad byte. */
json_t *js(const char *s) NONNULL;
json_t *jsn(struct str s) NONNULL;
json_t *jsf(const char *fmt, ...) FORMAT(1, 2) NONNULL;
json_t *ji(int64_t n) NONNULL;
json_t *jb(bool b) NONNULL;

struct jfield {
    const char *key;
    json_t *value;
    bool left_out;
};

#define J(key_, value_) ((struct jfield){.key = (key_), .value = (value_)})
/* The value is built only if the condition holds; otherwise the field is left out. */
#define J_IF(cond, key_, value_)                                                                   \
    ((cond) ? J(key_, value_) : (struct jfield){.key = (key_), .left_out = true})

/* Lists end in a sentinel: counting them in the macro would expand nested builders twice. */
#define JOBJ(...) jobj_of((struct jfield[]){__VA_ARGS__ __VA_OPT__(, ){0}})
#define JARR(...) jarr_of((json_t *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})
json_t *jobj_of(const struct jfield *fields) NONNULL;
json_t *jarr_of(json_t *const *elements) NONNULL;
