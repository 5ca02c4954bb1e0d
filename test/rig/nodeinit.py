# SPDX-License-Identifier: Apache-2.0
"""What the first process of a node of either kind does first.

It is alone in new network, mount, pid, uts and ipc namespaces. When it ends, the kernel takes
everything else of the node with it: processes, mounts, interfaces, routes and rules.
"""

import json
import socket
import subprocess
from pathlib import Path

from rig import network
from rig.cgroups import Group
from rig.wait import until

# Exists when the node has all its images; `rig.node` waits for it.
LOADED = "loaded"


def enter(directory):
    """Make the machine look like the node described by `node.json`, which is returned."""
    (directory / LOADED).unlink(missing_ok=True)
    node = json.loads((directory / "node.json").read_text())
    Group(node["cgroup"]).enter()
    socket.sethostname(node["name"])
    run("mount", "-t", "tmpfs", "tmpfs", "/run")
    run("mount", "--make-rshared", "/")
    _connect(node)
    return node


def run(*words):
    subprocess.run(words, check=True)


def _connect(node):
    """Wait for the cable from `rig.network.plug`, then set up our end of it."""
    until(Path("/proc/sys/net/ipv4/conf/eth0").exists, 10, "eth0 is plugged in", every=0.01)
    network.ip("link", "set", "lo", "up")
    network.ip("address", "add", node["network"], "dev", "eth0")
    network.ip("link", "set", "eth0", "up")
    network.ip("route", "add", "default", "via", node["gateway"])
    for pods, address in node["routes"].items():
        network.ip("route", "add", pods, "via", address)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
