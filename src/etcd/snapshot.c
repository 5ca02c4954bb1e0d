/* SPDX-License-Identifier: Apache-2.0
 * The server sends the database in pieces, then 32 bytes of SHA-256 over it, then its status.
 * Which bytes are the digest is known only at the end, so the hash lags 32 bytes behind. */
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "etcd/client_internal.h"
#include "etcd/maintenance.h"
#include "net/grpc.h"

enum { SECTOR = 512 }; /* every database is a multiple of its page size, which is one of this */

static const struct etcd_rpc rpc_snapshot = {
    .path = "/etcdserverpb.Maintenance/Snapshot",
    .response = &pb__snapshot_response__descriptor,
    .unchecked = true,
};

struct intake {
    size_t at, endpoint; /* asked for, and chosen */
    int (*write)(void *arg, struct str bytes, struct err *e);
    void *arg;
    bool stale;         /* it ended because the token was not taken */
    uint64_t announced; /* by the first piece */
    struct sha256 *hash;
    unsigned char tail[SHA256_BYTES]; /* the last bytes seen, not hashed yet */
    size_t tail_n;
    uint64_t bytes;
};

static void hash_all_but_tail(struct intake *in, struct str piece)
{
    in->bytes += piece.n;
    if (piece.n >= SHA256_BYTES) {
        sha256_add(in->hash, (struct str){(char *)in->tail, in->tail_n});
        sha256_add(in->hash, str_first(piece, piece.n - SHA256_BYTES));
        memcpy(in->tail, piece.p + piece.n - SHA256_BYTES, SHA256_BYTES);
        in->tail_n = SHA256_BYTES;
        return;
    }
    const size_t over =
        in->tail_n + piece.n > SHA256_BYTES ? in->tail_n + piece.n - SHA256_BYTES : 0;
    sha256_add(in->hash, (struct str){(char *)in->tail, over});
    memmove(in->tail, in->tail + over, in->tail_n - over);
    memcpy(in->tail + in->tail_n - over, piece.p, piece.n);
    in->tail_n += piece.n - over;
}

static int check(struct intake *in, struct etcd_snapshot *out, struct err *e)
{
    unsigned char digest[SHA256_BYTES];
    sha256_finish(in->hash, digest);
    if (in->bytes % SECTOR != SHA256_BYTES)
        return err_set(e, ERR_CORRUPT, 0, "snapshot of %llu bytes does not end in a digest",
                       (unsigned long long)in->bytes);
    if (in->bytes - SHA256_BYTES != in->announced)
        return err_set(e, ERR_CORRUPT, 0, "snapshot has %llu bytes, %llu were announced",
                       (unsigned long long)(in->bytes - SHA256_BYTES),
                       (unsigned long long)in->announced);
    if (memcmp(digest, in->tail, SHA256_BYTES) != 0)
        return err_set(e, ERR_CORRUPT, 0, "snapshot does not match its digest");
    out->size_bytes = in->announced;
    (void)sha256_print(digest, out->sha256);
    return 0;
}

/* One attempt: all pieces, up to the server's final status. */
static int receive(const struct ctx *ctx, struct etcd_client *c, struct intake *in,
                   struct etcd_snapshot *out, struct err *e)
{
    const Pb__Empty request = PB__EMPTY__INIT;
    auto_buf struct buf bytes = BUF_INIT(16);
    AUTO(grpc_call_free_auto) struct grpc_call *call = NULL;
    if (message_pack(&request, &bytes, e) < 0 ||
        etcd_stream(ctx, c, in->at, &rpc_snapshot, &call, &in->endpoint, e) < 0 ||
        grpc_call_send(call, buf_str(&bytes), true, e) < 0)
        return -1;
    for (;;) {
        AUTO(etcd_reply_done) struct etcd_reply reply = {0};
        const int got = etcd_stream_next(ctx, c, in->endpoint, &rpc_snapshot, call, &reply, e);
        if (got < 0)
            in->stale = etcd_stream_failed(c, in->endpoint, e);
        if (got <= 0)
            return got;
        const Pb__SnapshotResponse *r = reply.message;
        const struct str blob = str_of_bytes(r->blob);
        if (in->bytes == 0) {
            in->announced = r->remaining_bytes + blob.n;
            (void)snprintf(out->version, sizeof(out->version), "%s", r->version);
        }
        hash_all_but_tail(in, blob);
        if (in->write(in->arg, blob, e) < 0)
            return -1;
    }
}

int etcd_snapshot(const struct ctx *ctx, struct etcd_client *c, size_t at,
                  int (*write)(void *arg, struct str bytes, struct err *e), void *arg,
                  struct etcd_snapshot *out, struct err *e)
{
    AUTO(sha256_free_auto) struct sha256 *hash = sha256_new();
    struct intake in = {.at = at, .write = write, .arg = arg, .hash = hash};
    struct etcd_snapshot result = {0};
    int rc = receive(ctx, c, &in, &result, e);
    if (rc < 0 && in.stale && in.bytes == 0) /* nobody has seen anything yet */
        rc = receive(ctx, c, &in, &result, e);
    if (rc < 0)
        return err_wrap(e, "snapshot");
    if (check(&in, &result, e) < 0)
        return err_wrap(e, "snapshot of %s", etcd_client_url(c, in.endpoint));
    *out = result;
    return 0;
}
