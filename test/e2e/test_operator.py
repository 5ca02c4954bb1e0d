# SPDX-License-Identifier: Apache-2.0
"""An EtcdCluster becomes a healthy etcd, and stays one. A writer runs through most of it."""

import json
import time

import pytest

from etcdclusters import GROUP, Writer
from rig import faults
from rig.wait import until


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_a_manifest_becomes_a_cluster(etcd, replicas):
    etcd.create(replicas).wait(replicas)
    status = etcd.status()
    members = etcd.etcd_members()
    assert sorted(m["name"] for m in members) == etcd.names() and len(members) == replicas
    assert not any(m.get("isLearner") for m in members)
    assert {m["role"] for m in status["members"]} <= {"Leader", "Voter"}
    assert all(m["healthy"] and m["version"] == "3.6.11" for m in status["members"])
    assert status["leader"] in etcd.names() and status["phase"] == "Running"
    roles = {pod.metadata.labels.get(f"{GROUP}/role") for pod in etcd.pods().values()}
    assert roles == {"voter"}


def test_every_direction_of_scaling_keeps_every_write(etcd):
    etcd.create(3).wait(3)
    with Writer(etcd):
        for replicas in 5, 3, 1, 3:
            etcd.scale(replicas)
            etcd.wait(replicas)
            assert len(etcd.etcd_members()) == replicas


def test_pause_and_resume_keep_identity_and_data(etcd):
    etcd.create(3).wait(3)
    etcd.put("kept", "yes")
    before = etcd.status()["clusterID"]
    etcd.scale(0)
    etcd.wait(0)
    (asleep,) = etcd.members()
    identity = asleep["status"]["memberID"]
    name = asleep["metadata"]["name"]
    until(lambda: not etcd.pods(), 60, "no Pod is left")
    available = etcd.condition("Available")
    assert available["reason"] == "Paused" and f"data-{name}" in available["message"]
    etcd.scale(3)
    etcd.wait(3)
    assert etcd.status()["clusterID"] == before
    assert etcd.ids()[name] == identity
    assert etcd.read("kept") == {"kept": "yes"}


def returned(etcd, name, old_uid):
    pod = etcd.pods().get(name)
    return pod and pod.metadata.uid != old_uid and pod.status.pod_ip


def test_each_deleted_pod_comes_back_as_the_same_member(etcd, cluster, namespace):
    etcd.create(3).wait(3)
    identities = etcd.ids()
    with Writer(etcd):
        for name in etcd.names():
            uid = etcd.pods()[name].metadata.uid
            cluster.core.delete_namespaced_pod(name, namespace)
            until(lambda n=name, u=uid: returned(etcd, n, u), 60, f"{name} is back")
            etcd.wait(3)
    assert etcd.ids() == identities


def test_all_pods_deleted_at_once_come_back(etcd, cluster, namespace):
    etcd.create(3).wait(3)
    identities = etcd.ids()
    with Writer(etcd) as writer:
        until(lambda: writer.acknowledged > 10, 20, "some writes before")
        uids = {name: pod.metadata.uid for name, pod in etcd.pods().items()}
        for name in uids:
            cluster.core.delete_namespaced_pod(name, namespace)
        for name, uid in uids.items():
            until(lambda n=name, u=uid: returned(etcd, n, u), 90, f"{name} is back")
        etcd.wait(3)
    assert etcd.ids() == identities


def test_a_killed_etcd_restarts_in_place(etcd, cluster, namespace):
    etcd.create(3).wait(3)
    identities = etcd.ids()
    victim = etcd.names()[0]
    with Writer(etcd):
        faults.kill_pod(cluster.rig, namespace, victim)
        until(lambda: cluster.restarts(namespace, victim) == 1, 30, "it was restarted")
        etcd.wait(3)
    assert etcd.ids() == identities


def test_a_lost_volume_leads_to_a_new_member_never_to_the_old_id(etcd, cluster, namespace):
    """Of each voter in turn: the followers, and the leader, whose loss changes leadership."""
    etcd.create(3).wait(3)
    identities = etcd.ids()
    for victim in sorted(identities, key=lambda name: name == etcd.status()["leader"]):
        gone = etcd.uids()[victim]
        with Writer(etcd):
            cluster.core.delete_namespaced_persistent_volume_claim(f"data-{victim}", namespace)
            cluster.core.delete_namespaced_pod(victim, namespace)
            until(lambda u=gone: u not in etcd.uids().values(), 90, f"{victim} is replaced")
            etcd.wait(3, 120)
        assert str(int(identities[victim], 16)) not in {m["ID"] for m in etcd.etcd_members()}


