/* SPDX-License-Identifier: Apache-2.0
 *
 * The first process of a Pod: holds its namespaces and reaps what the containers orphan.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int signal_number)
{
    (void)signal_number;
    _exit(0);
}

static void reap(int signal_number)
{
    (void)signal_number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
}

int main(void)
{
    signal(SIGTERM, leave);
    signal(SIGINT, leave);
    signal(SIGCHLD, reap);
    for (;;)
        pause();
}
