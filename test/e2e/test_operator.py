# SPDX-License-Identifier: Apache-2.0
"""An EtcdCluster becomes a healthy etcd, and what is asked of it. A writer runs through it all."""

import time

import pytest

from etcdclusters import GROUP, VERSION, Writer
from rig import images
from rig.wait import until


@pytest.mark.parametrize("replicas", [1, 3, 5])
def test_a_manifest_becomes_a_cluster(etcd, operator, replicas):
    with Writer(etcd):
        etcd.create(replicas).wait(replicas)
    until(lambda: all(m["healthy"] for m in etcd.status()["members"]), 30, "all answer in time")
    status = etcd.status()
    members = etcd.etcd_members()
    assert sorted(m["name"] for m in members) == etcd.names() and len(members) == replicas
    assert not any(m.get("isLearner") for m in members)
    assert {m["role"] for m in status["members"]} <= {"Leader", "Voter"}
    assert all(m["version"] == "3.6.11" for m in status["members"])
    assert status["leader"] in etcd.names() and status["phase"] == "Running"
    roles = {pod.metadata.labels.get(f"{GROUP}/role") for pod in etcd.pods().values()}
    assert roles == {"voter"}
    where = {"namespace": etcd.namespace, "cluster": etcd.name}
    assert operator.metric("raftsman_cluster_members", **where, state="ready") == replicas
    assert operator.metric("raftsman_cluster_members", **where, state="unready") == 0
    assert operator.metric("raftsman_cluster_has_leader", **where) == 1
    margin = "raftsman_cluster_quorum_margin"
    until(lambda: operator.metric(margin, **where) == (replicas - 1) // 2, 60, "all are well")
    assert operator.metric("raftsman_cluster_db_bytes", **where) > 0


def budget_allows(etcd, replicas):
    """The budget leaves a quorum of the target, and counts voters only."""
    spec = etcd.budget().spec
    labels = {f"{GROUP}/cluster": etcd.name, f"{GROUP}/role": "voter"}
    assert spec.selector.match_labels == labels and spec.max_unavailable is None
    return spec.min_available == replicas // 2 + 1


def scale_by_kubectl(etcd, replicas):
    said = etcd.cluster.kubectl(
        "scale", f"etcdcluster/{etcd.name}", f"--replicas={replicas}", "-n", etcd.namespace
    )
    assert "scaled" in said, said


def test_every_direction_of_scaling_keeps_every_write(etcd):
    with Writer(etcd):
        etcd.create(1)
        until(etcd.budget, 60, "there is a budget")
        assert len(etcd.pods()) == 1  # it came with the first member
        etcd.wait(1)
        for replicas in 3, 5, 3, 1:
            scale_by_kubectl(etcd, replicas)
            etcd.wait(replicas)
            assert len(etcd.etcd_members()) == replicas
            until(lambda n=replicas: budget_allows(etcd, n), 20, "the budget follows")
    told = etcd.events()
    who = etcd.names()[0]
    assert ("Bootstrapping", "the first member is being created") in told
    assert ("ClusterDiscovered", "the cluster has formed") in told
    joined = [text for reason, text in told if reason == "ScalingUp" and "voter" in text]
    left = [text for reason, text in told if text.endswith("has left the cluster")]
    assert len(joined) == 4 and len(left) == 4 and not any(who in text for text in left)


def test_even_sizes_and_a_pause_from_five_keep_every_write(etcd):
    with Writer(etcd):
        etcd.create(2).wait(2)
        for replicas in 4, 5, 0, 1:
            etcd.scale(replicas)
            etcd.wait(replicas)
            if replicas:
                assert len(etcd.etcd_members()) == replicas
                until(lambda n=replicas: budget_allows(etcd, n), 20, "the budget follows")


def test_the_scale_subresource_says_what_is_there(etcd, cluster):
    """What an autoscaler reads, and finds Pods by."""
    with Writer(etcd):
        etcd.create(1).wait(1)
        scale = cluster.custom.get_namespaced_custom_object_scale(*etcd.where, etcd.name)
        assert scale["spec"]["replicas"] == 1 and scale["status"]["replicas"] == 1
        found = cluster.core.list_namespaced_pod(
            etcd.namespace, label_selector=scale["status"]["selector"]
        )
        assert [pod.metadata.name for pod in found.items] == etcd.names()


def test_pause_and_resume_keep_identity_and_data(three):
    before = three.status()["clusterID"]
    with Writer(three) as writer:
        writer.more()
        three.scale(0)
        three.wait(0)
        (asleep,) = three.members()
        identity = asleep["status"]["memberID"]
        name = asleep["metadata"]["name"]
        until(lambda: not three.pods(), 60, "no Pod is left")
        available = three.condition("Available")
        assert available["reason"] == "Paused" and f"data-{name}" in available["message"]
        until(lambda: not three.budget(), 20, "nobody is left to protect")
        three.scale(3)
        three.wait(3)
        assert three.status()["clusterID"] == before
        assert three.ids()[name] == identity


def test_deletion_leaves_nothing_and_the_name_is_free_again(etcd, cluster, namespace):
    etcd.create(3).wait(3)
    etcd.put("old", "yes")
    before = etcd.status()["clusterID"]
    etcd.delete()
    until(lambda: not etcd.all_members() and not etcd.pods(), 60, "members and Pods are gone")
    claims = cluster.core.list_namespaced_persistent_volume_claim
    until(lambda: not claims(namespace).items, 60, "volumes are gone")
    with Writer(etcd):
        etcd.create(1).wait(1)
    assert etcd.status()["clusterID"] != before
    assert etcd.read("old") == {}


def test_deletion_and_creation_at_once_make_a_new_cluster(etcd):
    etcd.create(3).wait(3)
    etcd.put("old", "yes")
    etcd.delete()
    etcd.create(1).wait(1, 120)
    with Writer(etcd) as writer:
        writer.more()
    assert set(etcd.pods()) == set(etcd.names()) and len(etcd.names()) == 1
    assert etcd.read("old") == {}


def test_edits_in_mid_flight_end_at_the_last_one(etcd):
    newer = images.etcd_image("etcd-3.7").rpartition(":v")[2]
    with Writer(etcd):
        etcd.create(3)
        until(lambda: etcd.status().get("clusterID"), 60, "it has formed")
        etcd.scale(1)
        etcd.wait(1, 90)
        assert len(etcd.etcd_members()) == 1
        for replicas in 3, 1, 5:
            etcd.scale(replicas)
        until(lambda: len(etcd.names()) > 1, 30, "it has begun to grow")
        etcd.edit({"spec": {"version": newer}})
        etcd.wait(5, 120)
        until(lambda: etcd.status()["observed"]["version"] == newer, 60, "it is adopted")
        etcd.wait(5)
        assert len(etcd.etcd_members()) == 5


def settle(etcd, seconds):
    """Wait until the last word about a change is written: nothing for so long."""
    seen = [None, time.monotonic()]

    def quiet():
        if (version := etcd.get()["metadata"]["resourceVersion"]) != seen[0]:
            seen[:] = version, time.monotonic()
        return time.monotonic() - seen[1] > seconds

    until(quiet, 60, "the status stands still")


def all_namespaces(cluster):
    """Where there are members."""
    listed = cluster.custom.list_cluster_custom_object(GROUP, VERSION, "etcdmembers")["items"]
    return {member["metadata"]["namespace"] for member in listed}


def test_a_converged_cluster_costs_no_writes_and_a_new_operator_changes_nothing(
    three, cluster, operator
):
    with Writer(three):
        until(lambda: all_namespaces(cluster) == {three.namespace}, 60, "no other one is left")
        settle(three, 12)  # longer than the first repetition of an event
        before, version = three.pod_uids(), three.get()["metadata"]["resourceVersion"]
        begin = len(cluster.requests())
        time.sleep(60)
        since = [r for r in cluster.requests()[begin:] if "/leases/" not in r["requestURI"]]
        # A watch is renewed every few minutes, and begins where the last one ended.
        asked = [(r["verb"], r["requestURI"]) for r in since if r["verb"] != "watch"]
        assert [each for each in asked if each[0] not in ("get", "list")] == []
        assert len([uri for _, uri in asked if three.namespace in uri]) <= 2, asked
        assert [uri for _, uri in asked if three.namespace not in uri] == []  # nor one that is gone

        assert operator.stop() < 5
        operator.start()
        time.sleep(3)  # long enough for every first pass
        assert three.pod_uids() == before
        assert three.get()["metadata"]["resourceVersion"] == version
