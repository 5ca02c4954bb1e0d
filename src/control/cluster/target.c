/* SPDX-License-Identifier: Apache-2.0 */
#include "control/cluster/target.h"

#include <string.h>

#include "base/json.h"
#include "base/quantity.h"

/* "storage" is compared by itself. */
static const char *const latched[] = {
    "storage",
    "replicas",
    "version",
    "resources",
    "affinity",
    "options",
    "imagePullSecrets",
    "topologySpreadConstraints",
    "additionalMetadata",
};

json_t *target_of(const json_t *cluster)
{
    const json_t *spec = jget(cluster, "spec");
    json_t *target = JOBJ();
    for (size_t i = 0; i < COUNT_OF(latched); i++) {
        json_t *value = json_object_get(spec, latched[i]);
        if (value)
            (void)json_object_set(target, latched[i], value); /* fails only without memory */
    }
    return target;
}

static bool is_empty(const json_t *v)
{
    return !v || json_is_null(v) || (json_is_array(v) && json_array_size(v) == 0) ||
           (json_is_object(v) && json_object_size(v) == 0);
}

static bool same_quantity(const json_t *a, const json_t *b)
{
    struct quantity qa, qb;
    struct err ignored = {0};
    if (!json_is_string(a) || !json_is_string(b))
        return a == b || json_equal((json_t *)a, (json_t *)b);
    return quantity_parse(str_c(json_string_value(a)), &qa, &ignored) == 0 &&
           quantity_parse(str_c(json_string_value(b)), &qb, &ignored) == 0 &&
           quantity_cmp(&qa, &qb) == 0;
}

bool target_differs(const json_t *cluster)
{
    const json_t *spec = jget(cluster, "spec"), *target = jget(cluster, "status.observed");
    if (!same_quantity(jget(spec, "storage.size"), jget(target, "storage.size")) ||
        strcmp(jstr(spec, "storage.medium", ""), jstr(target, "storage.medium", "")) != 0)
        return true;
    for (size_t i = 1; i < COUNT_OF(latched); i++) {
        json_t *a = json_object_get(spec, latched[i]), *b = json_object_get(target, latched[i]);
        if (!(is_empty(a) && is_empty(b)) && !json_equal(a, b))
            return true;
    }
    return false;
}
