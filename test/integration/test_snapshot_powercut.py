# SPDX-License-Identifier: Apache-2.0
"""The power goes at any moment: afterwards there is a complete result, or what was there before.

The complete result is the one the program left on the real disk; that it boots is shown there.
"""

import subprocess

import pytest

from rig import etcd, powercut, snapshots
from rig.snapshots import run_json


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    path = tmp_path_factory.mktemp("snapshot") / "s.db"
    subprocess.run([snapshots.helper("bench/mkdb"), path, "300", "200"], check=True)
    return path


def files_below(path):
    return {
        f"{p.relative_to(path)}/" if p.is_dir() else str(p.relative_to(path)): (
            b"" if p.is_dir() else p.read_bytes()
        )
        for p in path.rglob("*")
    }


def test_restore(tmp_path, snapshot):
    root = tmp_path / "root"
    root.mkdir()
    data = root / "data"
    log = powercut.record(root, tmp_path / "log", "restore", snapshot, f"--data-dir={data}")
    complete = files_below(data / "member")
    assert run_json("status", data)["problems"] == [] and len(complete) == 5
    seen = absent = 0
    for state in powercut.states(log):
        seen += 1
        if state.node("data/member") is None:
            absent += 1
        else:
            assert state.files("data/member") == complete
    assert seen > 1000 and 0 < absent < seen


def test_defrag(tmp_path, snapshot):
    root = tmp_path / "root"
    root.mkdir()
    data = root / "data"
    snapshots.run("restore", snapshot, f"--data-dir={data}")
    database = "data/member/snap/db"
    old = (root / database).read_bytes()
    log = powercut.record(root, tmp_path / "log", "defrag", data)
    new = (root / database).read_bytes()
    assert old != new
    found = set()
    for state in powercut.states(log):
        content = state.content(state.node(database))
        assert content in (old, new)
        found.add(content == new)
    assert found == {True, False}


def test_save(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (root / "s.db").write_bytes(b"yesterday's")
    with etcd.running(tmp_path / "etcd") as cluster:
        for i in range(10):
            cluster.etcdctl("put", f"k{i}", "v" * 2000)
        endpoint = f"--endpoints={cluster.endpoints[0]}"
        log = powercut.record(root, tmp_path / "log", "save", root / "s.db", endpoint)
    new = (root / "s.db").read_bytes()
    assert run_json("verify", root / "s.db")["ok"]
    found = set()
    for state in powercut.states(log):
        content = state.content(state.node("s.db"))
        assert content in (b"yesterday's", new)
        found.add(content == new)
    assert found == {True, False}


def test_the_model_finds_a_missing_sync(tmp_path, snapshot):
    """The same log without its syncs must fail: otherwise the test above would prove nothing."""
    root = tmp_path / "root"
    root.mkdir()
    data = root / "data"
    log = powercut.record(root, tmp_path / "log", "restore", snapshot, f"--data-dir={data}")
    complete = files_below(data / "member")
    log.ops = [op for op in log.ops if not isinstance(op, tuple)]
    broken = 0
    for state in powercut.states(log):
        if state.node("data/member") is not None:
            broken += state.files("data/member") != complete
        if broken:
            break
    assert broken
