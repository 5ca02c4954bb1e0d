# SPDX-License-Identifier: Apache-2.0
"""The rig is a Kubernetes: what every later suite takes for granted."""

import json

import pytest
from kubernetes.client import ApiException

from kube import Kube
from manifests import claim, disruption_budget, etcd_cluster, pod, secret
from rig.definitions import definition
from rig.wait import until

SECRET_SECONDS = 60


def test_data_on_a_claim_survives_its_pod(cluster, namespace):
    cluster.create(namespace, claim("disk"), pod("first", claim="disk"))
    cluster.wait_ready(namespace, "first")
    cluster.shell(namespace, "first", "echo kept > /data/file")
    cluster.delete_pod(namespace, "first")
    cluster.create(namespace, pod("second", claim="disk"))
    cluster.wait_ready(namespace, "second")
    assert cluster.shell(namespace, "second", "cat /data/file") == "kept\n"


def test_a_deleted_claim_takes_its_volume_with_it(cluster, namespace):
    cluster.create(namespace, claim("disk"), pod("user", claim="disk"))
    cluster.wait_ready(namespace, "user")
    volume = cluster.core.read_namespaced_persistent_volume_claim(
        "disk", namespace
    ).spec.volume_name
    cluster.delete_pod(namespace, "user")
    cluster.core.delete_namespaced_persistent_volume_claim("disk", namespace)

    def gone():
        return volume not in [v.metadata.name for v in cluster.core.list_persistent_volume().items]

    until(gone, 30, f"volume {volume} is removed")


def test_a_volume_belongs_to_the_group_of_its_pod(cluster, namespace):
    user = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000}
    cluster.create(namespace, claim("disk"), pod("user", claim="disk", securityContext=user))
    cluster.wait_ready(namespace, "user")
    assert (
        cluster.shell(namespace, "user", "touch /data/file && stat -c %u:%g /data/file")
        == "1000:2000\n"
    )


def test_a_secret_update_reaches_the_mounted_file(cluster, namespace):
    cluster.create(namespace, secret("password", word="old"), pod("reader", secret="password"))
    cluster.wait_ready(namespace, "reader")
    assert cluster.shell(namespace, "reader", "cat /secret/word") == "old"
    cluster.core.patch_namespaced_secret("password", namespace, {"stringData": {"word": "new"}})
    until(
        lambda: cluster.shell(namespace, "reader", "cat /secret/word") == "new",
        SECRET_SECONDS,
        "the file has the new word",
        every=1,
    )


def test_a_pod_is_ready_only_while_its_probe_succeeds(cluster, namespace):
    probe = {"exec": {"command": ["sh", "-c", "test -e /tmp/ready"]}, "periodSeconds": 1}
    probe |= {"failureThreshold": 1}
    cluster.create(namespace, pod("probed", container={"readinessProbe": probe}))
    until(lambda: _running(cluster, namespace, "probed"), 30, "the container runs")
    assert not cluster.is_ready(namespace, "probed")
    cluster.shell(namespace, "probed", "touch /tmp/ready")
    cluster.wait_ready(namespace, "probed", seconds=15)
    cluster.shell(namespace, "probed", "rm /tmp/ready")
    until(lambda: not cluster.is_ready(namespace, "probed"), 15, "the Pod is not ready")


def test_a_failing_liveness_probe_restarts_the_container(cluster, namespace):
    probe = {"exec": {"command": ["sh", "-c", "test ! -e /tmp/sick"]}, "periodSeconds": 1}
    probe |= {"failureThreshold": 1}
    cluster.create(namespace, pod("probed", container={"livenessProbe": probe}))
    cluster.wait_ready(namespace, "probed")
    cluster.shell(namespace, "probed", "touch /tmp/sick")
    until(lambda: cluster.restarts(namespace, "probed") == 1, 30, "the container was restarted")
    cluster.wait_ready(namespace, "probed", seconds=15)


def test_an_eviction_that_would_break_the_disruption_budget_is_refused(cluster, namespace):
    labels = {"app": "guarded"}
    cluster.create(namespace, pod("one", labels=labels), pod("two", labels=labels))
    cluster.create(namespace, disruption_budget("budget", labels, available=1))
    cluster.wait_ready(namespace, "one", "two")
    until(lambda: _evict(cluster, namespace, "one"), 30, "the first eviction is allowed")
    until(lambda: not cluster.exists(namespace, "one"), 30, "the evicted Pod is gone")
    assert not _evict(cluster, namespace, "two")
    assert cluster.is_ready(namespace, "two")


