# SPDX-License-Identifier: Apache-2.0
"""A Pod on a process node: init containers, each until it succeeds, then one container."""

import base64
import os
import shutil
import subprocess
import threading
import time
from pathlib import Path

from rig import network
from rig.api import FAILURES
from rig.podcontainer import Container
from rig.wait import until

TICK = 0.1
REFRESH_SECONDS = 5.0
ENDED = ("Succeeded", "Failed")
HOLD = 'echo "$0" > /proc/sys/kernel/hostname && exec sleep infinity'


class Pod(threading.Thread):
    """One Pod, from its first container to its last status."""

    def __init__(self, node, pod):
        super().__init__(daemon=True)
        self.node, self.seen, self.gone = node, pod, False
        self.spec, self.about = pod["spec"], pod["metadata"]
        self.directory = node.directory / "pods" / self.about["uid"]
        self.address = str(next(node.addresses))
        self._namespace = f"/api/v1/namespaces/{self.about['namespace']}"
        self._path, self._sent = f"{self._namespace}/pods/{self.about['name']}", None
        before = pod["status"].get("containerStatuses", [])
        restarts = sum(s["restartCount"] + ("running" in s["state"]) for s in before)
        main, policy = self.spec["containers"][0], self.spec["restartPolicy"]
        self._main = Container(self, main, policy, restarts)
        init = [Container(self, c, "OnFailure") for c in self.spec.get("initContainers", [])]
        self._containers = [*init, self._main]

    def run(self):
        self._connect(hostname=self.spec.get("hostname", self.about["name"]))
        refresh = 0.0
        while not self._leaving() and self._phase() not in ENDED:
            try:
                if time.monotonic() >= refresh:
                    self._refresh()
                    refresh = time.monotonic() + REFRESH_SECONDS
                next(c for c in self._containers if c.outcome() != "Succeeded").step()
                self._report()
            except (*FAILURES, KeyError) as problem:
                print(f"{self._path}: {problem}", flush=True)
            time.sleep(TICK)
        self._finish()

    def _connect(self, hostname):
        """Make what the containers share: names, and namespaces that a sleeping process holds."""
        zone, etc = f"{self.about['namespace']}.svc.cluster.local", self.directory / "etc"
        etc.mkdir(parents=True, exist_ok=True)
        names = f"{hostname} {hostname}.{self.spec.get('subdomain', 'pod')}.{zone}"
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {names}\n")
        search = f"search {zone} svc.cluster.local cluster.local\noptions ndots:5\n"
        (etc / "resolv.conf").write_text(f"{search}nameserver {self.node.about['gateway']}\n")
        self._holder = subprocess.Popen(["unshare", "--net", "--uts", "sh", "-c", HOLD, hostname])
        pid, gateway = self._holder.pid, self.node.about["address"]
        until(lambda: Path(f"/proc/{pid}/comm").read_text() == "sleep\n", 5, "sandbox is up", 0.01)
        self.enter = ["nsenter", f"--target={pid}", "--net", "--uts"]
        network.ip("link", "add", f"pod{pid}", "type", "veth", "peer", "eth0", "netns", pid)
        network.ip("link", "set", f"pod{pid}", "up")
        network.ip("route", "replace", self.address, "dev", f"pod{pid}")
        inside = f"""
            link set lo up
            link set eth0 up
            address add {self.address}/32 dev eth0
            route add {gateway} dev eth0
            route add default via {gateway}
        """
        subprocess.run([*self.enter, "ip", "-batch", "-"], input=inside.encode(), check=True)

    def _refresh(self):
        """Follow changed Secrets, and notice a deletion that the watch missed."""
        found = self.node.api.find(self._path)
        self.gone = not found or found["metadata"]["uid"] != self.about["uid"]
        self.volumes = {v["name"]: self._volume(v) for v in self.spec.get("volumes", [])}

    def _volume(self, volume):
        """Its path. What is no claim, Secret or ConfigMap becomes an empty directory."""
        path, get = self.directory / "volumes" / volume["name"], self.node.api.get
        files = {}
        if claim := volume.get("persistentVolumeClaim"):
            claim = get(f"{self._namespace}/persistentvolumeclaims/{claim['claimName']}")
            bound = get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
            path = Path(bound["spec"]["local"]["path"])
        elif not path.exists():
            path.mkdir(parents=True)
            path.chmod(0o777)
        if secret := volume.get("secret"):
            data = get(f"{self._namespace}/secrets/{secret['secretName']}").get("data", {})
            files = {name: base64.b64decode(text) for name, text in data.items()}
        if config := volume.get("configMap"):
            data = get(f"{self._namespace}/configmaps/{config['name']}").get("data", {})
            files = {name: text.encode() for name, text in data.items()}
        for name, data in files.items():
            (path / f"..{name}").write_bytes(data)
            (path / f"..{name}").rename(path / name)
        group = self.spec["securityContext"].get("fsGroup")
        if group is not None and path.stat().st_gid != group:
            os.chown(path, -1, group)
            path.chmod(path.stat().st_mode | 0o2070)
        return path

    def _leaving(self):
        return self.gone or "deletionTimestamp" in self.seen["metadata"]

    def _finish(self):
        """Stop what still runs; if the Pod was deleted, let it go from the API too."""
        for container in self._containers:
            container.policy = "Never"
            container.stop(self.seen["metadata"].get("deletionGracePeriodSeconds", 0))
        self._holder.kill()
        self._holder.wait()
        shutil.rmtree(self.directory)
        if not self.gone:
            self._report()
        if self._leaving():
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.about["uid"]}}
            self.node.api.delete(self._path, **options)

    def _phase(self):
        begun = self._main.restarts or self._main.process
        return self._main.outcome() or ("Running" if begun else "Pending")

    def _report(self):
        """Send the status if it differs from what was sent last."""
        ready = self._main.ready and not self._leaving()
        status = {
            "phase": self._phase(),
            "podIP": self.address,
            "podIPs": [{"ip": self.address}],
            "conditions": [{"type": "Ready", "status": str(ready)}],
            "containerStatuses": [self._main.status()],
        }
        if status != self._sent:
            body = {"metadata": {"uid": self.about["uid"]}, "status": status}
            self.node.api.patch(f"{self._path}/status", body)
            self._sent = status
