# SPDX-License-Identifier: Apache-2.0
"""Each fault does what it says, and can be undone."""

import pytest
from kubernetes.client import ApiException

from manifests import claim, pod
from rig import faults
from rig.wait import until

LOSS_SECONDS = 40


@pytest.mark.parametrize("verb", ["pause", "cut"])
def test_a_node_that_falls_silent_is_lost_and_returns_with_its_pods(cluster, namespace, verb):
    name, node = cluster.last_node()
    cluster.create(namespace, pod("passenger", nodeName=name))
    cluster.wait_ready(namespace, "passenger")
    getattr(node, verb)()
    try:
        until(lambda: cluster.node_ready(name) == "Unknown", LOSS_SECONDS, f"{name} is lost")
    finally:
        node.restore(cluster.rig.api)
    cluster.wait_ready(namespace, "passenger")
    assert cluster.restarts(namespace, "passenger") == 0


def test_a_stopped_dns_answers_again_after_its_start(cluster, namespace):
    lookup = "nslookup kubernetes.default.svc.cluster.local >/dev/null 2>&1 && echo found"
    cluster.create(namespace, pod("asker"))
    cluster.wait_ready(namespace, "asker")
    assert cluster.shell(namespace, "asker", lookup) == "found\n"
    faults.stop_dns(cluster.rig)
    try:
        assert cluster.shell(namespace, "asker", lookup) == ""
    finally:
        faults.start_dns(cluster.rig)
    assert cluster.shell(namespace, "asker", lookup) == "found\n"


def test_the_apiserver_restarts_with_everything_it_knew(cluster, namespace):
    cluster.create(namespace, claim("remembered"))
    before = cluster.rig.processes.get("kube-apiserver").pid
    faults.restart_apiserver(cluster.rig)
    assert cluster.rig.processes.get("kube-apiserver").pid != before
    cluster.core.read_namespaced_persistent_volume_claim("remembered", namespace)


def test_a_killed_pod_is_restarted_in_place(cluster, namespace):
    cluster.create(namespace, pod("victim"))
    cluster.wait_ready(namespace, "victim")
    faults.kill_pod(cluster.rig, namespace, "victim")
    until(lambda: cluster.restarts(namespace, "victim") == 1, 30, "the container was restarted")
    cluster.wait_ready(namespace, "victim")
    status = cluster.core.read_namespaced_pod("victim", namespace).status
    assert status.container_statuses[0].last_state.terminated.exit_code == 137


def test_a_lost_volume_is_empty(cluster, namespace):
    cluster.create(namespace, claim("disk"), pod("user", claim="disk"))
    cluster.wait_ready(namespace, "user")
    cluster.shell(namespace, "user", "mkdir /data/folder && echo kept > /data/folder/file")
    faults.lose_volume(cluster.rig, namespace, "disk")
    assert cluster.shell(namespace, "user", "ls -A /data") == ""


def test_a_full_volume_takes_no_more_and_others_do(cluster, namespace):
    cluster.create(namespace, claim("full"), pod("unlucky", claim="full"))
    cluster.create(namespace, claim("free"), pod("lucky", claim="free"))
    cluster.wait_ready(namespace, "unlucky", "lucky")
    faults.fill_volume(cluster.rig, namespace, "full")
    write = "dd if=/dev/zero of=/data/file bs=65536 count=1 2>&1 | grep No"
    assert "No space left on device" in cluster.shell(namespace, "unlucky", write)
    assert cluster.shell(namespace, "lucky", write) == ""
    cluster.shell(namespace, "unlucky", "rm /data/filling")
    assert cluster.shell(namespace, "unlucky", write) == ""


def test_draining_a_node_evicts_its_pods_and_closes_it(cluster, namespace):
    cluster.create(namespace, pod("tenant", nodeName="node1"))
    cluster.wait_ready(namespace, "tenant")
    try:
        faults.drain(cluster.rig, "node1")
        with pytest.raises(ApiException):
            cluster.core.read_namespaced_pod("tenant", namespace)
        assert cluster.core.read_node("node1").spec.unschedulable
    finally:
        cluster.core.patch_node("node1", {"spec": {"unschedulable": None}})
