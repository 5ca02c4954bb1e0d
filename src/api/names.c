/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"

const char *api_cluster_name_problem(struct str name)
{
    if (name.n == 0 || name.n > API_CLUSTER_NAME_MAX)
        return "the name must have 1 to 56 characters";
    for (size_t i = 0; i < name.n; i++) {
        const char c = name.p[i];
        const bool letter = c >= 'a' && c <= 'z';
        if (i == 0 && !letter)
            return "the name must begin with a letter";
        if (!letter && !ascii_is_digit(c) && c != '-')
            return "the name must consist of lower-case letters, digits and dashes";
    }
    return name.p[name.n - 1] == '-' ? "the name must not end in a dash" : NULL;
}

/* FNV-1a: no secret is involved, only an even spread. */
static uint64_t hash_of(const char *s)
{
    uint64_t h = 0xcbf29ce484222325ULL;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 0x100000001b3ULL;
    return h;
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
    return h ^ (h >> 31);
}

void api_member_name(const char *cluster, const char *cluster_uid, const char *const *member_uids,
                     size_t n, unsigned salt, char out[API_MEMBER_NAME_MAX + 1])
{
    /* The characters Kubernetes itself uses for generated names: no vowels, nothing ambiguous. */
    static const char alphabet[] = "bcdfghjklmnpqrstvwxz2456789";
    uint64_t members = 0;
    for (size_t i = 0; i < n; i++)
        members += mix(hash_of(member_uids[i])); /* a sum does not care about the order */
    uint64_t h = mix(hash_of(cluster_uid) ^ mix(members + n)) + salt;
    h = mix(h);

    char suffix[6];
    for (size_t i = 0; i < sizeof(suffix) - 1; i++) {
        suffix[i] = alphabet[h % (sizeof(alphabet) - 1)];
        h /= sizeof(alphabet) - 1;
    }
    suffix[sizeof(suffix) - 1] = '\0';
    (void)snprintf(out, API_MEMBER_NAME_MAX + 1, "%.*s-%s", API_CLUSTER_NAME_MAX, cluster, suffix);
}

static void add_url(struct buf *out, const char *scheme, const char *member, const char *service,
                    const char *ns, int port)
{
    buf_addf(out, "%s://%s.%s.%s.svc:%d", scheme, member, service, ns, port);
}

void api_peer_url(struct buf *out, const char *scheme, const char *member, const char *service,
                  const char *ns)
{
    add_url(out, scheme, member, service, ns, 2380);
}

void api_client_url(struct buf *out, const char *scheme, const char *member, const char *service,
                    const char *ns)
{
    add_url(out, scheme, member, service, ns, 2379);
}
