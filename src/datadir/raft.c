/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/raft.h"

#include "datadir/wire.h"

/* Numbers of fields 1 to n_numbers into `numbers`; a field of another type is damage. Field
 * n_numbers + 1 may be bytes. */
static bool decode(struct str bytes, uint64_t *numbers, uint32_t n_numbers, struct str *rest)
{
    struct wire w = wire_of(bytes);
    struct wire_field f;
    while (wire_next(&w, &f)) {
        if (f.number <= n_numbers) {
            if (f.type != WIRE_VARINT)
                return false;
            numbers[f.number - 1] = f.value;
        } else if (f.number == n_numbers + 1 && rest) {
            if (f.type != WIRE_BYTES)
                return false;
            *rest = f.bytes;
        }
    }
    return !w.bad;
}

bool raft_entry_decode(struct str bytes, struct raft_entry *out)
{
    uint64_t n[3] = {0};
    struct str data = {0};
    if (!decode(bytes, n, 3, &data))
        return false;
    *out = (struct raft_entry){n[0], n[1], n[2], data};
    return true;
}

bool raft_hard_state_decode(struct str bytes, struct raft_hard_state *out)
{
    uint64_t n[3] = {0};
    if (!decode(bytes, n, 3, NULL))
        return false;
    *out = (struct raft_hard_state){n[0], n[1], n[2]};
    return true;
}

bool wal_metadata_decode(struct str bytes, struct wal_metadata *out)
{
    uint64_t n[2] = {0};
    if (!decode(bytes, n, 2, NULL))
        return false;
    *out = (struct wal_metadata){n[0], n[1]};
    return true;
}

bool wal_snapshot_decode(struct str bytes, struct raft_snapshot_point *out)
{
    uint64_t n[2] = {0};
    struct str conf_state = {0};
    if (!decode(bytes, n, 2, &conf_state) || !wire_is_message(conf_state))
        return false;
    *out = (struct raft_snapshot_point){n[0], n[1]};
    return true;
}

static bool decode_snapshot_metadata(struct str bytes, struct raft_snapshot *out)
{
    struct wire w = wire_of(bytes);
    struct wire_field f;
    while (wire_next(&w, &f)) {
        if (f.number == 1 && f.type == WIRE_BYTES) {
            struct wire conf = wire_of(f.bytes);
            struct wire_field id;
            while (wire_next(&conf, &id)) {
                out->voters += id.number == 1;
                out->learners += id.number == 2;
            }
            if (conf.bad)
                return false;
        } else if (f.number == 2 && f.type == WIRE_VARINT) {
            out->at.index = f.value;
        } else if (f.number == 3 && f.type == WIRE_VARINT) {
            out->at.term = f.value;
        }
    }
    return !w.bad;
}

bool raft_snapshot_decode(struct str bytes, struct raft_snapshot *out)
{
    struct raft_snapshot s = {0};
    struct wire w = wire_of(bytes);
    struct wire_field f;
    while (wire_next(&w, &f)) {
        if (f.number == 1 && f.type == WIRE_BYTES)
            s.data = f.bytes;
        else if (f.number == 2 && f.type == WIRE_BYTES && !decode_snapshot_metadata(f.bytes, &s))
            return false;
    }
    if (w.bad)
        return false;
    *out = s;
    return true;
}
