/* SPDX-License-Identifier: Apache-2.0 */
#include "net/library.h"

#include <dlfcn.h>
#include <string.h>

#include "base/thread.h"

/* The loader's text names the file, the function if it is one, and what is wrong. */
static int missing(struct err *e)
{
    const char *why = dlerror();
    return err_set(e, ERR_UNAVAILABLE, 0, "%s", why ? why : "a library is not what it was");
}

int library_load(struct library *l, struct err *e)
{
    MUTEX_HOLD(&l->lock);
    if (l->loaded)
        return 0;
    void *handle = dlopen(l->file, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return missing(e);
    for (size_t i = 0; i < l->n; i++) {
        void *function = dlsym(handle, l->functions[i].name);
        if (!function) {
            missing(e);
            (void)dlclose(handle); /* nobody calls what was found so far */
            return -1;
        }
        memcpy(l->functions[i].to, &function, sizeof(function));
    }
    l->loaded = true;
    return 0;
}
