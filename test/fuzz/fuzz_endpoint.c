/* SPDX-License-Identifier: Apache-2.0
 * Endpoints and versions: what parses prints to something that parses to the same. */
#include <string.h>

#include "etcd/version.h"
#include "fuzz.h"
#include "net/endpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str text = {(const char *)data, size};
    struct err e = {0};
    AUTO(endpoint_done) struct endpoint ep = {0}, again = {0};
    if (endpoint_parse(text, false, &ep, &e) == 0) {
        FUZZ_CHECK(ep.authority && !strpbrk(ep.authority, "\r\n @/") && (ep.path || ep.host));
        if (ep.host) {
            FUZZ_CHECK(endpoint_parse(str_c(ep.authority), ep.tls, &again, &e) == 0);
            FUZZ_CHECK(strcmp(again.host, ep.host) == 0 && strcmp(again.port, ep.port) == 0);
        }
    }
    struct etcd_version v, w;
    if (etcd_version_parse(text, &v, &e) == 0) {
        char printed[ETCD_VERSION_TEXT_MAX];
        FUZZ_CHECK(etcd_version_parse(str_c(etcd_version_print(v, printed)), &w, &e) == 0);
        FUZZ_CHECK(etcd_version_cmp(v, w) == 0);
    }
    return 0;
}
