/* SPDX-License-Identifier: Apache-2.0
 * One function per rule, true when it holds; the table gives each its place and message. Rules
 * that only compare with the stored object are transitions and hold on a create. */
#include "api/validate.h"

#include <string.h>

#include "base/json.h"
#include "base/quantity.h"

/* self and old are what stands at the rule's path; old is NULL on a create, or if it is new. */
struct rule {
    const char *path;
    bool (*holds)(const json_t *self, const json_t *old);
    bool transition;
    const char *message;
};

/* --- Small questions ------------------------------------------------------------------------ */

static bool has(const json_t *v, const char *path)
{
    return jget(v, path) != NULL;
}

static bool same_presence(const json_t *self, const json_t *old, const char *path)
{
    return has(self, path) == has(old, path);
}

static bool same_if_present(const json_t *self, const json_t *old, const char *path)
{
    const json_t *a = jget(self, path), *b = jget(old, path);
    return !a || !b || json_equal(a, b);
}

static bool is_text(const json_t *v, const char *path, const char *text)
{
    const char *value = jstr(v, path, NULL);
    return value && strcmp(value, text) == 0;
}

/* A quantity may be written as a string or as a bare integer. */
static bool quantity_at(const json_t *v, const char *path, struct quantity *out)
{
    const json_t *at = jget(v, path);
    struct err ignored = {0};
    if (json_is_integer(at)) {
        *out = (struct quantity){.nano = (__int128)json_integer_value(at) * 1000000000};
        return true;
    }
    return json_is_string(at) && quantity_parse(str_c(json_string_value(at)), out, &ignored) == 0;
}

static bool positive(const json_t *v, const char *path)
{
    struct quantity q;
    return quantity_at(v, path, &q) && q.nano > 0;
}

/* Whether the quantity at a is at most the one at b; true if either is no quantity. */
static bool at_most(const json_t *v_a, const char *a, const json_t *v_b, const char *b)
{
    struct quantity qa, qb;
    return !quantity_at(v_a, a, &qa) || !quantity_at(v_b, b, &qb) || quantity_cmp(&qa, &qb) <= 0;
}

static bool is_memory(const json_t *spec)
{
    return is_text(spec, "storage.medium", "Memory");
}

static bool auth_on(const json_t *spec)
{
    return jbool(spec, "auth.enabled", false);
}

/* --- EtcdCluster.spec ----------------------------------------------------------------------- */

static bool not_paused_in_memory(const json_t *self, const json_t *old)
{
    (void)old;
    return !(jint(self, "replicas", 3) == 0 && is_memory(self));
}

static bool memory_has_size(const json_t *self, const json_t *old)
{
    (void)old;
    return !is_memory(self) || positive(self, "storage.size");
}

static bool tls_presence(const json_t *self, const json_t *old)
{
    return same_presence(self, old, "tls");
}

static bool tls_unchanged(const json_t *self, const json_t *old)
{
    return same_if_present(self, old, "tls");
}

static bool class_presence(const json_t *self, const json_t *old)
{
    return same_presence(self, old, "storage.storageClassName");
}

static bool class_unchanged(const json_t *self, const json_t *old)
{
    return same_if_present(self, old, "storage.storageClassName");
}

static bool auth_presence(const json_t *self, const json_t *old)
{
    return same_presence(self, old, "auth");
}

static bool auth_unchanged(const json_t *self, const json_t *old)
{
    return same_if_present(self, old, "auth");
}

static bool auth_has_tls(const json_t *self, const json_t *old)
{
    (void)old;
    return !auth_on(self) || has(self, "tls.client");
}

static bool auth_has_credentials(const json_t *self, const json_t *old)
{
    (void)old;
    return !auth_on(self) || has(self, "auth.rootCredentialsSecretRef");
}

static bool bootstrap_presence(const json_t *self, const json_t *old)
{
    return same_presence(self, old, "bootstrap");
}

static bool bootstrap_unchanged(const json_t *self, const json_t *old)
{
    return same_if_present(self, old, "bootstrap");
}

static bool restore_not_in_memory(const json_t *self, const json_t *old)
{
    (void)old;
    return !(has(self, "bootstrap.restore") && is_memory(self));
}

/* --- Blocks used in several places ---------------------------------------------------------- */

static bool size_not_shrunk(const json_t *self, const json_t *old)
{
    return at_most(old, "", self, "");
}

static bool unchanged(const json_t *self, const json_t *old)
{
    return json_equal(self, old);
}

