/* SPDX-License-Identifier: Apache-2.0 */
#include "net/library.h"

#include <stdio.h>

#include "net/libcurl.h"
#include "net/libmicrohttpd.h"
#include "unit.h"

static void what_is_not_installed_is_named(void **state)
{
    (void)state;
    struct err e = {0};
    struct library none = {.file = "libraftsman-none.so.7", .lock = PTHREAD_MUTEX_INITIALIZER};
    assert_err(library_load(&none, &e), ERR_UNAVAILABLE, "libraftsman-none.so.7");
    assert_err(library_load(&none, &e), ERR_UNAVAILABLE, "cannot open"); /* nor the second time */
}

static void a_library_of_another_version_is_not_used(void **state)
{
    (void)state;
    struct err e = {0};
    double (*cosine)(double) = NULL;
    void (*none)(void) = NULL;
    const struct library_function functions[] = {{"cos", &cosine}, {"raftsman_none", &none}};
    struct library math = {.file = "libm.so.6",
                           .functions = functions,
                           .n = COUNT_OF(functions),
                           .lock = PTHREAD_MUTEX_INITIALIZER};
    assert_err(library_load(&math, &e), ERR_UNAVAILABLE, "raftsman_none");
    assert_null(none);
    math.n = 1;
    assert_ok(library_load(&math, &e));
    assert_true(cosine(0) == 1);
    math.file = "gone";
    assert_ok(library_load(&math, &e)); /* loaded once */
}

static bool is_loaded(const char *name)
{
    char line[4096];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof(line), maps))
        found = found || strstr(line, name);
    (void)fclose(maps);
    return found;
}

/* A library on the linker's command line would be there from the start. */
static void libraries_come_when_they_are_needed(void **state)
{
    (void)state;
    struct err e = {0};
    assert_false(is_loaded("libcurl") || is_loaded("libmicrohttpd"));
    assert_ok(libcurl_load(&e));
    assert_true(is_loaded("libcurl") && !is_loaded("libmicrohttpd"));
    assert_ok(libmicrohttpd_load(&e));
    assert_true(is_loaded("libmicrohttpd"));
}

TEST_MAIN(TEST(what_is_not_installed_is_named), TEST(a_library_of_another_version_is_not_used),
          TEST(libraries_come_when_they_are_needed))
