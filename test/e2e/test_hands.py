# SPDX-License-Identifier: Apache-2.0
"""People lay hands on what is ours, or put theirs beside it. Nothing is lost, and it is said."""

from etcdclusters import Writer
from manifests import pod
from rig.wait import until


def service(name, **labels):
    spec = {"ports": [{"port": 80}], "selector": {"app": "other"}}
    meta = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec}


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
