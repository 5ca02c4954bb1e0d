# SPDX-License-Identifier: Apache-2.0
"""Full and failing disks: one clear line, exit code 1, nothing left behind, the source untouched."""

import shutil
import subprocess

import pytest

from rig import disks, etcd, powercut, snapshots
from rig.snapshots import Gateway, run, run_json

MB = 1_000_000


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory):
    path = tmp_path_factory.mktemp("snapshot") / "s.db"
    subprocess.run([snapshots.helper("bench/mkdb"), path, "5000", "500"], check=True)
    return path


@pytest.fixture(scope="module")
def database(snapshot, tmp_path_factory):
    """A database file with free pages, as of a stopped member."""
    data = tmp_path_factory.mktemp("data")
    run("restore", snapshot, f"--data-dir={data}")
    return data / "member" / "snap" / "db"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory):
    with etcd.running(tmp_path_factory.mktemp("etcd")) as cluster:
        gateway = Gateway(cluster.endpoints[0])
        for i in range(30):
            gateway.put(f"k{i}", b"v" * 100_000)
        yield cluster.endpoints[0]


def names(directory):
    return sorted(str(p.relative_to(directory)) for p in directory.rglob("*"))


def check_full(done, *named):
    """It failed for want of room, in one line that names the file."""
    assert done.returncode == 1
    assert "No space left on device" in done.stderr and len(done.stderr.splitlines()) == 1
    assert any(name in done.stderr for name in named), done.stderr


@pytest.mark.parametrize(
    ("room", "file"),
    [
        (100_000, "db"),
        (2 * MB, "db"),
        (8 * MB, ".wal"),
        (66 * MB, ".wal"),  # nearly enough
    ],
)
def test_restore_to_a_full_disk(tmp_path, snapshot, room, file):
    before = snapshot.read_bytes()
    with disks.small(tmp_path, room) as disk:
        done = run("restore", snapshot, f"--data-dir={disk}/data", check=False)
        check_full(done, file)
        assert "member.partial" in done.stderr
        assert names(disk) == []
    assert snapshot.read_bytes() == before


@pytest.mark.parametrize("before", [None, b"yesterday's"])
def test_save_to_a_full_disk(tmp_path, endpoint, before):
    with disks.small(tmp_path, MB) as disk:
        target = disk / "s.db"
        if before is not None:
            target.write_bytes(before)
        done = run("save", target, f"--endpoints={endpoint}", check=False)
        check_full(done, f"{target}: write")
        assert names(disk) == ([] if before is None else ["s.db"])
        assert before is None or target.read_bytes() == before


@pytest.mark.parametrize("spare", [50_000, MB])
def test_defrag_on_a_full_disk(tmp_path, database, spare):
    before = database.read_bytes()
    with disks.small(tmp_path, len(before) + spare) as disk:
        copy = shutil.copy(database, disk / "db")
        check_full(run("defrag", copy, check=False), f"{copy}")
        assert copy.read_bytes() == before and names(disk) == ["db"]


def failures(root, tmp_path, *words, prepare, named=False):
    """Every change of a run fails once; yields what became of it, and the path that failed."""
    at, failed = 0, True
    while failed:
        at += 1
        prepare()
        done, failed = powercut.fail(root, tmp_path / "log", *words, at=at, named=named)
        if not failed:
            assert done.returncode == 0 and at > 5
        elif done.returncode == 0:
            # Room that could not be allocated beforehand, or an unnamed file: it did without.
            yield done, failed
        else:
            assert done.returncode == 1 and "Input/output error" in done.stderr, failed
            assert len(done.stderr.splitlines()) == 1
            yield done, failed


def test_restore_with_an_error_at_every_change(tmp_path, snapshot):
    root = tmp_path / "root"
    root.mkdir()
    data = root / "data"
    words = ["restore", snapshot, f"--data-dir={data}"]
    before = snapshot.read_bytes()

    def prepare():
        shutil.rmtree(data, ignore_errors=True)

    for done, failed in failures(root, tmp_path, *words, prepare=prepare):
        if done.returncode == 0 or (data / "member").exists():
            assert run_json("status", data)["problems"] == []
        else:
            assert names(root) == [], failed
            assert str(root) in done.stderr
    assert snapshot.read_bytes() == before


@pytest.mark.parametrize("named", [False, True])
def test_save_with_an_error_at_every_change(tmp_path, endpoint, named):
    root = tmp_path / "root"
    root.mkdir()
    target = root / "s.db"
    words = ["save", target, f"--endpoints={endpoint}"]

    def prepare():
        target.write_bytes(b"yesterday's")

    for done, failed in failures(root, tmp_path, *words, prepare=prepare, named=named):
        assert names(root) == ["s.db"], failed
        if done.returncode == 0 or target.read_bytes() != b"yesterday's":
            assert run_json("verify", target)["ok"]
        else:
            assert str(target) in done.stderr


def test_defrag_with_an_error_at_every_change(tmp_path, database):
    root = tmp_path / "root"
    root.mkdir()
    copy = root / "db"
    old = database.read_bytes()
    contents = snapshots.contents(database)[0]

    for done, failed in failures(
        root, tmp_path, "defrag", copy, prepare=lambda: shutil.copy(database, copy)
    ):
        assert names(root) == ["db"], failed
        if done.returncode == 0 or copy.read_bytes() != old:
            assert snapshots.contents(copy)[1] == contents
        else:
            assert str(root) in done.stderr