def test_a_deleted_member_is_replaced(etcd):
    etcd.create(3).wait(3)
    victim, gone = next(iter(etcd.uids().items()))
    with Writer(etcd):
        etcd.delete_member(victim)
        until(lambda: gone not in etcd.uids().values() and len(etcd.uids()) == 3, 60, "a successor")
        etcd.wait(3)
    assert len(etcd.etcd_members()) == 3


def test_the_only_member_deleted_gets_a_successor_first(etcd):
    etcd.create(1).wait(1)
    (victim,) = etcd.names()
    etcd.put("kept", "yes")
    etcd.delete_member(victim)
    until(lambda: len(etcd.etcd_members()) == 1 and victim not in etcd.pods(), 60, "a successor")
    etcd.wait(1)
    assert etcd.names() != [victim] and etcd.read("kept") == {"kept": "yes"}


def test_deletion_leaves_nothing_and_the_name_is_free_again(etcd, cluster, namespace):
    etcd.create(3).wait(3)
    etcd.put("old", "yes")
    before = etcd.status()["clusterID"]
    etcd.delete()
    until(lambda: not etcd.members() and not etcd.pods(), 60, "members and Pods are gone")
    claims = cluster.core.list_namespaced_persistent_volume_claim
    until(lambda: not claims(namespace).items, 60, "volumes are gone")
    etcd.create(3).wait(3)
    assert etcd.status()["clusterID"] != before
    assert etcd.read("old") == {}


def test_deletion_and_creation_at_once_make_a_new_cluster(etcd):
    etcd.create(3).wait(3)
    etcd.put("old", "yes")
    etcd.delete()
    etcd.create(3).wait(3, 120)
    assert set(etcd.pods()) == set(etcd.names()) and len(etcd.names()) == 3
    assert etcd.read("old") == {}


def test_a_foreign_service_in_the_way_is_named_and_left_alone(etcd, cluster, namespace):
    spec = {"ports": [{"port": 80}], "selector": {"app": "other"}}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "demo"}, "spec": spec}
    cluster.create(namespace, service)
    etcd.create(1)
    until(lambda: "Service demo" in etcd.condition("Progressing")["message"], 20, "it is named")
    assert not etcd.members()
    assert cluster.core.read_namespaced_service("demo", namespace).spec.selector == {"app": "other"}
    cluster.core.delete_namespaced_service("demo", namespace)
    etcd.wait(1, 90)


def test_a_spec_edited_in_mid_flight_is_adopted_afterwards(etcd):
    etcd.create(3)
    until(lambda: etcd.status().get("clusterID"), 60, "it has formed")
    etcd.scale(1)
    etcd.wait(1, 90)
    assert len(etcd.etcd_members()) == 1


def settle(etcd, seconds=5):
    """Wait until the last word about a change is written: nothing for so long."""
    seen = [None, time.monotonic()]

    def quiet():
        if (version := etcd.get()["metadata"]["resourceVersion"]) != seen[0]:
            seen[:] = version, time.monotonic()
        return time.monotonic() - seen[1] > seconds

    until(quiet, 60, "the status stands still")


def test_an_operator_that_restarts_changes_nothing(etcd, operator):
    etcd.create(3).wait(3)
    settle(etcd)
    before = {name: pod.metadata.uid for name, pod in etcd.pods().items()}
    version = etcd.get()["metadata"]["resourceVersion"]
    assert operator.stop() < 5
    operator.start()
    time.sleep(3)  # long enough for every first pass
    assert {name: pod.metadata.uid for name, pod in etcd.pods().items()} == before
    assert etcd.get()["metadata"]["resourceVersion"] == version


def requests(cluster):
    """What our operator asked of the API server, by the audit log."""
    lines = (cluster.rig.state.directory / "logs" / "audit.log").read_text().splitlines()
    return [r for r in map(json.loads, lines) if r.get("userAgent", "").startswith("raftsman")]


def test_a_converged_cluster_costs_no_writes(etcd, cluster):
    etcd.create(3).wait(3)
    settle(etcd, 12)  # longer than the first repetition of an event
    begin = len(requests(cluster))
    time.sleep(35)
    since = requests(cluster)[begin:]
    asked = [(r["verb"], r["requestURI"]) for r in since if r["verb"] not in ("list", "watch")]
    assert [each for each in asked if each[0] != "get"] == []
    assert len(asked) <= 2
