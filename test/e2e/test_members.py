# SPDX-License-Identifier: Apache-2.0
"""Pods, volumes and members of a cluster are lost, and it is whole again, with every write."""

import pytest

import manifests
from etcdclusters import GROUP, Writer
from rig import faults
from rig.wait import until


def returned(etcd, name, old_uid):
    pod = etcd.pods().get(name)
    return pod and pod.metadata.uid != old_uid and pod.status.pod_ip


def delete_pods(etcd, names):
    """All at once; wait until each has come back."""
    uids = etcd.pod_uids()
    for name in names:
        etcd.cluster.core.delete_namespaced_pod(name, etcd.namespace)
    for name in names:
        until(lambda n=name: returned(etcd, n, uids[n]), 90, f"{name} is back")


def test_each_deleted_pod_comes_back_as_the_same_member(three):
    identities = three.ids()
    with Writer(three):
        for name in three.names():
            delete_pods(three, [name])
            three.wait(3)
    assert three.ids() == identities


@pytest.mark.parametrize("count", [2, 3])
def test_pods_deleted_at_once_come_back(three, count):
    identities = three.ids()
    with Writer(three) as writer:
        writer.more()
        delete_pods(three, three.names()[:count])
        three.wait(3)
    assert three.ids() == identities


def test_a_lost_quorum_is_reported_and_waited_for(three, cluster, operator):
    identities = three.ids()
    where = {"namespace": three.namespace, "cluster": three.name}
    with Writer(three) as writer:
        writer.more()
        with cluster.no_room():
            for name in three.names()[:2]:
                cluster.delete_pod(three.namespace, name)
            until(lambda: three.condition("Available")["reason"] == "QuorumLost", 60, "reported")
            assert three.condition("Available")["status"] == "False"
            assert three.condition("Degraded")["status"] == "True"
            metric = operator.metric
            until(lambda: metric("raftsman_cluster_has_leader", **where) == 0, 30, "no leader")
            assert metric("raftsman_cluster_quorum_margin", **where) == -1
            assert metric("raftsman_cluster_members", **where, state="ready") <= 1
            assert metric("raftsman_cluster_db_bytes", **where) > 0
            assert three.ids() == identities
        three.wait(3, 120)
    assert three.ids() == identities


def test_a_killed_etcd_restarts_in_place(three, cluster):
    identities = three.ids()
    victim = three.names()[0]
    before = cluster.restarts(three.namespace, victim)
    with Writer(three):
        faults.kill_pod(cluster.rig, three.namespace, victim)
        restarts = cluster.restarts
        until(lambda: restarts(three.namespace, victim) == before + 1, 30, "it was restarted")
        three.wait(3)
    assert three.ids() == identities


def test_a_failed_pod_is_replaced_as_the_same_member(three, cluster):
    """Failed is for ever: nobody but us starts another one. A node that evicts does this too."""
    identities = three.ids()
    victim = three.names()[0]
    uid = three.pod_uids()[victim]
    with Writer(three):
        # The kubelet ends a Pod that has lived for longer, and says that it failed.
        body = {"spec": {"activeDeadlineSeconds": 1}}
        cluster.core.patch_namespaced_pod(victim, three.namespace, body)
        until(lambda: returned(three, victim, uid), 90, f"{victim} is back")
        three.wait(3)
    assert three.ids() == identities


def test_the_budget_refuses_to_evict_a_second_voter(three, cluster):
    first, second, _ = three.names()
    uid = three.pod_uids()[first]
    with Writer(three):
        until(lambda: cluster.evict(three.namespace, first), 30, "the first one may go")
        assert not cluster.evict(three.namespace, second)
        until(lambda: returned(three, first, uid), 60, f"{first} is back")
        three.wait(3)


def test_a_lost_volume_leads_to_a_new_member_never_to_the_old_id(three, cluster):
    """Of each voter in turn: the followers, and the leader, whose loss changes leadership."""
    identities = three.ids()
    for victim in sorted(identities, key=lambda name: name == three.status()["leader"]):
        gone = three.uids()[victim]
        with Writer(three):
            claims = cluster.core.delete_namespaced_persistent_volume_claim
            claims(f"data-{victim}", three.namespace)
            cluster.core.delete_namespaced_pod(victim, three.namespace)
            until(lambda u=gone: u not in three.uids().values(), 90, f"{victim} is replaced")
            three.wait(3, 120)
        assert identities[victim] not in listed(three)


def listed(etcd):
    """The IDs of etcd's own list, as our status writes them."""
    return {f"{int(m['ID']):016x}" for m in etcd.etcd_members()}


def test_a_volume_put_in_anothers_place_is_not_started_on(three, cluster, operator):
    victim, gone = next(iter(three.uids().items()))
    identity = three.ids()[victim]
    claim, core = f"data-{victim}", cluster.core
    with Writer(three):
        with operator.away():
            core.delete_namespaced_persistent_volume_claim(claim, three.namespace)
            cluster.delete_pod(three.namespace, victim)
            until(lambda: claim not in claims_of(three), 60, "the volume is gone")
            labels = {f"{GROUP}/cluster": three.name}
            cluster.create(three.namespace, manifests.claim(claim, labels=labels))

        def replaced():
            return gone not in three.uids().values()

        until(lambda: replaced() or three.mentions(claim), 60, "it is replaced, or named")
        if not replaced():
            assert victim not in three.pods()
            core.delete_namespaced_persistent_volume_claim(claim, three.namespace)
            until(replaced, 60, "it is replaced")
        three.wait(3, 120)
        assert identity not in listed(three)
    if claim in claims_of(three):
        core.delete_namespaced_persistent_volume_claim(claim, three.namespace)


def claims_of(etcd):
    found = etcd.cluster.core.list_namespaced_persistent_volume_claim(etcd.namespace).items
    return {claim.metadata.name for claim in found}


def test_a_deleted_member_is_replaced(three):
    victim, gone = next(iter(three.uids().items()))
    with Writer(three):
        three.delete_member(victim)
        until(lambda: gone not in all_uids(three), 60, "it goes")
        three.wait(3)
    assert len(three.etcd_members()) == 3


def test_all_members_deleted_in_a_row_are_replaced(three):
    before = set(three.uids().values())
    with Writer(three):
        for name in three.names():
            three.delete_member(name)
        until(lambda: not before & set(all_uids(three)), 120, "all of them have gone")
        three.wait(3, 120)
    assert len(three.etcd_members()) == 3


def all_uids(etcd):
    return [m["metadata"]["uid"] for m in etcd.all_members()]


def test_a_member_removed_behind_our_back_is_replaced(three):
    follower = next(name for name in three.names() if name != three.status()["leader"])
    gone = three.uids()[follower]
    with Writer(three):
        three.remove_from_etcd(follower)
        until(lambda: gone not in three.uids().values(), 90, "it is replaced")
        three.wait(3, 120)
    assert len(three.etcd_members()) == 3


def test_a_voter_put_to_sleep_by_hand_is_woken(three):
    identities = three.ids()
    name = three.names()[0]
    with Writer(three) as writer:
        three.edit_member(name, {"spec": {"dormant": True}})
        until(lambda: not asleep(three), 60, "it is woken")
        writer.more(10)  # the others held quorum, if they had to
        three.cluster.wait_ready(three.namespace, name)
        three.wait(3)
    assert three.ids() == identities


def asleep(etcd):
    return [m["metadata"]["name"] for m in etcd.members() if m["spec"].get("dormant")]
