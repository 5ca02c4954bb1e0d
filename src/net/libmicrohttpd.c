/* SPDX-License-Identifier: Apache-2.0
 * libmicrohttpd's functions, as far as net/server.c calls them. */
#include "net/libmicrohttpd.h"

#include <microhttpd.h>
#include <stdarg.h>

#include "net/library.h"

#define FUNCTIONS(X)                                                                               \
    X(enum MHD_Result, MHD_add_response_header,                                                    \
      (struct MHD_Response * response, const char *header, const char *content),                   \
      (response, header, content))                                                                 \
    X(struct MHD_Response *, MHD_create_response_from_buffer,                                      \
      (size_t n, void *bytes, enum MHD_ResponseMemoryMode mode), (n, bytes, mode))                 \
    X(void, MHD_destroy_response, (struct MHD_Response * response), (response))                    \
    X(enum MHD_Result, MHD_lookup_connection_value_n,                                              \
      (struct MHD_Connection * connection, enum MHD_ValueKind kind, const char *key, size_t key_n, \
       const char **value, size_t *value_n),                                                       \
      (connection, kind, key, key_n, value, value_n))                                              \
    X(enum MHD_Result, MHD_queue_response,                                                         \
      (struct MHD_Connection * connection, unsigned int status, struct MHD_Response *response),    \
      (connection, status, response))                                                              \
    X(struct MHD_Daemon *, MHD_start_daemon_va,                                                    \
      (unsigned int flags, uint16_t port, MHD_AcceptPolicyCallback accept, void *accept_arg,       \
       MHD_AccessHandlerCallback answer, void *answer_arg, va_list options),                       \
      (flags, port, accept, accept_arg, answer, answer_arg, options))                              \
    X(void, MHD_stop_daemon, (struct MHD_Daemon * daemon), (daemon))

static struct {
#define FIELD(type, name, ...) __typeof__(name) *name;
    FUNCTIONS(FIELD)
} real;

int libmicrohttpd_load(struct err *e)
{
    static const struct library_function functions[] = {
#define ROW(type, name, ...) {#name, &real.name},
        FUNCTIONS(ROW)};
    static struct library library = {.file = "libmicrohttpd.so.12",
                                     .functions = functions,
                                     .n = COUNT_OF(functions),
                                     .lock = PTHREAD_MUTEX_INITIALIZER};
    return library_load(&library, e);
}

#define HAND_ON(type, name, parameters, arguments)                                                 \
    type(name) parameters                                                                          \
    {                                                                                              \
        return real.name arguments;                                                                \
    }
FUNCTIONS(HAND_ON)

/* NOLINTNEXTLINE(readability-function-size): the library says how many parameters */
struct MHD_Daemon *MHD_start_daemon(unsigned int flags, uint16_t port,
                                    MHD_AcceptPolicyCallback accept, void *accept_arg,
                                    MHD_AccessHandlerCallback answer, void *answer_arg, ...)
{
    va_list options;
    va_start(options, answer_arg);
    struct MHD_Daemon *daemon =
        real.MHD_start_daemon_va(flags, port, accept, accept_arg, answer, answer_arg, options);
    va_end(options);
    return daemon;
}
