# SPDX-License-Identifier: Apache-2.0
"""Whom `save` takes the database from when members are cut off, and what it leaves behind."""

import signal
import time

import pytest

from rig import etcd
from rig.snapshots import Gateway, run, run_json
from rig.wait import until


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with etcd.running(tmp_path_factory.mktemp("three"), size=3) as three:
        for i in range(20):
            three.etcdctl("put", f"k{i}", "v" * 1000)
        yield three


class Frozen:
    """Members that hold their connections and answer nothing, as behind a broken network."""

    def __init__(self, cluster, members):
        self._processes = [cluster.process(member) for member in members]

    def __enter__(self):
        for process in self._processes:
            process.signal(signal.SIGSTOP)

    def __exit__(self, *_):
        for process in self._processes:
            process.signal(signal.SIGCONT)


def status(url):
    return Gateway(url).post("maintenance/status", {})


def settled(cluster):
    """The leader's URL, once all members name the same one."""

    def leader():
        said = [status(url) for url in cluster.endpoints]
        if len({s.get("leader") for s in said}) > 1 or not said[0].get("leader"):
            return None
        by_id = {s["header"]["member_id"]: u for s, u in zip(said, cluster.endpoints, strict=True)}
        return by_id[said[0]["leader"]]

    return until(leader, 30, "one leader")


def test_a_follower_is_asked_rather_than_the_leader(cluster, tmp_path):
    leader = settled(cluster)
    order = sorted(cluster.endpoints, key=lambda url: url != leader)  # the leader first
    answer = run_json("save", tmp_path / "s.db", f"--endpoints={','.join(order)}")
    assert answer["endpoint"] in order[1:]


def test_a_silent_member_at_the_head_of_the_list_costs_its_time_and_no_more(cluster, tmp_path):
    leader = settled(cluster)
    silent = next(m for m in cluster.members if m.client_url != leader)
    order = sorted(cluster.endpoints, key=lambda url: url != silent.client_url)
    with Frozen(cluster, [silent]):
        begin = time.monotonic()
        words = ["save", tmp_path / "s.db", f"--endpoints={','.join(order)}", "--timeout=2s"]
        answer = run_json(*words)
        assert time.monotonic() - begin < 10
    assert answer["endpoint"] in order[1:]
    assert run_json("verify", tmp_path / "s.db")["ok"]


def test_a_member_that_lost_its_peers_is_not_saved_from(cluster, tmp_path):
    settled(cluster)
    alone, *others = cluster.members
    with Frozen(cluster, others):
        until(lambda: not status(alone.client_url).get("leader"), 30, "it sees no leader")
        done = run("save", tmp_path / "s.db", f"--endpoints={alone.client_url}", check=False)
        assert done.returncode == 1
        assert f"{alone.client_url}: sees no leader" in done.stderr
        words = ["--timeout=1s", f"--endpoints={','.join(cluster.endpoints)}"]
        done = run("save", tmp_path / "s.db", *words, check=False)
        assert done.returncode == 1
        assert f"{alone.client_url}: sees no leader" in done.stderr
        for member in others:
            assert f"{member.client_url}: timed out" in done.stderr
    assert list(tmp_path.iterdir()) == []
    settled(cluster)


def test_members_of_two_clusters_are_not_taken_for_one(cluster, tmp_path):
    settled(cluster)
    with etcd.running(tmp_path / "other") as other:
        both = f"--endpoints={cluster.endpoints[0]},{other.endpoints[0]}"
        done = run("save", tmp_path / "s.db", both, check=False)
        assert done.returncode == 1 and "different clusters" in done.stderr
        assert not (tmp_path / "s.db").exists()


def test_a_silent_member_does_not_hold_up_the_login(cluster, tmp_path):
    """Last of the module: authentication stays on."""
    leader = settled(cluster)
    silent = next(m for m in cluster.members if m.client_url != leader)
    password = tmp_path / "password"
    password.write_text("secret\n")
    gateway = Gateway(leader)
    gateway.post("auth/user/add", {"name": "root", "password": "secret"})
    gateway.post("auth/role/add", {"name": "root"})
    gateway.post("auth/user/grant", {"user": "root", "role": "root"})
    gateway.post("auth/enable", {})
    order = sorted(cluster.endpoints, key=lambda url: url != silent.client_url)
    with Frozen(cluster, [silent]):
        answer = run_json(
            "save",
            tmp_path / "s.db",
            f"--endpoints={','.join(order)}",
            "--timeout=2s",
            "--user=root",
            f"--password-file={password}",
        )
    assert answer["endpoint"] in order[1:]