static bool one_server_source(const json_t *self, const json_t *old)
{
    (void)old;
    return has(self, "serverSecretRef") != has(self, "certManager");
}

static bool one_client_source(const json_t *self, const json_t *old)
{
    (void)old;
    return !(has(self, "certManager") && has(self, "operatorClientSecretRef"));
}

static bool one_peer_source(const json_t *self, const json_t *old)
{
    (void)old;
    return has(self, "secretRef") != has(self, "certManager");
}

static bool exact_key(const json_t *self, const json_t *old)
{
    (void)old;
    return !has(self, "source.s3") || *jstr(self, "source.s3.key", "") != '\0';
}

static bool exact_file(const json_t *self, const json_t *old)
{
    (void)old;
    return !has(self, "source.pvc") || *jstr(self, "source.pvc.subPath", "") != '\0';
}

static bool one_location(const json_t *self, const json_t *old)
{
    (void)old;
    return has(self, "s3") != has(self, "pvc");
}

/* --- EtcdDefrag ----------------------------------------------------------------------------- */

static bool names_a_cluster(const json_t *self, const json_t *old)
{
    (void)old;
    return *jstr(self, "clusterRef.name", "") != '\0';
}

static bool all_stands_alone(const json_t *self, const json_t *old)
{
    (void)old;
    return !jbool(self, "all", false) || !(has(self, "freeSpaceAbove") ||
                                           has(self, "quotaUsageAbove") || has(self, "minReclaim"));
}

static bool free_space_positive(const json_t *self, const json_t *old)
{
    (void)old;
    return !has(self, "freeSpaceAbove") || positive(self, "freeSpaceAbove");
}

static bool reclaim_positive(const json_t *self, const json_t *old)
{
    (void)old;
    return !has(self, "minReclaim") || positive(self, "minReclaim");
}

static bool reclaim_needs_quota(const json_t *self, const json_t *old)
{
    (void)old;
    return !has(self, "minReclaim") || has(self, "quotaUsageAbove");
}

static bool reclaim_below_free_space(const json_t *self, const json_t *old)
{
    (void)old;
    return at_most(self, "minReclaim", self, "freeSpaceAbove");
}

/* --- Tables --------------------------------------------------------------------------------- */

#define SIZE_SHRUNK "spec.storage.size cannot be shrunk"
#define MEDIUM_CHANGED "spec.storage.medium is immutable"
#define ONE_LOCATION "set exactly one of destination.s3 or destination.pvc"
#define EXACT_KEY "source.s3.key must be the exact (non-empty) object key of a snapshot"
#define EXACT_FILE "source.pvc.subPath must be the exact (non-empty) snapshot file path"

static const struct rule cluster_rules[] = {
    {"spec", not_paused_in_memory, false,
     "replicas=0 with spec.storage.medium=Memory would lose the data: delete the cluster"},
    {"spec", memory_has_size, false,
     "spec.storage.size must be > 0 with spec.storage.medium=Memory"},
    {"spec", tls_presence, true, "spec.tls cannot be added to or removed from an existing cluster"},
    {"spec", tls_unchanged, true, "spec.tls is immutable post-create"},
    {"spec", class_presence, true,
     "spec.storage.storageClassName cannot be added to or removed from an existing cluster"},
    {"spec", class_unchanged, true, "spec.storage.storageClassName is immutable post-create"},
    {"spec", auth_presence, true,
     "spec.auth cannot be added to or removed from an existing cluster"},
    {"spec", auth_unchanged, true, "spec.auth is immutable post-create"},
    {"spec", auth_has_tls, false,
     "spec.auth.enabled requires spec.tls.client "
     "(auth credentials must not cross a plaintext connection)"},
    {"spec", auth_has_credentials, false,
     "spec.auth.enabled requires spec.auth.rootCredentialsSecretRef"},
    {"spec", bootstrap_presence, true,
     "spec.bootstrap cannot be added to or removed from an existing cluster"},
    {"spec", bootstrap_unchanged, true, "spec.bootstrap is immutable post-create"},
    {"spec", restore_not_in_memory, false,
     "spec.bootstrap.restore is unsupported with spec.storage.medium=Memory"},
    {"spec.storage.size", size_not_shrunk, true, SIZE_SHRUNK},
    {"spec.storage.medium", unchanged, true, MEDIUM_CHANGED},
    {"status.observed.storage.size", size_not_shrunk, true, SIZE_SHRUNK},
    {"status.observed.storage.medium", unchanged, true, MEDIUM_CHANGED},
    {"spec.tls.client", one_server_source, false,
     "set exactly one of spec.tls.client.serverSecretRef or spec.tls.client.certManager"},
    {"spec.tls.client", one_client_source, false,
     "operatorClientSecretRef cannot be combined with certManager"},
    {"spec.tls.peer", one_peer_source, false,
     "set exactly one of spec.tls.peer.secretRef or spec.tls.peer.certManager"},
    {"spec.bootstrap.restore", exact_key, false, EXACT_KEY},
    {"spec.bootstrap.restore", exact_file, false, EXACT_FILE},
    {"spec.bootstrap.restore.source", one_location, false, ONE_LOCATION},
    {0},
};

