/* SPDX-License-Identifier: Apache-2.0
 * Any bytes as YAML and as a kubeconfig: read or refused, never worse. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/ctx.h"
#include "base/file.h"
#include "fuzz.h"
#include "kube/config.h"
#include "kube/config_internal.h"
#include "kube/yaml.h"

enum { DUMP_MAX = 1 << 26 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct str text = {(const char *)data, size};
    const struct ctx ctx = ctx_root(&clock_real, NULL);
    struct err e = {0};
    json_auto_t *value = NULL;
    if (yaml_parse(text, &value, &e) == 0) {
        auto_buf struct buf dump = BUF_INIT(DUMP_MAX);
        FUZZ_CHECK(jdump(value, &dump, &e) == 0);
    }
    auto_close int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0 && file_write_all(fd, text, &e) == 0);
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    const char *const paths[] = {path};
    AUTO(kube_settings_done) struct kube_settings s = {0};
    if (kube_settings_from_files(&ctx, paths, 1, NULL, &s, &e) == 0)
        FUZZ_CHECK(s.server && s.server[0] != '\0');
    return 0;
}
