/* SPDX-License-Identifier: Apache-2.0
 * Attributes and ownership macros: who frees what, said at the declaration. */
#pragma once
#include <stdlib.h>
#include <unistd.h>

#define NODISCARD __attribute__((warn_unused_result))
#define FORMAT(fmt, args) __attribute__((format(printf, fmt, args)))
#define NONNULL __attribute__((returns_nonnull))
#define NORETURN __attribute__((noreturn))

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Run fn(&variable) when the variable leaves its scope. */
#define AUTO(fn) __attribute__((cleanup(fn)))
/* For pointer types: defines fn_auto() so that AUTO(fn_auto) frees what the variable points to. */
#define AUTO_DEFINE(type, fn)                                                                      \
    static inline void fn##_auto(type **p)                                                         \
    {                                                                                              \
        fn(*p);                                                                                    \
    }

/* Hand a pointer out of its cleanup: yields the value and leaves NULL behind. */
#define TAKE(p)                                                                                    \
    ({                                                                                             \
        __typeof__(p) *at_ = &(p), was_ = *at_;                                                    \
        *at_ = NULL;                                                                               \
        was_;                                                                                      \
    })

static inline void free_auto(void *p)
{
    free(*(void **)p);
}

static inline void close_auto(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* nothing can be done about it here; writers check close themselves */
}

#define auto_free AUTO(free_auto)
#define auto_close AUTO(close_auto)