static const struct rule member_rules[] = {
    {"spec.storage.size", size_not_shrunk, true, SIZE_SHRUNK},
    {"spec.storage.medium", unchanged, true, MEDIUM_CHANGED},
    {"spec.restore", exact_key, false, EXACT_KEY},
    {"spec.restore", exact_file, false, EXACT_FILE},
    {"spec.restore.source", one_location, false, ONE_LOCATION},
    {0},
};

static const struct rule snapshot_rules[] = {
    {"spec.destination", one_location, false, ONE_LOCATION},
    {0},
};

static const struct rule defrag_rules[] = {
    {"spec", names_a_cluster, false, "spec.clusterRef.name is required"},
    {"spec.rule", all_stands_alone, false,
     "rule.all cannot be combined with freeSpaceAbove, quotaUsageAbove or minReclaim"},
    {"spec.rule", free_space_positive, false, "freeSpaceAbove must be greater than 0"},
    {"spec.rule", reclaim_positive, false, "minReclaim must be greater than 0"},
    {"spec.rule", reclaim_needs_quota, false, "minReclaim requires quotaUsageAbove"},
    {"spec.rule", reclaim_below_free_space, false, "minReclaim cannot be above freeSpaceAbove"},
    {0},
};

static const struct rule *const rules_of[] = {
    [API_CLUSTER] = cluster_rules,
    [API_MEMBER] = member_rules,
    [API_SNAPSHOT] = snapshot_rules,
    [API_DEFRAG] = defrag_rules,
};

/* What this release does not do yet: the path, and what is refused there. A row goes when its
 * feature comes, together with the rule of the same name in tools/crds/kinds.py. */
static const struct {
    enum api_kind kind;
    const char *path;
    const char *value; /* only this value, or NULL for any */
    const char *name;
    const char *message;
} unsupported[] = {
#define NOT_YET(what) what, what " is not supported by this release"
    {API_CLUSTER, "spec.storage.medium", "Memory", NOT_YET("spec.storage.medium=Memory")},
    {API_CLUSTER, "spec.tls", NULL, NOT_YET("spec.tls")},
    {API_CLUSTER, "spec.auth", NULL, NOT_YET("spec.auth")},
    {API_CLUSTER, "spec.bootstrap", NULL, NOT_YET("spec.bootstrap")},
    {API_SNAPSHOT, "", NULL, NOT_YET("EtcdSnapshot")},
    {API_DEFRAG, "", NULL, NOT_YET("EtcdDefrag")},
#undef NOT_YET
};

static bool uses(size_t row, const json_t *obj)
{
    const char *value = unsupported[row].value;
    return value ? is_text(obj, unsupported[row].path, value) : has(obj, unsupported[row].path);
}

size_t api_validate(enum api_kind kind, const json_t *old, const json_t *obj, api_problem_fn report,
                    void *arg)
{
    size_t broken = 0;
    for (const struct rule *r = rules_of[kind]; r->path; r++) {
        const json_t *self = jget(obj, r->path);
        const json_t *was = old ? jget(old, r->path) : NULL;
        if (!self || (r->transition && !was) || r->holds(self, was))
            continue;
        report(arg, r->path, r->message);
        broken++;
    }
    for (size_t i = 0; !old && i < COUNT_OF(unsupported); i++) {
        if (unsupported[i].kind != kind || !uses(i, obj))
            continue;
        report(arg, unsupported[i].path, unsupported[i].message);
        broken++;
    }
    return broken;
}

const char *api_unsupported(enum api_kind kind, const json_t *obj)
{
    for (size_t i = 0; i < COUNT_OF(unsupported); i++)
        if (unsupported[i].kind == kind && uses(i, obj))
            return unsupported[i].name;
    return NULL;
}
