/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/identity.h"

#include <stdlib.h>

#include "etcd/errors.h"
#include "etcd/message.h"
#include "net/grpc.h"

enum { REQUEST_MAX = 64, ANSWER_MAX = 64 * 1024 };

struct grpc_call *identity_ask(struct grpc_conn *conn, int64_t timeout_ms)
{
    Pb__WatchCreate create = PB__WATCH_CREATE__INIT;
    create.key = bytes_of_str(STR("\0"));
    Pb__WatchRequest m = PB__WATCH_REQUEST__INIT;
    m.request_case = PB__WATCH_REQUEST__REQUEST_CREATE;
    m.create = &create;
    struct grpc_call *call =
        grpc_call_new(conn, &(struct grpc_call_options){.path = "/etcdserverpb.Watch/Watch",
                                                        .timeout_ms = timeout_ms,
                                                        .max_message_bytes = ANSWER_MAX});
    struct err e;
    auto_buf struct buf bytes = BUF_INIT(REQUEST_MAX);
    if (message_pack(&m, &bytes, &e) < 0 || grpc_call_send(call, buf_str(&bytes), false, &e) < 0)
        abort(); /* always the same few bytes: a bug */
    return call;
}

int identity_check(const char *url, uint64_t got, uint64_t want, struct err *e)
{
    if (got == want)
        return 0;
    if (got == 0)
        err_set(e, ERR_CONFLICT, 0, "%s does not say which cluster it belongs to, expected %llx",
                url, (unsigned long long)want);
    else
        err_set(e, ERR_CONFLICT, 0, "%s belongs to cluster %llx, expected %llx", url,
                (unsigned long long)got, (unsigned long long)want);
    etcd_error_mark(e, ETCD_CLUSTER_MISMATCH);
    return -1;
}
