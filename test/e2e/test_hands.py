# SPDX-License-Identifier: Apache-2.0
"""People lay hands on what is ours, or put theirs beside it. Nothing is lost, and it is said."""

import time

import pytest

from etcdclusters import GROUP, Writer
from manifests import pod
from rig.wait import until

LABEL = f"{GROUP}/cluster"
# A pass costs a handful of requests and comes back after a growing while: far from a loop.
CALM = 40


class Thing:
    """One object of a cluster, of a kind whose calls the official client names alike."""

    def __init__(self, etcd, kind, name):
        self.etcd, self.name = etcd, name
        self._read = getattr(etcd.cluster.core, f"read_namespaced_{kind}")
        self._patch = getattr(etcd.cluster.core, f"patch_namespaced_{kind}")

    def meta(self):
        return self._read(self.name, self.etcd.namespace).metadata

    def label(self, value):
        body = {"metadata": {"labels": {LABEL: value}}}
        self._patch(self.name, self.etcd.namespace, body)

    def labelled(self):
        return (self.meta().labels or {}).get(LABEL) == self.etcd.name


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("persistent_volume_claim", "data-{0}"),
        ("pod", "{0}"),
        ("service", "{1}"),
        ("service", "{1}-client"),
    ],
)
def test_a_label_taken_off_costs_nothing(three, cluster, kind, pattern):
    victim = three.names()[0]
    thing = Thing(three, kind, pattern.format(victim, three.name))
    identity = thing.meta().uid
    before = three.uids()
    with Writer(three) as writer:
        begin = len(cluster.requests())
        thing.label(None)
        until(lambda: thing.labelled() or three.mentions(thing.name), 60, "it is back, or named")
        time.sleep(5)
        assert len(cluster.requests()) - begin < CALM
        assert three.uids() == before and thing.meta().uid == identity
        if not thing.labelled():
            thing.label(three.name)
        writer.more()
        until(lambda: not three.mentions(thing.name), 60, "nothing is said any more")
        three.wait(3)
    assert three.uids() == before and thing.meta().uid == identity


def service(name, **labels):
    spec = {"ports": [{"port": 80}], "selector": {"app": "other"}}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


def test_a_foreign_service_with_our_label_disturbs_nothing(three, cluster):
    core, namespace = cluster.core, three.namespace
    client = f"{three.name}-client"
    cluster.create(namespace, service("metrics", **{LABEL: three.name}))
    foreign = core.read_namespaced_service("metrics", namespace).metadata
    before = core.read_namespaced_service(client, namespace).metadata.uid
    with Writer(three) as writer:
        core.delete_namespaced_service(client, namespace)

        def found():
            uids = {
                s.metadata.name: s.metadata.uid
                for s in core.list_namespaced_service(namespace).items
            }
            return uids.get(client, before) != before

        until(found, 30, "ours is made again")
        writer.more()
        three.wait(3)
    after = core.read_namespaced_service("metrics", namespace).metadata
    assert (after.uid, after.resource_version) == (foreign.uid, foreign.resource_version)
    core.delete_namespaced_service("metrics", namespace)


def test_a_foreign_service_in_the_way_is_named_and_left_alone(etcd, cluster, namespace):
    cluster.create(namespace, service("demo"))
    with Writer(etcd):
        etcd.create(1)
        until(lambda: "Service demo" in etcd.condition("Progressing")["message"], 20, "named")
        assert not etcd.members()
        found = cluster.core.read_namespaced_service("demo", namespace)
        assert found.spec.selector == {"app": "other"}
        cluster.core.delete_namespaced_service("demo", namespace)
        etcd.wait(1, 90)


def sleep(etcd):
    etcd.scale(0)
    etcd.wait(0)
    until(lambda: not etcd.pods(), 60, "the member sleeps")


def test_a_foreign_pod_in_the_way_is_named_and_left_alone(etcd, cluster, namespace):
    with Writer(etcd):
        etcd.create(1).wait(1)
        (name,) = etcd.names()
        sleep(etcd)
        cluster.create(namespace, pod(name))
        cluster.wait_ready(namespace, name)
        foreign = cluster.core.read_namespaced_pod(name, namespace).metadata.uid
        etcd.scale(1)
        in_the_way = f"Pod {name} is in the way"
        until(lambda: in_the_way in etcd.condition("Progressing")["message"], 30, "it is named")
        assert cluster.core.read_namespaced_pod(name, namespace).metadata.uid == foreign
        cluster.delete_pod(namespace, name)
        etcd.wait(1, 90)


def test_the_only_member_deleted_gets_a_successor_first(etcd):
    with Writer(etcd):
        etcd.create(1).wait(1)
        (victim,) = etcd.names()
        etcd.delete_member(victim)
        until(lambda: etcd.names() not in ([], [victim]), 60, "there is a successor")
        until(lambda: victim not in etcd.pods(), 60, "it has gone")
        etcd.wait(1)
        assert etcd.names() != [victim] and len(etcd.etcd_members()) == 1


def test_the_member_of_a_paused_cluster_deleted_by_hand_keeps_its_data(etcd):
    with Writer(etcd):
        etcd.create(1).wait(1)
        before = etcd.status()["clusterID"]
        (name,) = etcd.names()
        sleep(etcd)
        etcd.delete_member(name)
        time.sleep(3)  # long enough to let go of it
        etcd.scale(1)
        etcd.wait(1, 120)
        assert etcd.status()["clusterID"] == before


def test_a_cluster_without_any_member_left_says_so_and_founds_no_other(etcd, operator):
    etcd.create(1).wait(1)
    before = etcd.status()["clusterID"]
    (name,) = etcd.names()
    with operator.away():
        etcd.delete_member(name)
        etcd.edit_member(name, {"metadata": {"finalizers": None}})
        until(lambda: not etcd.all_members() and not etcd.pods(), 60, "everything is gone")
    until(lambda: etcd.condition("Available")["reason"] == "AllMembersLost", 60, "it is said")
    assert etcd.condition("Available")["status"] == "False"
    assert etcd.status()["clusterID"] == before and not etcd.all_members()
