# SPDX-License-Identifier: Apache-2.0
"""A node without kubelet and containerd: containers are plain processes and start in moments.

For crash matrices and fault loops: it does what our Pods use, and proves nothing alone.
"""

import datetime
import ipaddress
import itertools
import sys
import threading
import time
from pathlib import Path

from rig import nodeinit
from rig.api import FAILURES, Api
from rig.images import Unpacked
from rig.processpod import ENDED, Pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CAPACITY = {"cpu": "16", "memory": "64Gi", "pods": "200"}


class Node:
    """The node itself, inside its namespaces."""

    def __init__(self, directory):
        self.directory = directory
        self.about = nodeinit.enter(directory)
        self.api = Api(self.about["kubeconfig"])
        self.addresses = itertools.cycle(ipaddress.ip_network(self.about["pods"]).hosts())
        self._name, self._pods = self.about["name"], {}
        self._unpacking = threading.Lock()

    def serve(self):
        """Run a thread for every Pod bound to this node, and tell the apiserver we are here."""
        pods = f"/api/v1/pods?fieldSelector=spec.nodeName={self._name}"
        threading.Thread(target=self.api.follow, args=(pods, self._handle), daemon=True).start()
        (self.directory / nodeinit.LOADED).touch()
        while True:
            try:
                self._register()
            except FAILURES as problem:
                print(f"heartbeat: {problem}", flush=True)
            time.sleep(2)

    def image(self, name):
        """The unpacked image of that name; None if the node has none."""
        with self._unpacking:
            for archive in [*self.about["images"], *(self.directory / "images").glob("*.tar")]:
                image = Unpacked(Path(archive), self.directory / "unpacked")
                if name in image.names and image.root:
                    return image
        return None

    def _register(self):
        about = {"name": self._name, "labels": {"kubernetes.io/hostname": self._name}}
        self.api.create("/api/v1/nodes", {"metadata": about})
        status = {
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "addresses": [{"type": "InternalIP", "address": self.about["address"]}],
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.api.patch(f"/api/v1/nodes/{self._name}/status", {"status": status})
        now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self._name, "leaseDurationSeconds": 12, "renewTime": now}
        if not self.api.create(LEASES, {"metadata": {"name": self._name}, "spec": spec}):
            self.api.patch(f"{LEASES}/{self._name}", {"spec": spec})

    def _handle(self, event, pod):
        uid, gone = pod["metadata"]["uid"], event == "DELETED"
        if uid in self._pods:
            self._pods[uid].seen, self._pods[uid].gone = pod, gone
        elif not gone and pod["status"]["phase"] not in ENDED:
            self._pods[uid] = Pod(self, pod)
            self._pods[uid].start()


if __name__ == "__main__":
    Node(Path(sys.argv[1])).serve()
