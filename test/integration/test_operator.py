# SPDX-License-Identifier: Apache-2.0
"""The operator where there is no node: what a real one cannot be made to do on demand.

Addresses are reused, and what answers at a Pod's address may be another cluster: the test plays the
kubelet, reads the Pods the operator makes, runs their etcd on an address of its choice, and says in
the Pod's status where it is. And namespaces vanish under what is in them.
"""

import base64
import json
import time
import urllib.request

import pytest
import yaml

from conftest import BINARY, REPOSITORY
from rig import ports, tools
from rig.api import Api, ApiError
from rig.process import Processes
from rig.wait import until

GROUP = "/apis/etcd-operator.cozystack.io/v1alpha2/namespaces/default"
CLUSTER = f"{GROUP}/etcdclusters/moved"
PODS = "/api/v1/namespaces/default/pods"
OURS, STRANGER = "127.0.77.1", "127.0.77.2"


@pytest.fixture
def processes(tmp_path):
    running = Processes(tmp_path, die_with_parent=True)
    yield running
    running.stop_all()


@pytest.fixture
def api(control_plane):
    made = Api(control_plane.kubeconfig)
    for path in sorted((REPOSITORY / "deploy" / "crds").glob("*.yaml")):
        crd = yaml.safe_load(path.read_text())
        where = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        if not made.find(f"{where}/{crd['metadata']['name']}"):
            made.create(where, crd)
    until(lambda: served(made), 20, "the kinds are served")
    return made


def served(api):
    """A kind that was just made known is answered with 404 at first."""
    return api.find(f"{GROUP}/etcdclusters") and api.find(f"{GROUP}/etcdmembers")


def start_operator(processes, control_plane, namespace):
    """Returns where its metrics are."""
    health, metrics = (f"127.0.0.1:{ports.free()}" for _ in range(2))
    words = [BINARY, "operator", "--kubeconfig", control_plane.kubeconfig]
    words += ["--metrics-bind-address", metrics, "--watch-namespace", namespace]
    processes.start("operator", [*words, "--health-probe-bind-address", health])
    return f"http://{metrics}/metrics"


def start_etcd(processes, name, address, flags, data):
    """An etcd with these flags, listening where the test says."""
    listen = {
        "--listen-client-urls": f"http://{address}:2379",
        "--listen-peer-urls": f"http://{address}:2380",
        "--listen-metrics-urls": f"http://{address}:2381",
        "--data-dir": data,
    }
    kept = [flag for flag in flags if flag.split("=")[0] not in listen]
    words = [f"{flag}={value}" for flag, value in listen.items()]
    processes.start(name, [tools.binary("etcd-3.6", "etcd"), *kept, *words])
    return until(lambda: ask(address, "/v3/maintenance/status"), 20, f"{name} answers")


def ask(address, path, **body):
    try:
        url = f"http://{address}:2379{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=2) as answer:
            return json.load(answer)
    except OSError:
        return None


