/* SPDX-License-Identifier: Apache-2.0
 * libcurl's functions, as far as net/http.c calls them. */
#define CURL_DISABLE_TYPECHECK 1 /* its macros have the names that are defined here */
#include "net/libcurl.h"

#include <assert.h>
#include <curl/curl.h>
#include <stdarg.h>

#include "net/library.h"

/* const in newer headers. */
#define URL_TO_READ                                                                                \
    __typeof__(_Generic(&curl_url_get, CURLUcode(*)(const CURLU *, CURLUPart, char **, unsigned)   \
                        : (const CURLU *)NULL, default                                             \
                        : (CURLU *)NULL))

#define FUNCTIONS(X)                                                                               \
    X(CURL *, curl_easy_init, (void), ())                                                          \
    X(void, curl_easy_cleanup, (CURL * easy), (easy))                                              \
    X(const char *, curl_easy_strerror, (CURLcode code), (code))                                   \
    X(void, curl_free, (void *p), (p))                                                             \
    X(CURLcode, curl_global_init, (long flags), (flags))                                           \
    X(CURLM *, curl_multi_init, (void), ())                                                        \
    X(CURLMcode, curl_multi_cleanup, (CURLM * multi), (multi))                                     \
    X(CURLMcode, curl_multi_add_handle, (CURLM * multi, CURL * easy), (multi, easy))               \
    X(CURLMcode, curl_multi_remove_handle, (CURLM * multi, CURL * easy), (multi, easy))            \
    X(CURLMcode, curl_multi_perform, (CURLM * multi, int *running), (multi, running))              \
    X(CURLMcode, curl_multi_poll,                                                                  \
      (CURLM * multi, struct curl_waitfd fds[], unsigned int n, int timeout_ms, int *ready),       \
      (multi, fds, n, timeout_ms, ready))                                                          \
    X(CURLMcode, curl_multi_wakeup, (CURLM * multi), (multi))                                      \
    X(CURLMsg *, curl_multi_info_read, (CURLM * multi, int *left), (multi, left))                  \
    X(const char *, curl_multi_strerror, (CURLMcode code), (code))                                 \
    X(struct curl_slist *, curl_slist_append, (struct curl_slist * list, const char *text),        \
      (list, text))                                                                                \
    X(void, curl_slist_free_all, (struct curl_slist * list), (list))                               \
    X(CURLU *, curl_url, (void), ())                                                               \
    X(void, curl_url_cleanup, (CURLU * url), (url))                                                \
    X(CURLUcode, curl_url_get, (URL_TO_READ url, CURLUPart what, char **part, unsigned flags),     \
      (url, what, part, flags))                                                                    \
    X(CURLUcode, curl_url_set, (CURLU * url, CURLUPart what, const char *part, unsigned flags),    \
      (url, what, part, flags))
#define VARIADIC(X) X(curl_easy_setopt) X(curl_easy_getinfo) X(curl_multi_setopt)

static struct {
#define FIELD(type, name, ...) __typeof__(name) *name;
    FUNCTIONS(FIELD)
#define VARIADIC_FIELD(name) __typeof__(name) *name;
    VARIADIC(VARIADIC_FIELD)
} real;

int libcurl_load(struct err *e)
{
    static const struct library_function functions[] = {
#define ROW(type, name, ...) {#name, &real.name},
        FUNCTIONS(ROW)
#define VARIADIC_ROW(name) {#name, &real.name},
            VARIADIC(VARIADIC_ROW)};
    static struct library library = {.file = "libcurl.so.4",
                                     .functions = functions,
                                     .n = COUNT_OF(functions),
                                     .lock = PTHREAD_MUTEX_INITIALIZER};
    return library_load(&library, e);
}

#define HAND_ON(type, name, parameters, arguments)                                                 \
    type(name) parameters                                                                          \
    {                                                                                              \
        return (real.name)arguments;                                                               \
    }
FUNCTIONS(HAND_ON)

/* What kind of value follows an option is part of its number. */
CURLcode(curl_easy_setopt)(CURL *easy, CURLoption option, ...)
{
    va_list values;
    CURLcode rc;
    va_start(values, option);
    if (option < CURLOPTTYPE_OBJECTPOINT)
        /* NOLINTNEXTLINE(bugprone-branch-clone): each takes another type */
        rc = (real.curl_easy_setopt)(easy, option, va_arg(values, long));
    else if (option >= CURLOPTTYPE_OFF_T && option < CURLOPTTYPE_BLOB)
        rc = (real.curl_easy_setopt)(easy, option, va_arg(values, curl_off_t));
    else /* also those to functions: POSIX has them of the same size and kind */
        rc = (real.curl_easy_setopt)(easy, option, va_arg(values, void *));
    va_end(values);
    return rc;
}

CURLcode(curl_easy_getinfo)(CURL *easy, CURLINFO info, ...)
{
    va_list values;
    va_start(values, info);
    const CURLcode rc = (real.curl_easy_getinfo)(easy, info, va_arg(values, void *));
    va_end(values);
    return rc;
}

CURLMcode(curl_multi_setopt)(CURLM *multi, CURLMoption option, ...)
{
    va_list values;
    va_start(values, option);
    assert(option < CURLOPTTYPE_OBJECTPOINT); /* all that we set are numbers */
    const CURLMcode rc = (real.curl_multi_setopt)(multi, option, va_arg(values, long));
    va_end(values);
    return rc;
}
