# SPDX-License-Identifier: Apache-2.0
"""The world around a cluster fails or is in the way. Nothing happens to etcd, and work resumes."""

import time

from kubernetes.client import ApiException

from etcdclusters import Writer
from manifests import pod
from rig import faults
from rig.wait import until


def uids(etcd):
    return {name: each.metadata.uid for name, each in etcd.pods().items()}


def test_two_pods_deleted_at_once_come_back(etcd, cluster, namespace):
    etcd.create(3).wait(3)
    identities, before = etcd.ids(), uids(etcd)
    with Writer(etcd):
        for name in etcd.names()[:2]:
            cluster.core.delete_namespaced_pod(name, namespace)
        until(lambda: sum(uids(etcd).get(n) != u for n, u in before.items()) == 2, 60, "both new")
        etcd.wait(3)
    assert etcd.ids() == identities


def test_a_node_cut_off_costs_nobody_its_place(etcd, cluster):
    """Unreachable is not gone: the member is reported and waited for."""
    etcd.create(3).wait(3)
    identities = etcd.ids()
    hosts = {name: each.spec.node_name for name, each in etcd.pods().items()}
    name, host = next(iter(hosts.items()))
    node = cluster.rig.nodes[host]
    with Writer(etcd) as writer:
        node.cut()
        try:
            until(lambda: etcd.condition("Degraded")["status"] == "True", 60, "it is reported")
            before = writer.acknowledged
            time.sleep(5)
            assert writer.acknowledged > before or list(hosts.values()).count(host) > 1
            assert name in etcd.names()
        finally:
            node.restore(cluster.rig.api)
        etcd.wait(3, 90)
        until(lambda: etcd.condition("Degraded")["status"] == "False", 60, "it is well again")
    assert etcd.ids() == identities


def test_a_foreign_pod_in_the_way_is_named_and_left_alone(etcd, cluster, namespace):
    etcd.create(1).wait(1)
    etcd.put("kept", "yes")
    (name,) = etcd.names()
    etcd.scale(0)
    etcd.wait(0)
    until(lambda: not etcd.pods(), 60, "the member sleeps")
    cluster.create(namespace, pod(name))
    cluster.wait_ready(namespace, name)
    foreign = cluster.core.read_namespaced_pod(name, namespace).metadata.uid
    etcd.scale(1)

    named = f"Pod {name} is in the way"
    until(lambda: named in etcd.condition("Progressing")["message"], 30, "it is named")
    assert cluster.core.read_namespaced_pod(name, namespace).metadata.uid == foreign
    cluster.delete_pod(namespace, name)
    etcd.wait(1, 90)
    assert etcd.read("kept") == {"kept": "yes"}


def test_an_apiserver_that_restarts_disturbs_nobody(etcd, cluster, operator):
    etcd.create(3).wait(3)
    before = uids(etcd)
    pid = operator.process.pid
    with Writer(etcd) as writer:
        until(lambda: writer.acknowledged > 10, 20, "some writes before")
        faults.restart_apiserver(cluster.rig)
        etcd.scale(5)
        etcd.wait(5, 120)
    assert operator.process.pid == pid and operator.process.alive()
    assert {name: uid for name, uid in uids(etcd).items() if name in before} == before


def test_without_dns_clusters_are_looked_after_all_the_same(etcd, cluster, namespace):
    """We dial addresses. (etcd's own peers need names, so nobody new can join meanwhile.)"""
    etcd.create(3).wait(3)
    before = uids(etcd)
    with Writer(etcd):
        faults.stop_dns(cluster.rig)
        try:
            time.sleep(5)
            assert etcd.complete(3) and uids(etcd) == before
            etcd.scale(1)
            etcd.wait(1)
        finally:
            faults.start_dns(cluster.rig)
        etcd.scale(3)
        etcd.wait(3, 90)


def test_deletion_while_nobody_looks_is_finished_later(etcd, operator, cluster, namespace):
    etcd.create(3).wait(3)
    operator.stop()
    etcd.delete()
    time.sleep(2)
    assert etcd.members() == []  # all are terminating and wait for us
    operator.start()

    def gone():
        claims = cluster.core.list_namespaced_persistent_volume_claim(namespace).items
        return not etcd.pods() and not claims

    until(gone, 60, "everything of the cluster is gone")
    try:
        etcd.get()
        raise AssertionError("the cluster is still there")
    except ApiException as error:
        assert error.status == 404


def test_a_version_that_cannot_join_is_refused(etcd):
    etcd.create(1, version="3.6.11").wait(1)
    etcd.edit({"spec": {"replicas": 3, "version": "3.5.35"}})
    until(lambda: etcd.condition("Progressing")["reason"] == "VersionRefused", 30, "it is refused")
    assert "3.5.35" in etcd.condition("Progressing")["message"]
    assert len(etcd.names()) == 1 and etcd.condition("Available")["status"] == "True"
