# SPDX-License-Identifier: Apache-2.0
"""Disks that are too small."""

import contextlib
import subprocess
from pathlib import Path

HOLD = 'mount -t tmpfs -o "size=$1" tmpfs "$0" && echo mounted && exec cat'


@contextlib.contextmanager
def small(directory, size):
    """A file system of `size` bytes over `directory`; yields the path to it.

    It is mounted for one process only, and goes with it: at the end of the block, or with the
    test run, because then nobody holds the process's standard input any more.
    """
    words = ["unshare", "--mount", "--propagation=private", "sh", "-c", HOLD, directory, str(size)]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout.readline() == "mounted\n"
            yield Path(f"/proc/{holder.pid}/root{directory}")
        finally:
            holder.stdin.close()
