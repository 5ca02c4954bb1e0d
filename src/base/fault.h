/* SPDX-License-Identifier: Apache-2.0
 * Where a test may end the process: after every call that changed something outside.
 *
 * In a build with tests, RAFTSMAN_CALLS names a file to which each such call is appended, and
 * RAFTSMAN_DIE_AT the number of the one after which the process kills itself, at that very
 * instruction. In any other build nothing of this exists. */
#pragma once

#ifdef RAFTSMAN_FAULTS
void fault_called(const char *what, const char *object);
#else
static inline void fault_called(const char *what, const char *object)
{
    (void)what;
    (void)object;
}
#endif