def test_three_etcd_pods_find_each_other_by_headless_dns(cluster, namespace):
    cluster.create(namespace, *etcd_cluster(namespace))
    cluster.wait_ready(namespace, "etcd-0", "etcd-1", "etcd-2")
    assert cluster.execute(namespace, "etcd-0", "etcdctl", "put", "key", "value") == "OK\n"
    there = cluster.execute(namespace, "etcd-2", "etcdctl", "get", "key", "--print-value-only")
    assert there == "value\n"
    members = json.loads(
        cluster.execute(namespace, "etcd-1", "etcdctl", "member", "list", "--write-out=json")
    )
    assert len(members["members"]) == 3


def test_a_stopped_node_is_noticed_and_comes_back(cluster, namespace):
    name, node = cluster.last_node()
    cluster.create(namespace, pod("passenger", nodeName=name))
    cluster.wait_ready(namespace, "passenger")
    node.stop()
    until(lambda: cluster.node_ready(name) == "Unknown", 40, "the loss of the node is noticed")
    until(lambda: not cluster.is_ready(namespace, "passenger"), 10, "its Pod is not ready")
    node.restore(cluster.rig.api)
    cluster.wait_ready(namespace, "passenger")
    assert cluster.restarts(namespace, "passenger") == 1


def test_rbac_denies_what_no_role_grants(cluster, namespace):
    stranger = Kube(cluster.rig.user("stranger"), cluster.rig)
    with pytest.raises(ApiException) as denied:
        stranger.core.list_namespaced_pod(namespace)
    assert denied.value.status == 403
    cluster.create(namespace, *_reader_role("stranger"))

    def allowed():
        try:
            return stranger.core.list_namespaced_pod(namespace)
        except ApiException:
            return None

    until(allowed, 10, "the role is in force")
    with pytest.raises(ApiException) as denied:
        stranger.core.list_namespaced_secret(namespace)
    assert denied.value.status == 403


def test_a_custom_resource_that_breaks_its_cel_rule_is_refused(cluster, namespace):
    cluster.create(None, ODD_NUMBERS)
    kind = ("test.rig", "v1", namespace, "oddnumbers")
    odd, even = (
        {"apiVersion": "test.rig/v1", "kind": "OddNumber", "spec": {"n": n}} for n in (3, 4)
    )
    odd["metadata"], even["metadata"] = {"name": "three"}, {"name": "four"}
    try:
        until(lambda: _created(cluster, kind, odd), 20, "the new kind is served")
        with pytest.raises(ApiException) as refused:
            cluster.custom.create_namespaced_custom_object(*kind, even)
        assert refused.value.status == 422
        assert "n must be odd" in refused.value.body
    finally:
        cluster.kubectl("delete", "crd", "oddnumbers.test.rig", "--wait=false")


ODD_NUMBERS = definition(
    "OddNumber",
    "test.rig",
    {
        "spec": {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "x-kubernetes-validations": [{"rule": "self.n % 2 == 1", "message": "n must be odd"}],
        }
    },
)


def _running(cluster, namespace, name):
    statuses = cluster.core.read_namespaced_pod(name, namespace).status.container_statuses
    return statuses and statuses[0].state.running


def _evict(cluster, namespace, name):
    """Whether the eviction was accepted; a refusal must be the one that names the budget."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    try:
        cluster.core.create_namespaced_pod_eviction(name, namespace, eviction)
    except ApiException as refused:
        assert refused.status == 429, refused
        return False
    return True


def _reader_role(user):
    group = "rbac.authorization.k8s.io"
    about = {"apiVersion": f"{group}/v1", "metadata": {"name": "reader"}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    return (
        about | {"kind": "Role", "rules": [rule]},
        about
        | {
            "kind": "RoleBinding",
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "reader"},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    )


def _created(cluster, kind, body):
    """Whether the object was accepted; a kind just defined is not served at once."""
    try:
        return cluster.custom.create_namespaced_custom_object(*kind, body)
    except ApiException as error:
        assert error.status == 404, error
        return None
