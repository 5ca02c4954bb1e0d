# SPDX-License-Identifier: Apache-2.0
"""Control groups (v1): the frame kubelets hang their Pods in, and a net that catches every process.

A child that a killed `up` or a dying node forgot is still in the group, so `down` finds it.
"""

import contextlib
import os
import signal
from pathlib import Path

from rig.wait import until

CONTROLLERS = ("blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "memory", "pids")
ROOT = Path("/sys/fs/cgroup")

# The hierarchy that is asked which processes belong to a group.
TRACKING = "pids"

# All Pods compete as one with everything else on the machine: give them weight.
CPU_SHARES = 16384


def missing():
    """The controllers this machine does not offer."""
    return [name for name in CONTROLLERS if not (ROOT / name / "cgroup.procs").is_file()]


class Group:
    """The group of that path in every hierarchy."""

    def __init__(self, path):
        self.path = path

    def create(self):
        for hierarchy in _hierarchies():
            (hierarchy / self.path).mkdir(parents=True, exist_ok=True)
        for setting in "cpuset.cpus", "cpuset.mems":
            group = ROOT / "cpuset" / self.path
            (group / setting).write_text((group.parent / setting).read_text())
        (ROOT / "cpu" / self.path / "cpu.shares").write_text(str(CPU_SHARES))

    def enter(self):
        """Move the calling process into the tracking hierarchy."""
        (ROOT / TRACKING / self.path / "cgroup.procs").write_text(str(os.getpid()))

    def pids(self):
        """Every process in the group and below."""
        found = []
        for top, _, _ in os.walk(ROOT / TRACKING / self.path):
            with contextlib.suppress(OSError):
                found += map(int, Path(top, "cgroup.procs").read_text().split())
        return found

    def signal(self, number):
        """Signal every process in the group; returns how many there were.

        A pidfd pins the process while its membership is checked, so a recycled pid is spared.
        """
        count = 0
        for pid in self.pids():
            with contextlib.suppress(OSError):
                fd = os.pidfd_open(pid)
                try:
                    if f"/{self.path}" in Path(f"/proc/{pid}/cgroup").read_text():
                        signal.pidfd_send_signal(fd, number)
                        count += 1
                finally:
                    os.close(fd)
        return count

    def kill(self, seconds=10):
        """Kill until nobody is left."""
        until(
            lambda: self.signal(signal.SIGKILL) == 0,
            seconds,
            f"control group {self.path} is empty",
            every=0.02,
        )

    def remove(self):
        """Remove the group and all below it. The kernel lets go of the last dead a little late."""
        until(self._removed, 10, f"control group {self.path} is removed", every=0.02)

    def _removed(self):
        groups = [hierarchy / self.path for hierarchy in _hierarchies()]
        for group in groups:
            for top, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(top)
        return not any(group.exists() for group in groups)


def _hierarchies():
    return [path for path in ROOT.iterdir() if (path / "cgroup.procs").is_file()]
