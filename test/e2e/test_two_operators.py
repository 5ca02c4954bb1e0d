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


def test_an_operator_stopped_past_its_lease_does_no_harm(make, installed, unmanaged):
    etcd = unmanaged
    first = make("first", ELECT)
    etcd.create(3).wait(3)
    second = make("second", ELECT)
    leads = holder(installed)
    with Writer(etcd):
        first.process.signal(signal.SIGSTOP)
        etcd.scale(5)  # begun by nobody until the lease is over
        until(lambda: holder(installed) != leads, 30, "the second one leads")
        etcd.wait(5, 90)
        first.process.signal(signal.SIGCONT)
        until(lambda: not first.process.alive(), 5, "the first one steps down")
        etcd.scale(3)
        etcd.wait(3)
    assert second.process.alive() and len(etcd.etcd_members()) == 3


def test_two_operators_that_know_nothing_of_each_other_make_one_cluster(make, installed, unmanaged):
    """Without election, both at once: names are computed, so the second creation is refused."""
    etcd = unmanaged
    make("one")
    make("two")
    etcd.create(3).wait(3, 90)
    assert len(etcd.names()) == 3 and len(etcd.etcd_members()) == 3
    assert sum(bool(m["spec"].get("bootstrap")) for m in etcd.members()) == 1
    with Writer(etcd):
        etcd.scale(1)
        etcd.wait(1, 90)
        etcd.scale(3)
        etcd.wait(3, 90)
