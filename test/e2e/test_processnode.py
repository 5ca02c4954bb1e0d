# SPDX-License-Identifier: Apache-2.0
"""The process node does for our Pods what a kubelet does, only sooner."""

import subprocess
import time

import pytest

from kube import Kube
from manifests import claim, etcd_cluster, pod, secret
from rig import faults, tools, volumes
from rig.cluster import Kubernetes
from rig.wait import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    rig = Kubernetes(tmp_path_factory.mktemp("process") / "rig")
    rig.up(3, "process")
    yield Kube(rig.kubeconfig, rig)
    rig.down()


def test_a_node_returns_in_about_a_second_and_runs_its_pods_again(cluster, namespace):
    node = cluster.rig.nodes["node1"]
    cluster.create(namespace, pod("passenger", nodeName="node1"))
    cluster.wait_ready(namespace, "passenger")
    node.stop()
    begun = time.monotonic()
    node.restore(cluster.rig.api)
    assert time.monotonic() - begun < 3
    until(lambda: cluster.restarts(namespace, "passenger") == 1, 10, "the Pod runs again")
    cluster.wait_ready(namespace, "passenger")


def test_three_etcd_pods_form_a_cluster_and_survive_a_kill(cluster, namespace):
    names = ["etcd-0", "etcd-1", "etcd-2"]
    cluster.create(namespace, *etcd_cluster(namespace))
    cluster.wait_ready(namespace, *names)
    assert _etcdctl(cluster, namespace, "etcd-0", "put", "key", "value") == "OK\n"
    faults.kill_pod(cluster.rig, namespace, "etcd-2")
    until(lambda: cluster.restarts(namespace, "etcd-2") == 1, 10, "etcd-2 was restarted")
    cluster.wait_ready(namespace, *names)
    got = _etcdctl(cluster, namespace, "etcd-2", "get", "key", "--print-value-only")
    assert got == "value\n"
    status = cluster.core.read_namespaced_pod("etcd-2", namespace).status
    assert status.container_statuses[0].last_state.terminated.exit_code == 137


def test_containers_run_in_order_with_their_volumes_environment_and_user(cluster, namespace):
    write = "echo $WHO $(cat /secret/word) $(id -u) $(stat -c %g /data) >> /data/file"
    container = {"command": ["sh", "-c", write], "env": [_field("WHO", "metadata.name")]}
    first = {"name": "first", "image": "docker.io/library/busybox:1.35"}
    first |= {"command": ["sh", "-c", "echo first > /data/file"]}
    first |= {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    job = pod("job", claim="disk", secret="s", container=container, initContainers=[first])
    job["spec"] |= {"restartPolicy": "Never", "securityContext": {"runAsUser": 7, "fsGroup": 9}}
    cluster.create(namespace, claim("disk"), secret("s", word="hush"), job)
    until(lambda: _phase(cluster, namespace, "job") == "Succeeded", 20, "the Pod succeeded")
    file = volumes.content(cluster.rig.processes, cluster.rig.api, namespace, "disk") / "file"
    assert file.read_text() == "first\njob hush 7 9\n"


def test_a_changed_secret_reaches_the_container(cluster, namespace):
    wait = "until grep -q new /secret/word; do sleep 0.2; done"
    cluster.create(namespace, secret("s", word="old"))
    cluster.create(namespace, pod("reader", wait, secret="s", restartPolicy="Never"))
    cluster.wait_ready(namespace, "reader")
    cluster.core.patch_namespaced_secret("s", namespace, {"stringData": {"word": "new"}})
    until(lambda: _phase(cluster, namespace, "reader") == "Succeeded", 20, "the file is new")


def test_probes_decide_over_readiness_and_restarts(cluster, namespace):
    probe = {"periodSeconds": 1, "failureThreshold": 2}
    healthy = probe | {"exec": {"command": ["sh", "-c", "test ! -e /data/sick"]}}
    cluster.create(
        namespace,
        claim("disk"),
        pod(
            "probed",
            "rm -f /data/sick; sleep 2; touch /data/sick; sleep 60",
            claim="disk",
            container={"livenessProbe": healthy},
        ),
        pod("closed", container={"readinessProbe": probe | {"tcpSocket": {"port": 9}}}),
    )
    until(lambda: cluster.exists(namespace, "closed").status.phase == "Running", 10, "it runs")
    until(lambda: cluster.restarts(namespace, "probed") == 1, 20, "the sick one was restarted")
    assert not cluster.is_ready(namespace, "closed")


def test_an_unknown_image_is_reported(cluster, namespace):
    cluster.create(namespace, pod("strange", container={"image": "example.test/none:v1"}))

    def reason():
        statuses = cluster.exists(namespace, "strange").status.container_statuses
        return statuses and statuses[0].state.waiting.reason

    until(lambda: reason() == "ErrImageNeverPull", 10, "the missing image is reported")


def _phase(cluster, namespace, name):
    return cluster.core.read_namespaced_pod(name, namespace).status.phase


def _field(name, path):
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _etcdctl(cluster, namespace, name, *words):
    """From the host, because a process node does not offer `exec`."""
    address = cluster.core.read_namespaced_pod(name, namespace).status.pod_ip
    command = [tools.binary("etcd-3.6", "etcdctl"), f"--endpoints=http://{address}:2379", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
