# SPDX-License-Identifier: Apache-2.0
"""The network of a rig: one bridge, one cable per node, one route per node's Pods.

Nodes have unnamed network namespaces that live as long as their processes, so a killed node takes
its interfaces, addresses and rules with it.
"""

import ipaddress
import json
import os
import subprocess
from pathlib import Path

from rig.errors import RigError
from rig.instance import LIMIT, MAX_NODES, Instance, hardware_address


def ip(*words):
    """Run `ip`; its complaint is the error."""
    command = ["ip", *map(str, words)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RigError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def claim(directory):
    """Take the lowest free instance number by creating its bridge."""
    taken = _routed()
    for number in range(LIMIT):
        instance = Instance(number)
        ours = (instance.subnet, instance.pods, instance.services)
        if any(net.overlaps(other) for net in ours for other in taken):
            continue
        address = hardware_address(directory)
        try:
            ip("link", "add", instance.bridge, "address", address, "type", "bridge")
        except RigError:
            if Path(f"/sys/class/net/{instance.bridge}").exists():
                continue
            raise
        return instance
    raise RigError(f"all {LIMIT} rig numbers are taken on this machine")


def raise_bridge(instance):
    """Give the bridge its address, and the host a way to every Pod and Service."""
    ip("address", "add", f"{instance.address}/{instance.subnet.prefixlen}", "dev", instance.bridge)
    ip("link", "set", instance.bridge, "up")
    for index in range(1, MAX_NODES + 1):
        ip("route", "add", instance.node_pods(index), "via", instance.node_address(index))
    ip("route", "add", instance.services, "via", instance.node_address(1))


def plug(instance, index, process):
    """Run a cable from the bridge to the network namespace of a node's process, as its `eth0`.

    The process must already be in a namespace of its own, or the cable would end in the host's.
    """
    host = os.readlink("/proc/self/ns/net")
    process.wait_ready(lambda: os.readlink(f"/proc/{process.pid}/ns/net") != host, 5)
    link = instance.node_link(index)
    ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", process.pid)
    ip("link", "set", link, "master", instance.bridge, "up")


def unplug(instance, index):
    """Take the cable away. A dead node's namespace does the same, but in its own time."""
    _delete(instance.node_link(index))


def set_plugged(instance, index, plugged):
    """Pull the node's cable, or put it back."""
    ip("link", "set", instance.node_link(index), "up" if plugged else "down")


def remove(instance):
    """Remove the bridge with its routes and every cable still in it."""
    for port in Path(f"/sys/class/net/{instance.bridge}/brif").glob("*"):
        _delete(port.name)
    _delete(instance.bridge)


def _delete(link):
    """Delete an interface; fine if it is already gone."""
    try:
        ip("link", "delete", link)
    except RigError:
        if Path(f"/sys/class/net/{link}").exists():
            raise


def _routed():
    """The networks this machine already has a way to, other than the default route."""
    routes = json.loads(ip("-json", "-4", "route", "show") or "[]")
    return [ipaddress.ip_network(r["dst"], False) for r in routes if r["dst"] != "default"]
