# SPDX-License-Identifier: Apache-2.0
"""The world around a cluster fails. Nothing happens to etcd, and work resumes."""

import itertools
import time

from kubernetes.client import ApiException

from etcdclusters import Writer
from rig import faults
from rig.wait import until


def test_a_node_cut_off_costs_nobody_its_place(three, cluster):
    """Unreachable is not gone: the member is reported and waited for."""
    identities = three.ids()
    hosts = {name: each.spec.node_name for name, each in three.pods().items()}
    name, host = next(iter(hosts.items()))
    node = cluster.rig.nodes[host]
    with Writer(three) as writer:
        node.cut()
        try:
            until(lambda: three.condition("Degraded")["status"] == "True", 60, "it is reported")
            before = writer.acknowledged
            time.sleep(5)
            assert writer.acknowledged > before or list(hosts.values()).count(host) > 1
            assert name in three.names()
        finally:
            node.restore(cluster.rig.api)
        three.wait(3, 90)
        until(lambda: three.condition("Degraded")["status"] == "False", 60, "it is well again")
    assert three.ids() == identities


def test_a_member_that_is_slow_to_answer_is_what_it_was(three, cluster, operator):
    """No answer is no verdict, as long as the kubelet finds it well."""
    where = {"namespace": three.namespace, "cluster": three.name}
    margin = "raftsman_cluster_quorum_margin"
    until(lambda: operator.metric(margin, **where) == 1, 60, "every member has answered")

    def known():
        return {key: three.status()[key] for key in ("phase", "leader", "members", "readyMembers")}

    def noticed():
        three.edit({"spec": {"progressDeadlineSeconds": next(seconds)}})  # have it looked at
        return operator.metric(margin, **where) == 0

    before, seconds = known(), itertools.count(700)
    slow = next(m["name"] for m in before["members"] if m["role"] == "Voter")
    with faults.frozen_pod(cluster.rig, three.namespace, slow):
        until(noticed, 5, "its silence is noticed", every=0.5)
        end = time.monotonic() + 3  # the kubelet gives it ten seconds
        while time.monotonic() < end:
            assert known() == before
            time.sleep(0.1)
    until(lambda: operator.metric(margin, **where) == 1, 60, "every member has answered")


def test_an_apiserver_that_restarts_disturbs_nobody(three, cluster, operator):
    before = three.pod_uids()
    pid = operator.process.pid
    with Writer(three) as writer:
        writer.more()
        faults.restart_apiserver(cluster.rig)
        three.scale(5)
        three.wait(5, 120)
        assert operator.process.pid == pid and operator.process.alive()
        assert {name: uid for name, uid in three.pod_uids().items() if name in before} == before
        three.scale(3)
        three.wait(3)


def test_without_dns_clusters_are_looked_after_all_the_same(three, cluster):
    """We dial addresses. (etcd's own peers need names, so nobody new can join meanwhile.)"""
    before = three.pod_uids()
    with Writer(three):
        faults.stop_dns(cluster.rig)
        try:
            time.sleep(5)
            assert three.complete(3) and three.pod_uids() == before
            three.scale(1)
            three.wait(1)
        finally:
            faults.start_dns(cluster.rig)
        three.scale(3)
        three.wait(3, 90)


def test_deletion_while_nobody_looks_is_finished_later(etcd, operator, cluster, namespace):
    etcd.create(3).wait(3)
    with operator.away():
        etcd.delete()
        time.sleep(2)
        assert etcd.members() == []  # all are terminating and wait for us

    def gone():
        claims = cluster.core.list_namespaced_persistent_volume_claim(namespace).items
        return not etcd.all_members() and not etcd.pods() and not claims

    until(gone, 60, "everything of the cluster is gone")
    try:
        etcd.get()
        raise AssertionError("the cluster is still there")
    except ApiException as error:
        assert error.status == 404


def test_a_version_that_cannot_join_is_refused(etcd):
    with Writer(etcd) as writer:
        etcd.create(1, version="3.6.11").wait(1)
        etcd.edit({"spec": {"replicas": 3, "version": "3.5.35"}})
        refused = "VersionRefused"
        until(lambda: etcd.condition("Progressing")["reason"] == refused, 30, "it is refused")
        assert "3.5.35" in etcd.condition("Progressing")["message"]
        assert len(etcd.names()) == 1 and etcd.condition("Available")["status"] == "True"
        writer.more()
