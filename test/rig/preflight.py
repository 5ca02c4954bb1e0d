# SPDX-License-Identifier: Apache-2.0
"""Whether this machine can carry a rig, asked before anything is started."""

import os
import shutil
import subprocess
from pathlib import Path

from rig import cgroups, nodefiles, tools
from rig.errors import Missing

PROGRAMS = ("busybox", "gcc", "ip", "mount", "nsenter", "unshare")
KUBELET_PROGRAMS = ("conntrack", "containerd", "ctr", "iptables", "runc")

# Each is tried in new namespaces, so nothing of it stays.
NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork"]
KERNEL = {
    "namespaces": ["true"],
    "bridge interfaces": ["ip", "link", "add", "name", "try", "type", "bridge"],
    "veth interfaces": ["ip", "link", "add", "name", "try", "type", "veth"],
    "tmpfs": ["mount", "-t", "tmpfs", "tmpfs", "/run"],
}
OVERLAY = """
mount -t tmpfs tmpfs /run && mkdir /run/lower /run/upper /run/work &&
mount -t overlay -o lowerdir=/run/lower,upperdir=/run/upper,workdir=/run/work overlay /run/lower
"""
KUBELET_KERNEL = {
    "overlayfs": ["sh", "-c", OVERLAY],
    "iptables NAT": ["iptables", "-t", "nat", "-L"],
}


def check(nodes, kind):
    """Raise `Missing`, in one line, for the first thing that is not there."""
    if nodes and os.geteuid() != 0:
        raise Missing("nodes need root: run as root, or with --nodes 0")
    for tool_set in ("etcd-3.6", "kubernetes") + (("coredns",) if nodes else ()):
        tools.directory(tool_set)
    if not nodes:
        return
    real = kind == "kubelet"
    for program in PROGRAMS + (KUBELET_PROGRAMS if real else ()):
        if not shutil.which(program):
            raise Missing(f"{program} is not installed: run `tools/deps packages rig`")
    if real and not Path(nodefiles.CNI_PLUGINS, "ptp").exists():
        raise Missing("no CNI plugins are installed: run `tools/deps packages rig`")
    for feature, command in (KERNEL | (KUBELET_KERNEL if real else {})).items():
        tried = subprocess.run([*NAMESPACES, *command], check=False, capture_output=True)
        if tried.returncode != 0:
            raise Missing(f"the kernel does not offer {feature}")
    if absent := cgroups.missing():
        raise Missing(f"control group (v1) hierarchies are not mounted: {', '.join(absent)}")
