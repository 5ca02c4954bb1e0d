/* SPDX-License-Identifier: Apache-2.0
 * Protobuf payloads and the other values of etcd's buckets. What the strict check accepts, the
 * lenient decoder reads the same, and writing it again gives the same bytes. */
#include "base/json.h"
#include "datadir/buckets.h"
#include "datadir/mvcc.h"
#include "datadir/wire.h"
#include "fuzz.h"

static void check_canonical(struct str bytes, const struct mvcc_kv *kv)
{
    auto_buf struct buf again = BUF_INIT(1 << 20);
    if (kv->key.n > 0)
        wire_put_bytes(&again, 1, kv->key);
    if (kv->create_revision != 0)
        wire_put_number(&again, 2, (uint64_t)kv->create_revision);
    if (kv->mod_revision != 0)
        wire_put_number(&again, 3, (uint64_t)kv->mod_revision);
    if (kv->version != 0)
        wire_put_number(&again, 4, (uint64_t)kv->version);
    if (kv->value.n > 0)
        wire_put_bytes(&again, 5, kv->value);
    if (kv->lease != 0)
        wire_put_number(&again, 6, (uint64_t)kv->lease);
    FUZZ_CHECK(str_eq(buf_str(&again), bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    const struct str bytes = {(const char *)data + 2, size - 2};
    const struct mvcc_revision at = {data[0], 0, data[1] % 2};
    struct err e = {0};
    struct mvcc_kv kv, same;
    struct mvcc_revision revision;
    if (mvcc_entry_check(&at, bytes, &kv, &e) == 0) {
        check_canonical(bytes, &kv);
        FUZZ_CHECK(mvcc_kv_decode(bytes, &same, &e) == 0);
        FUZZ_CHECK(str_eq(kv.key, same.key) && kv.mod_revision == same.mod_revision);
    } else {
        /* What is only odd can be read. */
        const bool odd = e.code == ERR_INVALID;
        FUZZ_CHECK((odd || e.code == ERR_CORRUPT) && e.text[0] != '\0');
        FUZZ_CHECK(odd == (mvcc_kv_decode(bytes, &same, &e) == 0));
    }
    if (mvcc_revision_decode(bytes, &revision, &e) == 0)
        FUZZ_CHECK(revision.main > 0 && revision.sub >= 0);
    const size_t cut = data[0] < bytes.n ? data[0] : bytes.n;
    for (int b = BUCKET_UNKNOWN; b <= BUCKET_META; b++)
        FUZZ_CHECK(bucket_entry_check((enum bucket)b, str_first(bytes, cut), str_from(bytes, cut),
                                      &e) == 0 ||
                   e.code == ERR_CORRUPT || e.code == ERR_INVALID);
    return 0;
}
