/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fault.h"

#ifdef RAFTSMAN_FAULTS
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

void fault_called(const char *what, const char *object)
{
    static atomic_int calls;
    const int number = atomic_fetch_add(&calls, 1) + 1;
    const char *path = getenv("RAFTSMAN_CALLS"), *die_at = getenv("RAFTSMAN_DIE_AT");
    const int fd = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    if (fd >= 0) {
        (void)dprintf(fd, "%d %s %s\n", number, what, object); /* a test misses what is missing */
        (void)close(fd);
    }
    int64_t at = 0;
    if (die_at && str_i64(str_c(die_at), &at) && number == at)
        (void)raise(SIGKILL);
}
#endif
