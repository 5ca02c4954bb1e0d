# SPDX-License-Identifier: Apache-2.0
"""make demo: the main job on real parts, from nothing to nothing.

Brings up a real Kubernetes of one node, installs the CRDs, starts the operator, applies the
README's manifest, and writes to etcd all the while: a Pod is deleted, the cluster is scaled
3 → 5 → 3 → 0 → 3, and at the end every acknowledged write must be there. KEEP=1 leaves it up.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY / "test"), str(REPOSITORY / "test" / "e2e")]

from etcdclusters import EtcdCluster, Writer  # noqa: E402
from kube import Kube  # noqa: E402
from operator_process import Operator, install  # noqa: E402
from rig import tools  # noqa: E402
from rig.cluster import Kubernetes  # noqa: E402
from rig.wait import until  # noqa: E402

SAMPLE = REPOSITORY / "deploy" / "sample.yaml"


class TimeLine:
    """What was done, and how long it took."""

    def __init__(self):
        self._begin = time.monotonic()

    def say(self, text):
        print(f"{time.monotonic() - self._begin:6.1f} s  {text}", flush=True)

    def step(self, text, action):
        begin = time.monotonic()
        result = action()
        self.say(f"{text} ({time.monotonic() - begin:.1f} s)")
        return result


def show(cluster, *words):
    print("\n$ kubectl " + " ".join(words))
    print(cluster.kubectl(*words), flush=True)


def replace_a_pod(cluster, etcd):
    name = etcd.names()[0]
    old = etcd.pods()[name].metadata.uid
    cluster.core.delete_namespaced_pod(name, etcd.namespace)
    until(lambda: (pod := etcd.pods().get(name)) and pod.metadata.uid != old, 60, f"{name} again")
    etcd.wait(3)


def play(line, cluster, operator):
    etcd = EtcdCluster(cluster, "default")
    cluster.wait_account("default")
    line.step("CRDs and RBAC installed", lambda: install(cluster))
    line.step("operator started", operator.start)
    cluster.kubectl("apply", "-f", str(SAMPLE))
    line.step("applied deploy/sample.yaml: three voters", lambda: etcd.wait(3))
    show(cluster, "get", "etcdclusters,etcdmembers,pods")

    def scaled(replicas):
        etcd.scale(replicas)
        etcd.wait(replicas)

    with Writer(etcd) as writer:
        until(lambda: writer.acknowledged >= 20, 20, "the writer writes")
        line.say("a writer has begun to write, and goes on")
        line.step("a Pod deleted and back as the same member", lambda: replace_a_pod(cluster, etcd))
        line.step("scaled to 5", lambda: scaled(5))
        line.step("scaled to 3", lambda: scaled(3))
        line.step("paused: no Pod runs, one volume is kept", lambda: scaled(0))
        line.step("resumed with 3", lambda: scaled(3))
    line.say(f"all {writer.acknowledged} acknowledged writes are there")
    show(cluster, "get", "etcdcluster", "demo", "-o", "custom-columns=NAME:.metadata.name,"
         "PHASE:.status.phase,LEADER:.status.leader,CLUSTER-ID:.status.clusterID")  # fmt: skip
    show(cluster, "get", "events", "--field-selector", "involvedObject.kind=EtcdCluster")
    return etcd


def keep(rig, etcd):
    kubectl = tools.binary("kubernetes", "kubectl")
    etcdctl = tools.binary("etcd-3.6", "etcdctl")
    print(f"""
The cluster stays up. In another shell, as root:

  export KUBECONFIG={rig.kubeconfig}
  {kubectl} get etcdclusters,etcdmembers,pods
  {kubectl} patch etcdcluster demo --type merge -p '{{"spec":{{"replicas":5}}}}'
  {etcdctl} --endpoints http://{etcd.addresses()[0]}:2379 member list -w table

Press Enter here to take everything down.""")
    sys.stdin.readline()


def main():
    line = TimeLine()
    with tempfile.TemporaryDirectory(prefix="raftsman-demo-") as scratch:
        rig = Kubernetes(Path(scratch) / "rig")
        try:
            line.step("a real Kubernetes with one node is up", lambda: rig.up(1))
            cluster = Kube(rig.kubeconfig, rig)
            operator = Operator(cluster, Path(scratch) / "operator")
            try:
                etcd = play(line, cluster, operator)
                if os.environ.get("KEEP") == "1":
                    keep(rig, etcd)
            finally:
                if operator.process:
                    operator.stop()
        finally:
            line.step("everything is stopped and removed", rig.down)


if __name__ == "__main__":
    main()
