# SPDX-License-Identifier: Apache-2.0
"""Crash anywhere, converge after.

The calls by which the operator changes something are recorded once, of the API server and of etcd
alike; then it is run anew and kills itself right after the first, the second, and so on. Started
again it must come to the same end: no second seed, nothing left over, no write lost. The operator
is the build for tests, which knows how to die (src/base/fault.h), with sanitizers.
"""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from etcdclusters import EtcdCluster, Writer
from operator_process import Operator
from rig import tools
from rig.wait import until

BINARY = tools.REPOSITORY / "build" / "asan" / "src" / "raftsman"
TOGETHER = 4  # most of a run is waiting


class Mortal(Operator):
    """An operator of one namespace that may be told when to die."""

    def __init__(self, cluster, directory, namespace, **environment):
        super().__init__(cluster, directory, flags=["--watch-namespace", namespace])
        values = [f"RAFTSMAN_{name.upper()}={value}" for name, value in environment.items()]
        self.binary = ["setarch", "-R", "env", *values, BINARY]


class Bootstrap:
    end = 1
    formed = False  # there is a cluster before

    def before(self, etcd):
        pass

    def trigger(self, etcd):
        etcd.create(self.end)


class Grow(Bootstrap):
    end = 3
    formed = True

    def before(self, etcd):
        etcd.create(1).wait(1)

    def trigger(self, etcd):
        etcd.scale(3)


class Shrink(Bootstrap):
    end = 1
    formed = True

    def before(self, etcd):
        etcd.create(3).wait(3)

    def trigger(self, etcd):
        etcd.scale(1)


class Replace(Bootstrap):
    """A member has lost its volume."""

    end = 3
    formed = True

    def before(self, etcd):
        etcd.create(3).wait(3)

    def trigger(self, etcd):
        name, self.victim = next(iter(etcd.uids().items()))
        claims = etcd.cluster.core.delete_namespaced_persistent_volume_claim
        claims(f"data-{name}", etcd.namespace)
        etcd.cluster.core.delete_namespaced_pod(name, etcd.namespace)


def in_new_namespace(cluster, work):
    name = f"crash-{uuid.uuid4().hex[:8]}"
    cluster.create(None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster.wait_account(name)
    try:
        return work(EtcdCluster(cluster, name))
    finally:
        cluster.core.delete_namespace(name)


def prepare(scenario, etcd, directory):
    first = Mortal(etcd.cluster, directory / "before", etcd.namespace).start()
    try:
        scenario.before(etcd)
    finally:
        first.stop()


def ended(scenario, etcd):
    if not etcd.complete(scenario.end):
        return False
    return getattr(scenario, "victim", None) not in etcd.uids().values()


def check_end(scenario, etcd):
    names = etcd.names()
    listed = etcd.etcd_members()
    assert sorted(m.get("name", "") for m in listed) == names and len(names) == scenario.end
    assert not any(m.get("isLearner") for m in listed)
    assert sum(bool(m["spec"].get("bootstrap")) for m in etcd.members()) <= 1
    core, namespace = etcd.cluster.core, etcd.namespace
    until(lambda: sorted(etcd.pods()) == names, 30, "no Pod is left over")
    until(
        lambda: (
            sorted(
                claim.metadata.name
                for claim in core.list_namespaced_persistent_volume_claim(namespace).items
            )
            == [f"data-{name}" for name in names]
        ),
        30,
        "no volume is left over",
    )
    until(lambda: len(etcd.all_members()) == scenario.end, 30, "no member hangs by its finalizer")
    minimum = scenario.end // 2 + 1
    until(
        lambda: (budget := etcd.budget()) and budget.spec.min_available == minimum,
        30,
        "the budget leaves a quorum",
    )
    services = [s.metadata.name for s in core.list_namespaced_service(namespace).items]
    assert sorted(services) == ["demo", "demo-client"]


def converge(scenario, etcd, directory):
    again = Mortal(etcd.cluster, directory / "after", etcd.namespace).start()
    try:
        until(lambda: ended(scenario, etcd), 90, f"{etcd.namespace} is whole again")
        check_end(scenario, etcd)
    finally:
        again.stop()


def record(scenario, etcd, directory):
    """How many calls the operator makes."""
    prepare(scenario, etcd, directory)
    calls = directory / "calls"
    recorder = Mortal(etcd.cluster, directory / "record", etcd.namespace, calls=calls).start()
    scenario.trigger(etcd)
    until(lambda: ended(scenario, etcd), 90, "the scenario has come to its end")
    recorder.stop()
    check_end(scenario, etcd)
    return calls.read_text().splitlines()


def die_at(scenario, number, etcd, directory):
    """Whether the operator lived to see that call."""
    prepare(scenario, etcd, directory)
    mortal = Mortal(etcd.cluster, directory / "mortal", etcd.namespace, die_at=number).start()
    identity = etcd.status()["clusterID"] if scenario.formed else None
    scenario.trigger(etcd)
    until(lambda: not mortal.process.alive() or ended(scenario, etcd), 90, "the operator dies")
    died = not mortal.process.alive()
    mortal.stop()
    converge(scenario, etcd, directory)
    if identity:  # no second seed
        assert etcd.status()["clusterID"] == identity
    return died


def written_through(scenario, number, etcd, directory):
    with Writer(etcd):  # from the first moment somebody answers
        return die_at(scenario, number, etcd, directory)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [Bootstrap, Grow, Shrink, Replace])
def test_an_operator_killed_after_any_call_converges(cluster, tmp_path, chosen, kind):
    calls = in_new_namespace(cluster, lambda etcd: record(kind(), etcd, tmp_path / "0"))
    numbers = chosen(kind.__name__, len(calls))
    print(f"{kind.__name__}: {len(calls)} calls; dying after {numbers}")
    print("\n".join(calls))

    def attempt(number):
        directory = tmp_path / str(number)
        try:
            return in_new_namespace(
                cluster, lambda etcd: written_through(kind(), number, etcd, directory)
            )
        except Exception as problem:
            raise AssertionError(f"killed after call {calls[number - 1]}") from problem

    with ThreadPoolExecutor(TOGETHER) as pool:
        died = list(pool.map(attempt, numbers))
    # The order of calls varies a little, and their number by an event or two.
    assert sum(died) >= len(died) - 1
