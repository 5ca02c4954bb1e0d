# SPDX-License-Identifier: Apache-2.0
"""A Pod's namespaces on a process node, and one run of a container in them."""

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from rig import network
from rig.cgroups import ROOT, TRACKING, Group
from rig.wait import until

# The node's end of every Pod's cable answers for this address, so Pods need no subnet.
GATEWAY = "169.254.1.1"

HOLD = 'echo "$0" > /proc/sys/kernel/hostname && exec sleep infinity'

# Arguments: control group, image, container directory, number of mounts, then SOURCE TARGET
# OPTIONS for each, then the command that enters the finished root. The container is process 1 of
# a pid namespace, so its children end with it and signals mean what they mean in a real one.
RUN = """
echo 0 > "$1/cgroup.procs"
exec unshare --mount --pid --fork --kill-child sh -ec '
    image=$2 own=$3 mounts=$4 root=$3/root
    shift 4
    mkdir -p "$own/upper" "$own/work" "$root"
    mount -t overlay -o "lowerdir=$image,upperdir=$own/upper,workdir=$own/work" overlay "$root"
    mkdir -p "$root/proc" "$root/dev"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    while [ "$mounts" -gt 0 ]; do
        mkdir -p "$(dirname "$root$2")"
        if [ -d "$1" ]; then mkdir -p "$root$2"; else touch "$root$2"; fi
        mount --bind "$1" "$root$2"
        mount -o "remount,bind,$3" "$root$2"
        shift 3
        mounts=$((mounts - 1))
    done
    exec "$@"
' sh "$@"
"""


class Sandbox:
    """The namespaces a Pod's containers share, held by a sleeping process."""

    def __init__(self, link, address, hostname):
        words = ["unshare", "--net", "--uts", "--ipc", "sh", "-c", HOLD, hostname]
        self._holder = subprocess.Popen(words)
        pid = self._holder.pid
        until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", 5, "sandbox is up", 0.01)
        self.enter = ["nsenter", *(f"--{ns}=/proc/{pid}/ns/{ns}" for ns in ("net", "uts", "ipc"))]
        network.ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", pid)
        Path(f"/proc/sys/net/ipv4/conf/{link}/proxy_arp").write_text("1")
        network.ip("link", "set", link, "up")
        network.ip("route", "replace", address, "dev", link)
        inside = f"""
            link set lo up
            link set eth0 up
            address add {address}/32 dev eth0
            route add {GATEWAY} dev eth0
            route add default via {GATEWAY}
        """
        subprocess.run([*self.enter, "ip", "-batch", "-"], input=inside.encode(), check=True)

    def close(self):
        self._holder.kill()
        self._holder.wait()


class Container:
    """One run of a container. `mounts` are (source, target, "ro" or "rw")."""

    def __init__(self, sandbox, group, image, directory, mounts, user, command, environment, log):
        self._group = Group(group)
        tracking = ROOT / TRACKING / group
        tracking.mkdir(parents=True, exist_ok=True)
        words = [*sandbox.enter, "sh", "-c", RUN, "sh", tracking, image, directory, len(mounts)]
        words += [word for mount in mounts for word in mount]
        words += ["chroot", *user, directory / "root", *command]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(word) for word in words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def exit_code(self):
        """As a shell would say it; None while the container runs."""
        code = self._process.poll()
        return 128 - code if code is not None and code < 0 else code

    def stop(self, grace):
        """TERM to the container's first process, KILL to all of it later; returns the exit code."""
        with contextlib.suppress(ProcessLookupError):
            if pid := self._main_pid():
                os.kill(pid, signal.SIGTERM)
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            self._group.kill()
            self._process.wait()
        return self.exit_code()

    def execute(self, command, seconds):
        """Whether a command in the container succeeds in time."""
        words = ["nsenter", "--target", str(self._main_pid()), "--all", "--root", *command]
        words = ["timeout", "--signal=KILL", str(seconds), *words]
        return subprocess.run(words, check=False, capture_output=True).returncode == 0

    def _main_pid(self):
        """Of the process that is 1 in the container; None before it runs and after it ended."""
        pid = self._process.pid
        with contextlib.suppress(OSError):
            if children := Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                return int(children[0])
        return None
