/* SPDX-License-Identifier: Apache-2.0 */
#include "datadir/buckets.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/json.h"
#include "bolt/find.h"
#include "datadir/mvcc.h"
#include "datadir/wire.h"

static const struct {
    const char *name;
    enum bucket bucket;
} names[] = {
    {"alarm", BUCKET_ALARM},
    {"auth", BUCKET_AUTH},
    {"authRoles", BUCKET_AUTH_ROLES},
    {"authUsers", BUCKET_AUTH_USERS},
    {"cluster", BUCKET_CLUSTER},
    {"key", BUCKET_KEY},
    {"lease", BUCKET_LEASE},
    {"members", BUCKET_MEMBERS},
    {"members_removed", BUCKET_MEMBERS_REMOVED},
    {"meta", BUCKET_META},
};

enum bucket bucket_of(struct str name)
{
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (str_eq(name, str_c(names[i].name)))
            return names[i].bucket;
    return BUCKET_UNKNOWN;
}

struct str bucket_name(enum bucket b)
{
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (names[i].bucket == b)
            return str_c(names[i].name);
    return STR("?");
}

static uint64_t get_be64(struct str s)
{
    uint64_t v;
    memcpy(&v, s.p, sizeof(v));
    return be64toh(v);
}

/* "3.6.0": three numbers. */
static bool is_version(struct str s)
{
    for (int i = 0; i < 3; i++) {
        struct str part;
        uint64_t number = 0;
        if (str_cut(s, '.', &part, &s) != (i < 2) || !str_u64(part, &number))
            return false;
    }
    return true;
}

static bool is_json_object(struct str s)
{
    return str_starts(s, STR("{")) && jvalid(s);
}

/* Lower-case hexadecimal without padding. */
static bool hex_id(struct str s, uint64_t *out)
{
    uint64_t id = 0;
    if (s.n == 0 || s.n > 16 || s.p[0] == '0')
        return false;
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.p[i];
        if (!ascii_is_digit(c) && (c < 'a' || c > 'f'))
            return false;
        id = id << 4 | (uint64_t)(ascii_is_digit(c) ? c - '0' : c - 'a' + 10);
    }
    *out = id;
    return true;
}

static int bad(struct err *e, struct str key, const char *what)
{
    return err_set(e, ERR_CORRUPT, 0, "%.*s: %s", STR_ARG(key), what);
}

static int unknown(struct err *e, struct str key, enum bucket b)
{
    return err_set(e, ERR_INVALID, 0, "%.*s: not a key of bucket %.*s", STR_ARG(key),
                   STR_ARG(bucket_name(b)));
}

static int check_meta(struct str key, struct str value, struct err *e)
{
    struct mvcc_revision r;
    if (str_eq(key, STR("consistent_index")) || str_eq(key, STR("term")))
        return value.n == 8 ? 0 : bad(e, key, "not a number of 8 bytes");
    if (str_eq(key, STR("scheduledCompactRev")) || str_eq(key, STR("finishedCompactRev")))
        return mvcc_revision_decode(value, &r, e) == 0 && !r.tombstone
                   ? 0
                   : bad(e, key, "not a revision");
    if (str_eq(key, STR("storageVersion")))
        return is_version(value) ? 0 : bad(e, key, "not a version");
    if (str_eq(key, STR("confState")))
        return is_json_object(value) ? 0 : bad(e, key, "not JSON");
    return unknown(e, key, BUCKET_META);
}

static int check_lease(struct str key, struct str value, struct err *e)
{
    if (key.n != 8)
        return err_set(e, ERR_CORRUPT, 0, "a lease id of %zu bytes", key.n);
    struct wire w = wire_of(value);
    struct wire_field f;
    uint64_t id = 0;
    int64_t ttl = 0;
    while (wire_next(&w, &f)) {
        if (f.type != WIRE_VARINT || f.number > 3)
            return err_set(e, ERR_INVALID, 0, "lease %016" PRIx64 ": unknown field %" PRIu32,
                           get_be64(key), f.number);
        if (f.number == 1)
            id = f.value;
        if (f.number == 2)
            ttl = (int64_t)f.value;
    }
    if (w.bad || id != get_be64(key) || ttl <= 0)
        return err_set(e, ERR_CORRUPT, 0, "lease %016" PRIx64 ": its record does not decode to it",
                       get_be64(key));
    return 0;
}

