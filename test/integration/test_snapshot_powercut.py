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


def check_restore(log, complete):
    """A complete member or none in any state; the member once the program has ended."""
    seen = absent = over = 0
    for state in powercut.states(log):
        seen += 1
        over += state.over
        if state.node("data/member") is None:
            assert not state.over, "promised and lost"
            absent += 1
        else:
            assert state.files("data/member") == complete
    assert seen > 1000 and 0 < absent < seen and over


def check_file(log, path, old, new):
    """The old content or the new in any state; the new once the program has ended."""
    found = set()
    for state in powercut.states(log):
        node = state.node(path)
        content = None if node is None else state.content(node)
        assert content in (old, new), "neither the old nor the new"
        assert content == new or not state.over, "promised and lost"
        found.add(content == new)
    assert found == {True, False}


def without_last_sync(log):
    """The same log as if the program had forgotten its last sync."""
    last = max(i for i, op in enumerate(log.ops) if isinstance(op, tuple))
    log.ops = log.ops[:last] + log.ops[last + 1 :]
    return log


def test_restore(tmp_path, snapshot):
    root = tmp_path / "root"
    root.mkdir()
    data = root / "data"
    log = powercut.record(root, tmp_path / "log", "restore", snapshot, f"--data-dir={data}")
    complete = files_below(data / "member")
    assert run_json("status", data)["problems"] == [] and len(complete) == 5
    check_restore(log, complete)
    with pytest.raises(AssertionError, match="promised and lost"):
        check_restore(without_last_sync(log), complete)


def test_restore_into_a_directory_that_was_made_a_moment_before(tmp_path, snapshot):
    root = tmp_path / "root"
    data = root / "data"
    data.mkdir(parents=True)
    words = ["restore", snapshot, f"--data-dir={data}"]
    log = powercut.record(root, tmp_path / "log", *words, unsynced=["data"])
    check_restore(log, files_below(data / "member"))


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
    check_file(log, database, old, new)
    with pytest.raises(AssertionError, match="neither|promised"):
        check_file(without_last_sync(log), database, old, new)


@pytest.mark.parametrize("before", [None, b"yesterday's"])
@pytest.mark.parametrize("named", [False, True])
def test_save(tmp_path, before, named):
    """Also over an older file, and on a file system that knows no unnamed files."""
    root = tmp_path / "root"
    root.mkdir()
    if before is not None:
        (root / "s.db").write_bytes(before)
    with etcd.running(tmp_path / "etcd") as cluster:
        for i in range(10):
            cluster.etcdctl("put", f"k{i}", "v" * 2000)
        words = ["save", root / "s.db", f"--endpoints={cluster.endpoints[0]}"]
        log = powercut.record(root, tmp_path / "log", *words, named=named)
    new = (root / "s.db").read_bytes()
    assert run_json("verify", root / "s.db")["ok"]
    check_file(log, "s.db", before, new)
    with pytest.raises(AssertionError, match="promised and lost"):
        check_file(without_last_sync(log), "s.db", before, new)


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
