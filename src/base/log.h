/* SPDX-License-Identifier: Apache-2.0
 * Structured log lines: a constant message and variable fields.
 *
 *     log_info(lg, "member added", KV("member", name), KV_HEX("id", id));
 *
 * debug: routine traffic · info: a decision or change one person would tell another · warn:
 * handled, will be retried · error: needs a human, or work was lost. Library folders log at debug
 * only. Every value passes the redaction list. Thread-safe: one write(2) per line. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"

struct clock;
struct err;

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_JSON, LOG_TEXT };

struct kv {
    const char *key;
    enum kv_type {
        KV_TYPE_STR,
        KV_TYPE_I64,
        KV_TYPE_U64,
        KV_TYPE_HEX,
        KV_TYPE_BOOL,
        KV_TYPE_ERR
    } type;
    union {
        const char *str;
        int64_t i64;
        uint64_t u64;
        bool boolean;
        const struct err *err;
    };
};

#define KV(k, v) ((struct kv){.key = (k), .type = KV_TYPE_STR, .str = (v)}) /* NULL: null */
#define KV_I64(k, v) ((struct kv){.key = (k), .type = KV_TYPE_I64, .i64 = (v)})
#define KV_U64(k, v) ((struct kv){.key = (k), .type = KV_TYPE_U64, .u64 = (v)})
#define KV_HEX(k, v) ((struct kv){.key = (k), .type = KV_TYPE_HEX, .u64 = (v)}) /* member ids */
#define KV_BOOL(k, v) ((struct kv){.key = (k), .type = KV_TYPE_BOOL, .boolean = (v)})
/* "error" with the text, "code" with the name, and "reason" if the other side gave one. */
#define KV_ERR(e) ((struct kv){.key = "error", .type = KV_TYPE_ERR, .err = (e)})

/* Where lines go. Set up once, before threads; immutable afterwards. */
struct log_sink {
    int fd;
    enum log_format format;
    enum log_level level; /* lines below it are dropped */
    bool colour;
    const struct clock *clock;
    pthread_mutex_t lock; /* guards: the order of lines on fd */
};

void log_sink_init(struct log_sink *s, int fd, enum log_format format, enum log_level level,
                   const struct clock *clock); /* colour: when fd is a terminal */
void log_sink_done(struct log_sink *s);

/* A logger is a sink and the fields its lines carry, chained to its parent. It borrows both:
 * child loggers live on the stack of whoever made them. */
struct log {
    struct log_sink *sink;
    const struct log *parent;
    const struct kv *fields;
    size_t n_fields;
};

/* The fields live until the end of the enclosing block. */
#define LOG_WITH(parent_, ...)                                                                     \
    ((struct log){.sink = (parent_)->sink,                                                         \
                  .parent = (parent_),                                                             \
                  .fields = (const struct kv[]){__VA_ARGS__},                                      \
                  .n_fields = sizeof((const struct kv[]){__VA_ARGS__}) / sizeof(struct kv)})

bool log_enabled(const struct log *lg, enum log_level level);

/* Lines are at most 16 KiB; longer values are cut and marked. */
void log_write(const struct log *lg, enum log_level level, const char *msg,
               const struct kv *fields); /* the list ends at a key that is NULL */

#define log_at(lg, level, msg, ...)                                                                \
    do {                                                                                           \
        if (log_enabled(lg, level))                                                                \
            log_write(lg, level, msg, (const struct kv[]){__VA_ARGS__ __VA_OPT__(, ){0}});         \
    } while (0)
#define log_debug(lg, ...) log_at(lg, LOG_DEBUG, __VA_ARGS__)
#define log_info(lg, ...) log_at(lg, LOG_INFO, __VA_ARGS__)
#define log_warn(lg, ...) log_at(lg, LOG_WARN, __VA_ARGS__)
#define log_error(lg, ...) log_at(lg, LOG_ERROR, __VA_ARGS__)
