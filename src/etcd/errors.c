/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/errors.h"

#include <stdio.h>
#include <string.h>

static const struct row {
    const char *name;
    enum err_code read, mutating;
    struct str text;
} rows[ETCD_ERRORS_N] = {
#define X(name, read, mutating, text)                                                              \
    [ETCD_##name] = {#name, ERR_##read, ERR_##mutating, STR(text)},
    ETCD_ERRORS(X)
#undef X
};

static const struct str prefix = STR("etcdserver: ");

/* The same words without the prefix, as the server's inner packages print them. */
static const struct {
    struct str text;
    enum etcd_error means;
} unmapped[] = {
    {STR("auth: permission denied"), ETCD_PERMISSION_DENIED},
    {STR("auth: user name is empty"), ETCD_NO_CREDENTIALS},
    {STR("auth: invalid auth token"), ETCD_BAD_TOKEN},
    {STR("auth: revision in header is old"), ETCD_OLD_TOKEN},
    {STR("mvcc: required revision has been compacted"), ETCD_COMPACTED},
    {STR("mvcc: required revision is a future revision"), ETCD_FUTURE_REVISION},
    {STR("mvcc: database space exceeded"), ETCD_NO_SPACE},
};

/* Reasons of canceled watches come as Go prints them: "rpc error: code = X desc = text". */
static struct str bare(struct str message)
{
    static const struct str mark = STR(" desc = ");
    if (!str_starts(message, STR("rpc error: code = ")))
        return message;
    const char *at = memmem(message.p, message.n, mark.p, mark.n);
    return at ? str_from(message, (size_t)(at - message.p) + mark.n) : message;
}

enum etcd_error etcd_error_of(struct str message)
{
    message = bare(message);
    for (size_t i = ETCD_NONE + 1; i < ETCD_ERRORS_N; i++)
        if (str_eq(message, rows[i].text))
            return (enum etcd_error)i;
    /* "request timed out, possibly due to connection lost" */
    if (str_starts(message, rows[ETCD_TIMED_OUT].text))
        return ETCD_TIMED_OUT;
    for (size_t i = 0; i < COUNT_OF(unmapped); i++)
        if (str_eq(message, unmapped[i].text))
            return unmapped[i].means;
    return ETCD_NONE;
}

int etcd_error_map(struct str message, bool mutating, struct err *e)
{
    const enum etcd_error what = etcd_error_of(message);
    if (what == ETCD_NONE)
        return -1;
    const struct row *r = &rows[what];
    message = bare(message);
    const struct str said = str_starts(message, prefix) ? str_from(message, prefix.n) : message;
    err_set(e, mutating ? r->mutating : r->read, e->origin, "%.*s", STR_ARG(said));
    etcd_error_mark(e, what);
    return -1;
}

bool etcd_error_is(const struct err *e, enum etcd_error what)
{
    return what != ETCD_NONE && strcmp(e->reason, rows[what].name) == 0;
}

void etcd_error_mark(struct err *e, enum etcd_error what)
{
    (void)snprintf(e->reason, sizeof(e->reason), "%s", rows[what].name);
}

bool etcd_error_is_stale_token(const struct err *e)
{
    return etcd_error_is(e, ETCD_BAD_TOKEN) || etcd_error_is(e, ETCD_OLD_TOKEN) ||
           etcd_error_is(e, ETCD_NO_CREDENTIALS);
}
