/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/mvcc.h"

#include <endian.h>
#include <inttypes.h>

#include "datadir/wire.h"

enum { SEPARATOR_AT = 8, TOMBSTONE_AT = 17 };

static int64_t get_be64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return (int64_t)be64toh(v);
}

int mvcc_revision_decode(struct str key, struct mvcc_revision *out, struct err *e)
{
    if (key.n != MVCC_PUT_KEY_BYTES && key.n != MVCC_TOMBSTONE_KEY_BYTES)
        return err_set(e, ERR_CORRUPT, 0, "a revision of %zu bytes", key.n);
    if (key.p[SEPARATOR_AT] != '_')
        return err_set(e, ERR_CORRUPT, 0, "a revision with separator 0x%02x",
                       (unsigned char)key.p[SEPARATOR_AT]);
    if (key.n == MVCC_TOMBSTONE_KEY_BYTES && key.p[TOMBSTONE_AT] != 't')
        return err_set(e, ERR_CORRUPT, 0, "a revision with tombstone mark 0x%02x",
                       (unsigned char)key.p[TOMBSTONE_AT]);
    const struct mvcc_revision r = {get_be64(key.p), get_be64(key.p + 9),
                                    key.n == MVCC_TOMBSTONE_KEY_BYTES};
    if (r.main < 1 || r.sub < 0)
        return err_set(e, ERR_CORRUPT, 0, "impossible revision %" PRId64 ".%" PRId64, r.main,
                       r.sub);
    *out = r;
    return 0;
}

void mvcc_revision_encode(int64_t main, uint8_t out[MVCC_PUT_KEY_BYTES])
{
    const uint64_t big = htobe64((uint64_t)main);
    memset(out, 0, MVCC_PUT_KEY_BYTES);
    memcpy(out, &big, sizeof(big));
    out[SEPARATOR_AT] = '_';
}

/* Sets one field. False: it is none of KeyValue's. */
static bool take_field(const struct wire_field *f, struct mvcc_kv *kv)
{
    const bool bytes = f->number == 1 || f->number == 5;
    if (f->number > 6 || f->type != (bytes ? WIRE_BYTES : WIRE_VARINT))
        return false;
    switch (f->number) {
    case 1:
        kv->key = f->bytes;
        break;
    case 2:
        kv->create_revision = (int64_t)f->value;
        break;
    case 3:
        kv->mod_revision = (int64_t)f->value;
        break;
    case 4:
        kv->version = (int64_t)f->value;
        break;
    case 5:
        kv->value = f->bytes;
        break;
    default:
        kv->lease = (int64_t)f->value;
    }
    return true;
}

int mvcc_kv_decode(struct str bytes, struct mvcc_kv *out, struct err *e)
{
    struct mvcc_kv kv = {0};
    struct wire w = wire_of(bytes);
    struct wire_field f;
    while (wire_next(&w, &f))
        if (!take_field(&f, &kv) && f.number <= 6)
            w.bad = true;
    if (w.bad)
        return err_set(e, ERR_CORRUPT, 0, "the value is not a key-value message");
    *out = kv;
    return 0;
}

/* Every field at most once, rising, none empty or zero, no varint longer than needed: etcd
 * hashes these bytes, so there is exactly one way to write them. */
static int decode_canonical(struct str bytes, struct mvcc_kv *out, struct err *e)
{
    struct wire w = wire_of(bytes);
    struct wire_field f;
    uint32_t before = 0;
    while (wire_next(&w, &f)) {
        if (!take_field(&f, out))
            return err_set(e, ERR_INVALID, 0, "the value has an unknown field %" PRIu32, f.number);
        if (f.number <= before)
            return err_set(e, ERR_INVALID, 0, "field %" PRIu32 " of the value is out of order",
                           f.number);
        if (f.value == 0 && f.bytes.n == 0)
            return err_set(e, ERR_INVALID, 0,
                           "field %" PRIu32 " of the value is written though "
                           "empty",
                           f.number);
        before = f.number;
    }
    if (w.bad || w.clumsy)
        return err_set(e, ERR_INVALID, 0, "the value has a number longer than needed");
    return 0;
}

static int check_put(const struct mvcc_revision *at, const struct mvcc_kv *kv, struct err *e)
{
    if (kv->mod_revision != at->main)
        return err_set(e, ERR_INVALID, 0, "mod_revision %" PRId64 " under revision %" PRId64,
                       kv->mod_revision, at->main);
    if (kv->create_revision < 1 || kv->create_revision > kv->mod_revision || kv->version < 1)
        return err_set(e, ERR_INVALID, 0,
                       "create_revision %" PRId64 ", version %" PRId64 " under revision %" PRId64,
                       kv->create_revision, kv->version, at->main);
    if ((kv->version == 1) != (kv->create_revision == kv->mod_revision))
        return err_set(e, ERR_INVALID, 0,
                       "version %" PRId64 " does not fit create_revision %" PRId64
                       " and mod_revision %" PRId64,
                       kv->version, kv->create_revision, kv->mod_revision);
    if (kv->version > kv->mod_revision - kv->create_revision + 1)
        return err_set(e, ERR_INVALID, 0, "version %" PRId64 " in %" PRId64 " revisions",
                       kv->version, kv->mod_revision - kv->create_revision + 1);
    return 0;
}

/* As etcd writes it. */
static int check_written(const struct mvcc_revision *at, struct str value, struct mvcc_kv *kv,
                         struct err *e)
{
    if (decode_canonical(value, kv, e) < 0)
        return -1;
    if (kv->key.n == 0)
        return err_set(e, ERR_INVALID, 0, "the value has no key");
    if (!at->tombstone)
        return check_put(at, kv, e);
    if (kv->create_revision != 0 || kv->mod_revision != 0 || kv->version != 0 || kv->value.n != 0 ||
        kv->lease != 0)
        return err_set(e, ERR_INVALID, 0, "a tombstone with more than a key");
    return 0;
}

int mvcc_entry_check(const struct mvcc_revision *at, struct str value, struct mvcc_kv *out,
                     struct err *e)
{
    struct mvcc_kv kv = {0};
    const bool bump = value.n == 0 && !at->tombstone && at->sub == 0;
    const int rc = bump ? 0 : check_written(at, value, &kv, e);
    if (rc < 0) {
        const struct err odd = *e;
        if (mvcc_kv_decode(value, &kv, e) < 0)
            return -1;
        *e = odd;
    }
    *out = kv;
    return rc;
}
