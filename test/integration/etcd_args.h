/* SPDX-License-Identifier: Apache-2.0
 * What the C programs of the etcd tests share: options, a client made from them, checks. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/err.h"
#include "base/mem.h"
#include "etcd/client.h"

enum { ENDPOINTS_MAX = 512 };

struct etcd_args {
    struct etcd_endpoint endpoints[ENDPOINTS_MAX];
    size_t n_endpoints;
    char *urls; /* what the endpoints point into */
    struct tls_client *tls;
    const char *user;
    struct buf password;
    uint64_t cluster_id;
    int64_t timeout_ms;
    int64_t count;
    int64_t revision;
    int64_t keepalive_ms;
    size_t n_words;
    const char *words[8]; /* what is no option */
    struct ctx root;
};

/* Exits with usage on nonsense. */
void etcd_args_init(struct etcd_args *a, int argc, const char *const *argv);
void etcd_args_done(struct etcd_args *a);
struct etcd_client *etcd_args_client(const struct etcd_args *a);

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define OK(call)                                                                                   \
    do {                                                                                           \
        struct err *e_ = &e;                                                                       \
        if ((call) < 0) {                                                                          \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, err_code_name(e_->code),  \
                          e_->text);                                                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
#define FAILS(call, code_)                                                                         \
    do {                                                                                           \
        e = (struct err){0};                                                                       \
        if ((call) == 0 || e.code != (code_)) {                                                    \
            (void)fprintf(stderr, "%s:%d: expected %s, got %s: %s\n", __FILE__, __LINE__, #code_,  \
                          err_code_name(e.code), e.text);                                          \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)
