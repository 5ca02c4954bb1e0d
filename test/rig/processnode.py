# SPDX-License-Identifier: Apache-2.0
"""A node without kubelet and containerd: containers are plain processes and start in moments.

It registers itself with the real apiserver and does what our Pods use: init containers, volumes,
probes, restarts with back-off, grace periods, status. For crash matrices and fault loops; nothing
is called proven that ran only here. Pods are in `rig.processpod`.
"""

import ipaddress
import itertools
import sys
import threading
import time
from pathlib import Path

from rig import nodeinit
from rig.api import FAILURES, Api
from rig.images import Unpacked
from rig.processpod import Pod, timestamp


class Node:
    """The node itself, inside its namespaces."""

    def __init__(self, directory):
        self.directory = directory
        self.about = nodeinit.enter(directory)
        self.api = Api(self.about["kubeconfig"])
        self.addresses = itertools.cycle(ipaddress.ip_network(self.about["pods"]).hosts())
        self._name = self.about["name"]
        self._images, self._pods = {}, {}
        self._lock = threading.Lock()

    def serve(self):
        """Register, then run a thread for every Pod bound to this node."""
        self._register()
        threading.Thread(target=self._heartbeat, daemon=True).start()
        self.api.follow(f"/api/v1/pods?fieldSelector=spec.nodeName={self._name}", self._handle)

    def image(self, name):
        """The unpacked image of that name; None if the node has none."""
        with self._lock:
            for archive in [*self.about["images"], *(self.directory / "images").glob("*.tar")]:
                if archive not in self._images:
                    self._images[archive] = Unpacked(Path(archive), self.directory / "unpacked")
            found = next((i for i in self._images.values() if name in i.names), None)
            return found if found and found.root else None

    def _register(self):
        labels = {"kubernetes.io/hostname": self._name, "kubernetes.io/os": "linux"}
        self.api.create("/api/v1/nodes", {"metadata": {"name": self._name, "labels": labels}})
        capacity = {"cpu": "16", "memory": "64Gi", "pods": "200"}
        times = {"lastHeartbeatTime": timestamp(), "lastTransitionTime": timestamp()}
        status = {
            "capacity": capacity,
            "allocatable": capacity,
            "addresses": [{"type": "InternalIP", "address": self.about["address"]}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "ProcessNode", **times}],
        }
        self.api.patch(f"/api/v1/nodes/{self._name}/status", {"status": status})
        (self.directory / nodeinit.LOADED).touch()

    def _handle(self, event, pod):
        uid = pod["metadata"]["uid"]
        if uid not in self._pods and event != "DELETED":
            self._pods[uid] = Pod(self, pod, number=len(self._pods))
            self._pods[uid].start()
        elif uid in self._pods:
            self._pods[uid].seen = None if event == "DELETED" else pod

    def _heartbeat(self):
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        while True:
            spec = {"holderIdentity": self._name, "leaseDurationSeconds": 12}
            spec["renewTime"] = timestamp(".%f")
            try:
                body = {"metadata": {"name": self._name}, "spec": spec}
                if not self.api.create(leases, body):
                    self.api.patch(f"{leases}/{self._name}", {"spec": spec})
            except FAILURES as problem:
                print(f"heartbeat: {problem}", flush=True)
            time.sleep(2)


if __name__ == "__main__":
    Node(Path(sys.argv[1])).serve()
