/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/version.h"

#include <stdio.h>

static const struct etcd_version last_stop_35 = {3, 5, 26}; /* before 3.6: zombie members */

static const struct {
    uint16_t minor, first_safe; /* of 3.minor.0 and on */
    const char *why;
} unsafe[] = {
    {5, 3, "3.5.0 to 3.5.2 can lose data on a crash; take 3.5.3 or later"},
    {6, 5, "3.6.0 to 3.6.4 may not start on old data; take 3.6.5 or later"},
};

static bool number(struct str *s, uint16_t *out)
{
    size_t n = 0;
    while (n < s->n && ascii_is_digit(s->p[n]))
        n++;
    uint64_t v = 0;
    if (n == 0 || (n > 1 && s->p[0] == '0') || !str_u64(str_first(*s, n), &v) || v > UINT16_MAX)
        return false;
    *out = (uint16_t)v;
    *s = str_from(*s, n);
    return true;
}

static bool skip(struct str *s, char c)
{
    if (s->n == 0 || s->p[0] != c)
        return false;
    *s = str_from(*s, 1);
    return true;
}

int etcd_version_parse(struct str s, struct etcd_version *out, struct err *e)
{
    struct etcd_version v = {0};
    struct str rest = s;
    (void)skip(&rest, 'v');
    bool ok = number(&rest, &v.major) && skip(&rest, '.') && number(&rest, &v.minor);
    if (ok && skip(&rest, '.'))
        ok = number(&rest, &v.patch);
    if (!ok || (rest.n > 0 && rest.p[0] != '-' && rest.p[0] != '+'))
        return err_set(e, ERR_INVALID, 0, "\"%.*s\" is no etcd version such as 3.6.11",
                       STR_ARG(str_first(s, 40)));
    *out = v;
    return 0;
}

const char *etcd_version_print(struct etcd_version v, char out[ETCD_VERSION_TEXT_MAX])
{
    (void)snprintf(out, ETCD_VERSION_TEXT_MAX, "%u.%u.%u", v.major, v.minor, v.patch);
    return out;
}

int etcd_version_cmp(struct etcd_version a, struct etcd_version b)
{
    if (a.major != b.major)
        return a.major < b.major ? -1 : 1;
    if (a.minor != b.minor)
        return a.minor < b.minor ? -1 : 1;
    return a.patch == b.patch ? 0 : a.patch < b.patch ? -1 : 1;
}

int etcd_version_minors(struct etcd_version from, struct etcd_version to)
{
    if (from.major != to.major)
        return from.major < to.major ? 1000 : -1000; /* nobody knows what lies between */
    return to.minor - from.minor;
}

static int refuse(struct etcd_version from, struct etcd_version to, const char *why, struct err *e)
{
    char a[ETCD_VERSION_TEXT_MAX], b[ETCD_VERSION_TEXT_MAX];
    return err_set(e, ERR_INVALID, 0, "%s to %s: %s", etcd_version_print(from, a),
                   etcd_version_print(to, b), why);
}

const char *etcd_version_unsafe(struct etcd_version v)
{
    for (size_t i = 0; i < COUNT_OF(unsafe); i++)
        if (v.major == 3 && v.minor == unsafe[i].minor && v.patch < unsafe[i].first_safe)
            return unsafe[i].why;
    return NULL;
}

int etcd_upgrade_check(struct etcd_version from, struct etcd_version to, struct err *e)
{
    const int minors = etcd_version_minors(from, to);
    if (minors < 0)
        return refuse(from, to, "a lower minor needs a downgrade of the cluster first", e);
    if (minors > 1)
        return refuse(from, to, "minor versions cannot be skipped", e);
    if (etcd_version_unsafe(to))
        return refuse(from, to, etcd_version_unsafe(to), e);
    if (to.major == 3 && to.minor == 6 && minors == 1 && etcd_version_cmp(from, last_stop_35) < 0)
        return refuse(from, to, "removed members may come back; go to 3.5.26 or later first", e);
    return 0;
}

int etcd_join_check(struct etcd_version member, struct etcd_version cluster,
                    const struct etcd_version *target, struct err *e)
{
    if (etcd_version_unsafe(member))
        return refuse(cluster, member, etcd_version_unsafe(member), e);
    if (target && etcd_version_minors(*target, member) != 0)
        return refuse(cluster, member, "while the cluster goes down, it takes the lower minor only",
                      e);
    const int minors = etcd_version_minors(cluster, member);
    if (minors < 0)
        return refuse(cluster, member, "a member below the cluster version does not start", e);
    if (minors > 1)
        return refuse(cluster, member, "a member may be one minor above the cluster at most", e);
    return 0;
}

int etcd_downgrade_check(struct etcd_version cluster, struct etcd_version to, struct err *e)
{
    if (etcd_version_minors(cluster, to) != -1)
        return refuse(cluster, to, "a downgrade goes exactly one minor down", e);
    if (to.major == 3 && to.minor < 5)
        return refuse(cluster, to, "a downgrade below 3.5 is not supported", e);
    if (etcd_version_unsafe(to))
        return refuse(cluster, to, etcd_version_unsafe(to), e);
    if (to.major == 3 && to.minor == 5 && etcd_version_cmp(to, last_stop_35) < 0)
        return refuse(cluster, to, "removed members may come back; go down to 3.5.26 or later", e);
    return 0;
}

int etcd_downgrade_ready(bool enabled, struct etcd_version target, struct etcd_version storage,
                         struct err *e)
{
    if (!enabled)
        return err_set(e, ERR_NOT_READY, 0, "the cluster is not being downgraded");
    if (storage.major == target.major && storage.minor == target.minor)
        return 0;
    (void)refuse(storage, target, "the member's storage has not been migrated yet", e);
    e->code = ERR_NOT_READY;
    return -1;
}

/* The patch of 3.4, 3.5 and 3.6 that fixed it; 0: never had it, 9999: never fixed. */
static const uint16_t fixed_in[ETCD_QUIRKS_N][3] = {
    [ETCD_QUIRK_PROGRESS_OVERTAKES] = {25, 8, 0},
    [ETCD_QUIRK_PROMOTE_VIA_LEADER] = {9999, 28, 6},
    [ETCD_QUIRK_LEARNER_UPDATE] = {9999, 31, 12},
    [ETCD_QUIRK_DEFRAG_WHILE_CATCHING] = {9999, 23, 5},
    [ETCD_QUIRK_ADD_NEEDS_ALL] = {9999, 30, 11},
    [ETCD_QUIRK_WATCH_AT_COMPACTION] = {36, 18, 0},
};

bool etcd_version_has_quirk(struct etcd_version v, enum etcd_quirk quirk)
{
    if (v.major != 3 || v.minor > 6)
        return false;
    if (v.minor < 4)
        return true;
    return v.patch < fixed_in[quirk][v.minor - 4];
}
