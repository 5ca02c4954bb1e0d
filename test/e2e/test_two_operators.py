# SPDX-License-Identifier: Apache-2.0
"""Two operators at a time: a Lease keeps them apart, and nothing depends on it."""

import signal

import pytest

from etcdclusters import Writer
from operator_process import Operator
from rig.wait import until

LEASE = "aa20b3a9.etcd-operator.cozystack.io"
ELECT = ["--leader-elect", "--lease-namespace", "raftsman"]


@pytest.fixture
def make(installed, tmp_path):
    """Starts operators by name."""
    running = []

    def start(name, flags=()):
        one = Operator(installed, tmp_path / name, flags=flags).start()
        running.append(one)
        return one

    yield start
    for one in running:
        one.process.signal(signal.SIGCONT)
        one.stop()


def holder(cluster):
    lease = cluster.coordination.read_namespaced_lease(LEASE, "raftsman")
    return lease.spec.holder_identity


def has_new_member(etcd, before):
    """An EtcdMember that etcd does not know yet."""
    return len(etcd.names()) > before


def has_learner(etcd, before):
    """etcd knows of it; no Pod has started it."""
    return any(m.get("isLearner") for m in etcd.etcd_members())


def has_promoted(etcd, before):
    """One has joined, the other is to come."""
    return sum(not m.get("isLearner") for m in etcd.etcd_members()) > before


@pytest.mark.timeout(600)
def test_an_operator_stopped_in_the_middle_of_a_step_does_no_harm(make, installed, unmanaged):
    """At several moments of growing: the next one takes over, and the old one comes too late."""
    etcd = unmanaged
    leads = make("first", ELECT)
    with Writer(etcd):
        etcd.create(3).wait(3)
        for number, moment in enumerate((has_new_member, has_learner, has_promoted)):
            waits = make(f"next-{number}", ELECT)
            identity = holder(installed)
            etcd.scale(5)
            until(lambda m=moment: m(etcd, 3), 60, moment.__doc__, every=0.002)
            leads.process.signal(signal.SIGSTOP)
            until(lambda i=identity: holder(installed) != i, 30, "the next one leads")
            etcd.wait(5, 90)
            leads.process.signal(signal.SIGCONT)
            until(lambda old=leads: not old.process.alive(), 5, "the old one steps down")
            assert len(etcd.etcd_members()) == 5 and len(etcd.all_members()) == 5
            etcd.scale(3)
            etcd.wait(3)
            leads = waits
    assert leads.process.alive()
    assert sorted(m["name"] for m in etcd.etcd_members()) == etcd.names()


def test_two_operators_that_know_nothing_of_each_other_make_one_cluster(make, installed, unmanaged):
    """Without election, both at once: names are computed, so the second creation is refused."""
    etcd = unmanaged
    make("one")
    make("two")
    with Writer(etcd):
        etcd.create(3).wait(3, 90)
        assert len(etcd.names()) == 3 and len(etcd.etcd_members()) == 3
        assert sum(bool(m["spec"].get("bootstrap")) for m in etcd.members()) == 1
        etcd.scale(1)
        etcd.wait(1, 90)
        etcd.scale(3)
        etcd.wait(3, 90)
