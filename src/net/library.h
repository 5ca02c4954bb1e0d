/* SPDX-License-Identifier: Apache-2.0
 * A shared library that is loaded by the first who needs it, and not with the program. libcurl and
 * libmicrohttpd bring about twenty others, which are more than half of the start of a subcommand
 * that speaks no HTTP.
 *
 * Who calls such a library does not know: the module that loads it defines the functions we use
 * under their own names and hands the calls on. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/attr.h"
#include "base/err.h"

struct library_function {
    const char *name;
    void *to; /* a pointer to a function of its type */
};

struct library {
    const char *file; /* as the dynamic linker looks for it, with its ABI version */
    const struct library_function *functions;
    size_t n;
    pthread_mutex_t lock; /* guards `loaded`, and what the functions point to until it is set */
    bool loaded;
};

/* Thread-safe; does nothing the second time. It stays loaded. ERR_UNAVAILABLE: the library or one
 * of the functions is not there. */
NODISCARD int library_load(struct library *l, struct err *e);
