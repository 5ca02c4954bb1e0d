# SPDX-License-Identifier: Apache-2.0
"""One node, seen from the host: start it, lose it in several ways, get it back."""

import datetime
import json
import shutil
import signal
import subprocess
from pathlib import Path

from rig import network, nodefiles, tools, volumes
from rig.cgroups import Group
from rig.errors import RigError
from rig.instance import MAX_NODES
from rig.kubeletnode import import_command
from rig.nodeinit import LOADED
from rig.process import state_letter
from rig.wait import until

READY_SECONDS = 120

# What is executed as the first process of a node of each kind.
KINDS = {"kubelet": "kubeletnode", "process": "processnode"}


class Node:
    """A node of either kind, by its number."""

    def __init__(self, processes, instance, index):
        self.name = f"node{index}"
        self.directory = processes.directory / "nodes" / self.name
        self._group = Group(f"{instance.cgroup}/{self.name}")
        self._processes = processes
        self._instance = instance
        self._index = index

    def prepare(self, control_plane, archives):
        """Write everything a node of either kind reads when it starts."""
        self.directory.mkdir(parents=True)
        identity = f"system:node:{self.name}"
        kubeconfig = control_plane.user(f"{self.name}-kubelet", identity, "system:nodes")
        instance, index = self._instance, self._index
        others = [other for other in range(1, MAX_NODES + 1) if other != index]
        node = {
            "name": self.name,
            "cgroup": self._group.path,
            "address": instance.node_address(index),
            "network": f"{instance.node_address(index)}/{instance.subnet.prefixlen}",
            "gateway": instance.address,
            "pods": str(instance.node_pods(index)),
            "routes": {str(instance.node_pods(o)): instance.node_address(o) for o in others},
            "images": [str(archive) for archive in archives],
            "kubelet": str(tools.binary("kubernetes", "kubelet")),
            "kube-proxy": str(tools.binary("kubernetes", "kube-proxy")),
            "kubeconfig": str(kubeconfig),
        }
        (self.directory / "node.json").write_text(json.dumps(node, indent=2))
        proxy = control_plane.user(f"{self.name}-proxy", "system:kube-proxy")
        nodefiles.write(self.directory, instance, index, control_plane.authority, proxy)

    def start(self, kind):
        """Start the node for the first time. `wait_ready` waits for it."""
        self._group.create()
        namespaces = ["--net", "--mount", "--pid", "--uts", "--ipc"]
        words = ["unshare", *namespaces, "--propagation=slave", "--fork", "--kill-child"]
        words += ["--mount-proc", *tools.module(KINDS[kind]), self.directory]
        self._processes.start(self.name, [*volumes.inside(self._processes), *words])
        network.plug(self._instance, self._index, self._process)

    def wait_ready(self, api, since=None):
        """Wait until the node reports that it is ready, and did so after `since`."""
        lease = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{self.name}"

        def ready():
            node, renewed = api.find(f"/api/v1/nodes/{self.name}"), api.find(lease)
            if not node or not renewed or not (self.directory / LOADED).exists():
                return False
            time = datetime.datetime.fromisoformat(renewed["spec"]["renewTime"])
            return (not since or time > since) and any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in node["status"].get("conditions", [])
            )

        self._process.wait_ready(ready, READY_SECONDS)

    def stop(self):
        """Cut the power: kubelet and containers end without a word.

        Their control groups go too, as on a real machine: kubelet is slow to start over old ones.
        """
        self._process.stop(grace=0)
        self._group.kill()
        self._group.remove()
        network.unplug(self._instance, self._index)

    def pause(self):
        """Freeze every process of the node, Pods included."""
        until(self._freeze, 10, f"every process of {self.name} is stopped", every=0.02)

    def cut(self):
        """Pull the network cable."""
        network.set_plugged(self._instance, self._index, False)

    def restore(self, api):
        """Undo `stop`, `pause` or `cut`, and wait until the node is ready again."""
        since = datetime.datetime.now(datetime.UTC)
        if self._process.alive():
            self._group.signal(signal.SIGCONT)
            network.set_plugged(self._instance, self._index, True)
        else:
            self._group.create()
            self._processes.restart(self.name)
            network.plug(self._instance, self._index, self._process)
        self.wait_ready(api, since)

    def load_image(self, archive, kind):
        """Give the node another image."""
        if kind == "process":
            own = self.directory / "images"
            own.mkdir(exist_ok=True)
            shutil.copy(archive, own)
            return
        # The socket is only in the node's own `/run`, which the host sees through its process.
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        address = f"/proc/{children.read_text().split()[0]}/root{nodefiles.SOCKET}"
        command = import_command(address, archive)
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise RigError(f"{self.name}: {done.stderr.strip()}")

    @property
    def _process(self):
        return self._processes.get(self.name)

    def _freeze(self):
        self._group.signal(signal.SIGSTOP)
        return all(state_letter(pid) in "TtZX" for pid in self._group.pids())