static int check_alarm(struct str key, struct str value, struct err *e)
{
    struct wire w = wire_of(key);
    struct wire_field f;
    bool known = value.n == 0;
    while (wire_next(&w, &f)) {
        if (f.number <= 2 && f.type != WIRE_VARINT)
            w.bad = true;
        known = known && f.number <= 2 && (f.number == 1 || f.value <= 2);
    }
    if (w.bad)
        return err_set(e, ERR_CORRUPT, 0, "an alarm that does not decode");
    return known ? 0 : err_set(e, ERR_INVALID, 0, "an alarm of an unknown kind");
}

/* Ids exceed what a double holds: the text is compared, not a parsed number. */
static int check_member(struct str key, struct str value, struct err *e)
{
    uint64_t id = 0;
    if (!hex_id(key, &id))
        return bad(e, key, "not a member id");
    struct str head, digits = {0};
    if (str_starts(value, STR("{\"id\":")))
        (void)str_cut(str_from(value, 6), ',', &digits, &head);
    uint64_t said = 0;
    if (!is_json_object(value) || !str_u64(digits, &said) || said != id)
        return bad(e, key, "its record is not a member of that id");
    return 0;
}

static int check_auth(struct str key, struct str value, struct err *e)
{
    if (str_eq(key, STR("authEnabled")))
        return value.n == 1 && (unsigned char)value.p[0] <= 1 ? 0 : bad(e, key, "not a flag");
    if (str_eq(key, STR("authRevision")))
        return value.n == 8 ? 0 : bad(e, key, "not a number of 8 bytes");
    return unknown(e, key, BUCKET_AUTH);
}

/* Users and roles carry their name as field 1. */
static int check_named(struct str key, struct str value, struct err *e)
{
    struct wire w = wire_of(value);
    struct wire_field f;
    bool named = false;
    while (wire_next(&w, &f))
        named = named || (f.number == 1 && str_eq(f.bytes, key));
    return w.bad || !named ? bad(e, key, "its record does not decode to that name") : 0;
}

static int check_cluster(struct str key, struct str value, struct err *e)
{
    if (str_eq(key, STR("clusterVersion")))
        return is_version(value) ? 0 : bad(e, key, "not a version");
    if (str_eq(key, STR("downgrade")))
        return is_json_object(value) ? 0 : bad(e, key, "not JSON");
    return unknown(e, key, BUCKET_CLUSTER);
}

int bucket_entry_check(enum bucket b, struct str key, struct str value, struct err *e)
{
    uint64_t id = 0;
    switch (b) {
    case BUCKET_ALARM:
        return check_alarm(key, value, e);
    case BUCKET_AUTH:
        return check_auth(key, value, e);
    case BUCKET_AUTH_ROLES:
    case BUCKET_AUTH_USERS:
        return check_named(key, value, e);
    case BUCKET_CLUSTER:
        return check_cluster(key, value, e);
    case BUCKET_LEASE:
        return check_lease(key, value, e);
    case BUCKET_MEMBERS:
        return check_member(key, value, e);
    case BUCKET_MEMBERS_REMOVED:
        return hex_id(key, &id) ? 0 : bad(e, key, "not a member id");
    case BUCKET_META:
        return check_meta(key, value, e);
    case BUCKET_KEY:
    case BUCKET_UNKNOWN:
        break;
    }
    return 0;
}

