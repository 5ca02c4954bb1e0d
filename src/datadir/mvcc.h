/* SPDX-License-Identifier: Apache-2.0
 * The entries of etcd's bucket `key`: a revision as the key, what was written as the value. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/attr.h"
#include "base/err.h"
#include "base/str.h"

enum { MVCC_PUT_KEY_BYTES = 17, MVCC_TOMBSTONE_KEY_BYTES = 18 };

struct mvcc_revision {
    int64_t main, sub;
    bool tombstone;
};

/* ERR_CORRUPT names what is wrong with the key. */
NODISCARD int mvcc_revision_decode(struct str key, struct mvcc_revision *out, struct err *e);
void mvcc_revision_encode(int64_t main, uint8_t out[MVCC_PUT_KEY_BYTES]); /* sub 0, no tombstone */

struct mvcc_kv {
    struct str key, value; /* borrowed */
    int64_t create_revision, mod_revision, version, lease;
};

/* Reads what etcd would read. ERR_CORRUPT: it could not. */
NODISCARD int mvcc_kv_decode(struct str bytes, struct mvcc_kv *out, struct err *e);

/* Decodes an entry and checks all that can be said of it alone: canonical encoding, revisions
 * that agree with its key and each other. The empty value of a revision bump is well-formed.
 * ERR_CORRUPT: etcd could not read it · ERR_INVALID: it could, and *out is filled, but it would
 * not have written it so. */
NODISCARD int mvcc_entry_check(const struct mvcc_revision *at, struct str value,
                               struct mvcc_kv *out, struct err *e);
