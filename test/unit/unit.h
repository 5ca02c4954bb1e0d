/* SPDX-License-Identifier: Apache-2.0
 * What every unit test includes: cmocka, and the few helpers tests share. Test functions are
 * named by the sentence they prove. */
#pragma once
/* cmocka.h needs these before it. */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */
#include <stdlib.h>
#include <string.h>

#include "base/attr.h"
#include "base/err.h"

/* An argument names the tests to run; * stands for anything. */
#define TEST_MAIN(...)                                                                             \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        const struct CMUnitTest tests[] = {__VA_ARGS__};                                           \
        if (argc > 1)                                                                              \
            cmocka_set_test_filter(argv[1]);                                                       \
        return cmocka_run_group_tests(tests, NULL, NULL);                                          \
    }
#define TEST(fn) cmocka_unit_test(fn)

/* The call succeeded; otherwise the test ends with its error text. */
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            fail_msg("%s: %s", #call, e.text);                                                     \
    } while (0)

/* The call failed with this code, and its text contains this part. Both use the local `e`. */
#define assert_err(call, code_, part)                                                              \
    do {                                                                                           \
        e = (struct err){0};                                                                       \
        if ((call) == 0)                                                                           \
            fail_msg("%s succeeded", #call);                                                       \
        if (e.code != (code_) || !strstr(e.text, (part)))                                          \
            fail_msg("%s: got %s \"%s\"", #call, err_code_name(e.code), e.text);                   \
    } while (0)

/* A repeatable stream of numbers (splitmix64) for property tests; print the seed on failure. */
static inline uint64_t test_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static inline uint64_t test_below(uint64_t *state, uint64_t n)
{
    return test_next(state) % n;
}