def say_where(api, pod, address):
    """As a kubelet would."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    api.patch(f"{PODS}/{pod}/status", {"status": status | {"conditions": [ready]}})


def condition(api, kind):
    conditions = api.get(CLUSTER).get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {"status": "", "reason": ""})


def test_what_answers_elsewhere_is_never_taken_for_the_cluster(
    api, control_plane, processes, tmp_path
):
    start_operator(processes, control_plane, "default")
    stranger = ["--name=stranger", f"--initial-advertise-peer-urls=http://{STRANGER}:2380"]
    stranger += [f"--initial-cluster=stranger=http://{STRANGER}:2380"]
    stranger += [f"--advertise-client-urls=http://{STRANGER}:2379"]
    start_etcd(processes, "stranger", STRANGER, stranger, tmp_path / "stranger")
    spec = {"replicas": 1, "version": "3.6.11"}
    body = {"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdCluster"}
    api.create(f"{GROUP}/etcdclusters", body | {"metadata": {"name": "moved"}, "spec": spec})

    def pods():
        selector = "etcd-operator.cozystack.io/cluster=moved"
        return api.get(f"{PODS}?labelSelector={selector}")["items"]

    (pod,) = until(pods, 20, "the seed's Pod is made")
    name = pod["metadata"]["name"]

    # Before it formed: somebody else answers at the seed's address.
    say_where(api, name, STRANGER)
    until(lambda: condition(api, "Available")["reason"] == "ForeignCluster", 20, "it is noticed")
    assert "clusterID" not in api.get(CLUSTER)["status"]

    # The seed itself.
    container = pod["spec"]["containers"][0]
    flags = [w for w in container.get("command", []) + container.get("args", []) if w[:2] == "--"]
    ours = start_etcd(processes, "ours", OURS, flags, tmp_path / "ours")
    say_where(api, name, OURS)
    until(lambda: condition(api, "Available")["status"] == "True", 20, "the cluster formed")
    identity = api.get(CLUSTER)["status"]["clusterID"]
    assert int(identity, 16) == int(ours["header"]["cluster_id"])
    key, value = (base64.b64encode(word).decode() for word in (b"kept", b"yes"))
    assert ask(OURS, "/v3/kv/put", key=key, value=value)

    # Afterwards the address belongs to the other cluster: it is not asked, grown or shrunk.
    say_where(api, name, STRANGER)
    until(lambda: condition(api, "Available")["status"] == "False", 20, "it is noticed again")
    api.patch(CLUSTER, {"spec": {"replicas": 3}})
    time.sleep(3)
    assert len(ask(STRANGER, "/v3/cluster/member/list")["members"]) == 1
    assert api.get(CLUSTER)["status"]["clusterID"] == identity

    # And back.
    say_where(api, name, OURS)
    until(lambda: condition(api, "Available")["status"] == "True", 20, "it is found again")
    until(lambda: len(ask(OURS, "/v3/cluster/member/list")["members"]) == 2, 20, "it grows")
    assert len(ask(STRANGER, "/v3/cluster/member/list")["members"]) == 1
    assert ask(OURS, "/v3/kv/range", key=key)["kvs"][0]["value"] == value
    assert "kvs" not in ask(STRANGER, "/v3/kv/range", key=key)
    with_finalizers = api.get(f"{GROUP}/etcdmembers")["items"]
    processes.get("operator").stop()
    api.delete(CLUSTER)
    for member in with_finalizers:
        try:
            path = f"{GROUP}/etcdmembers/{member['metadata']['name']}"
            api.patch(path, {"metadata": {"finalizers": None}})
        except ApiError:
            pass  # gone already


def vanish(api, name):
    """What is left in a namespace stays when it is finalized too early."""
    path = f"/api/v1/namespaces/{name}"
    api.delete(path)
    body = api.get(path) | {"spec": {"finalizers": []}}
    api.request("PUT", f"{path}/finalize", body)
    until(lambda: not api.find(path), 20, "it is gone")


def passes(metrics):
    """By their result."""
    with urllib.request.urlopen(metrics, timeout=2) as answer:
        lines = answer.read().decode().splitlines()
    series = [line.rpartition(" ") for line in lines if line.startswith("raftsman_reconcile_total")]
    return {name.partition('"')[2].rstrip('"}'): int(value) for name, _, value in series}


def test_a_member_in_a_namespace_that_is_gone_is_no_busy_work(api, control_plane, processes):
    namespace = "vanished"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    api.create("/api/v1/namespaces", space)
    group = GROUP.replace("/default", f"/{namespace}")
    meta = {"name": "left-abcde", "finalizers": ["etcd-operator.cozystack.io/member-cleanup"]}
    meta |= {"labels": {"etcd-operator.cozystack.io/cluster": "left"}}
    spec = {"clusterName": "left", "version": "3.6.11", "storage": {"size": "1Gi"}}
    spec |= {"clusterToken": "left", "bootstrap": True, "initialCluster": ""}
    body = {"apiVersion": "etcd-operator.cozystack.io/v1alpha2", "kind": "EtcdMember"}
    api.create(f"{group}/etcdmembers", body | {"metadata": meta, "spec": spec})
    member = f"{group}/etcdmembers/{meta['name']}"
    api.delete(member)
    vanish(api, namespace)
    metrics = start_operator(processes, control_plane, namespace)
    log = processes.get("operator")
    until(lambda: f'namespaces \\"{namespace}\\" not found' in log.tail(None), 20, "it is said")
    time.sleep(3)
    assert sum(passes(metrics).values()) < 5
    assert api.find(member)
    api.create("/api/v1/namespaces", space)
    until(lambda: not api.find(member), 60, "it is let go")
