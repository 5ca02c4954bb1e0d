# SPDX-License-Identifier: Apache-2.0
"""Our operator as a process beside the cluster, as a user without an image would run it."""

import contextlib
import functools
import time
import urllib.request

import yaml

from rig import ports, tools
from rig.process import Processes

BINARY = tools.REPOSITORY / "build" / "raftsman"
DEPLOY = tools.REPOSITORY / "deploy"
USER = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "raftsman"}


@functools.cache
def account(rig):
    """The kubeconfig of the user `raftsman`, made once."""
    return rig.user("raftsman")


def install(cluster):
    """Apply deploy/crds and deploy/rbac.yaml, and give the same rights to a user `raftsman`."""
    for path in sorted((DEPLOY / "crds").glob("*.yaml")):
        said = cluster.kubectl("apply", "--server-side", "-f", str(path))
        name = yaml.safe_load(path.read_text())["metadata"]["name"]
        assert name in said, said
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=20s")
    rights = list(yaml.safe_load_all((DEPLOY / "rbac.yaml").read_text()))
    for binding in (each for each in rights if each["kind"].endswith("Binding")):
        binding["subjects"].append(USER)
    cluster.kubectl("apply", "-f", "-", text=yaml.safe_dump_all(rights))
    account(cluster.rig)


class Operator:
    """One operator process. `start` and `stop` may be called in turns."""

    def __init__(self, cluster, directory, name="operator", flags=()):
        self.name, self.flags = name, list(flags)
        self.binary = [BINARY]
        self.kubeconfig = account(cluster.rig)
        self.processes = Processes(directory, die_with_parent=True)
        self.health = f"127.0.0.1:{ports.free()}"
        self.metrics = f"127.0.0.1:{ports.free()}"

    def start(self):
        argv = [*self.binary, "operator", "--kubeconfig", self.kubeconfig]
        argv += ["--metrics-bind-address", self.metrics]
        argv += ["--health-probe-bind-address", self.health]
        self.processes.start(self.name, [*argv, *self.flags])
        self.process.wait_ready(self.healthy, 20)
        return self

    @property
    def process(self):
        return self.processes.get(self.name)

    def healthy(self):
        try:
            with urllib.request.urlopen(f"http://{self.health}/healthz", timeout=1) as answer:
                return answer.status == 200
        except OSError:
            return False

    def metric(self, name, **labels):
        """Its value; None if there is none with these labels."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=2) as answer:
            lines = answer.read().decode().splitlines()
        texts = [f'{key}="{value}"' for key, value in labels.items()]
        for line in lines:
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(text in series for text in texts):
                return float(value)
        return None

    def stop(self, grace=10):
        """Returns how long it took."""
        begin = time.monotonic()
        self.process.stop(grace)
        return time.monotonic() - begin

    @contextlib.contextmanager
    def away(self):
        """Things happen while nobody looks."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def log(self):
        return self.process.tail(None)