/* A value of a small bucket; *out stays as it is when there is none. */
static int read_value(const struct bolt_bucket *bucket, const char *key, struct str *out,
                      struct err *e)
{
    if (bolt_find(bucket, str_c(key), out, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    return 0;
}

static int read_number(const struct bolt_bucket *meta, const char *key, uint64_t *out,
                       struct err *e)
{
    struct str value = {0};
    if (read_value(meta, key, &value, e) < 0)
        return -1;
    if (value.n > 0 && check_meta(str_c(key), value, e) < 0)
        return -1;
    *out = value.n > 0 ? get_be64(value) : 0;
    return 0;
}

static int read_compact(const struct bolt_bucket *meta, const char *key, int64_t *out,
                        struct err *e)
{
    uint64_t main = 0;
    if (read_number(meta, key, &main, e) < 0)
        return -1;
    *out = main > 0 ? (int64_t)main : -1;
    return 0;
}

static int read_text(const struct bolt_bucket *bucket, const char *key, char out[32], struct err *e)
{
    struct str value = {0};
    if (read_value(bucket, key, &value, e) < 0)
        return -1;
    (void)snprintf(out, 32, "%.*s", STR_ARG(value));
    return 0;
}

static int read_cluster(const struct bolt *b, struct db_meta *m, struct err *e)
{
    struct bolt_bucket cluster;
    if (bolt_find_bucket(b, STR("cluster"), &cluster, e) < 0)
        return e->code == ERR_NOT_FOUND ? 0 : -1;
    struct str downgrade = {0};
    if (read_text(&cluster, "clusterVersion", m->cluster_version, e) < 0 ||
        read_value(&cluster, "downgrade", &downgrade, e) < 0)
        return -1;
    json_auto_t *v = NULL;
    struct err ignored = {0};
    if (downgrade.n > 0 && jparse(downgrade, &v, &ignored) == 0)
        m->downgrade_enabled = jbool(v, "enabled", false);
    if (m->downgrade_enabled)
        (void)snprintf(m->downgrade_target, sizeof(m->downgrade_target), "%s",
                       jstr(v, "target-version", ""));
    return 0;
}

int db_meta_read(const struct bolt *b, struct db_meta *out, struct err *e)
{
    struct db_meta m = {0};
    struct bolt_bucket meta, key;
    if (bolt_find_bucket(b, STR("meta"), &meta, e) < 0 ||
        bolt_find_bucket(b, STR("key"), &key, e) < 0) {
        if (e->code == ERR_NOT_FOUND)
            err_set(e, ERR_CORRUPT, 0, "not an etcd database: no bucket \"meta\" or no \"key\"");
        return -1;
    }
    if (read_number(&meta, "consistent_index", &m.consistent_index, e) < 0 ||
        read_number(&meta, "term", &m.term, e) < 0 ||
        read_compact(&meta, "scheduledCompactRev", &m.scheduled_compact, e) < 0 ||
        read_compact(&meta, "finishedCompactRev", &m.finished_compact, e) < 0 ||
        read_text(&meta, "storageVersion", m.storage_version, e) < 0 || read_cluster(b, &m, e) < 0)
        return -1;
    *out = m;
    return 0;
}

int64_t db_compact_revision(const struct db_meta *m)
{
    return m->scheduled_compact > m->finished_compact ? m->scheduled_compact : m->finished_compact;
}

int64_t db_current_revision(const struct db_meta *m, int64_t last)
{
    const int64_t compact = db_compact_revision(m);
    const int64_t floor = last > 1 ? last : 1;
    return compact > floor ? compact : floor;
}

int db_last_revision_read(const struct bolt *b, int64_t *out, struct err *e)
{
    struct bolt_bucket key;
    struct bolt_element last;
    struct mvcc_revision at = {0};
    if (bolt_find_bucket(b, STR("key"), &key, e) < 0)
        return -1;
    if (bolt_find_last(&key, &last, e) == 0) {
        if (mvcc_revision_decode(last.key, &at, e) < 0)
            return -1;
    } else if (e->code != ERR_NOT_FOUND) {
        return -1;
    }
    *out = at.main;
    return 0;
}

int db_revision_read(const struct bolt *b, const struct db_meta *m, int64_t *out, struct err *e)
{
    int64_t last = 0;
    if (db_last_revision_read(b, &last, e) < 0)
        return -1;
    *out = db_current_revision(m, last);
    return 0;
}
