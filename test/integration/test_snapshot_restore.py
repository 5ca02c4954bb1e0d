# SPDX-License-Identifier: Apache-2.0
"""Snapshots of real etcds: our numbers are etcd's, and what we restore boots with the same data."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from rig import etcd, snapshots
from rig.snapshots import USER, Gateway, Restored, etcdutl, run, run_json

VERSIONS = ["3.5", "3.6", "3.7"]


@pytest.fixture(scope="session")
def sources(tmp_path_factory):
    """One full snapshot for each version of etcd, made once."""
    made = {}

    def get(version):
        if version not in made:
            made[version] = snapshots.make_source(tmp_path_factory.mktemp("source"), version)
        return made[version]

    return get


@pytest.mark.parametrize("version", VERSIONS)
def test_status_and_hashkv_are_etcds(sources, tmp_path, version):
    source = sources(version)
    path = source["path"]
    assert run_json("status", path) == json.loads(etcdutl("snapshot", "status", path, "-w", "json"))
    ours = run_json("hashkv", path)
    assert (ours["hash"], ours["compactRevision"]) == (source["hash"], source["compact"])
    assert ours["hashRevision"] == source["revision"]
    copy = tmp_path / "copy.db"  # etcdutl changes the file it hashes
    shutil.copy(path, copy)
    assert ours == json.loads(etcdutl("hashkv", copy, "-w", "json", version="3.7"))
    older = ours["compactRevision"] + 5
    shutil.copy(path, copy)
    assert run_json("hashkv", path, f"--rev={older}") == json.loads(
        etcdutl("hashkv", copy, f"--rev={older}", "-w", "json", version="3.7")
    )
    verdict = run_json("verify", path)
    assert verdict["ok"] and verdict["hashed"] and verdict["problems"] == []
    ours, theirs = snapshots.contents(path)
    assert ours == theirs


@pytest.mark.parametrize(
    ("version", "target"),
    [("3.5", "3.5"), ("3.6", "3.6"), ("3.7", "3.7"), ("3.5", "3.6"), ("3.6", "3.7")],
)
def test_a_restored_member_boots_with_the_same_data(sources, tmp_path, version, target):
    source = sources(version)
    restored = Restored(tmp_path, source["path"], target)
    (member,) = restored.cluster.members
    inside = run_json("status", member.data)
    assert inside["problems"] == [] and inside["revision"] == source["revision"]
    database = member.data / "member" / "snap" / "db"
    snapshots.check_with_etcdutl(database)
    assert run_json("hashkv", database)["hash"] == source["hash"]
    with restored as cluster:
        said = snapshots.hash_kv(cluster, USER, source["revision"])
        assert said == (source["hash"], source["compact"])
        answer = json.loads(cluster.etcdctl(*USER, "get", "", "--prefix", "-w", "json"))
        assert answer["kvs"] == source["kvs"]
        assert cluster.etcdctl(*USER, "alarm", "list").strip() == ""
        cluster.etcdctl(*USER, "put", "after", "restore")
        (listed,) = json.loads(cluster.etcdctl(*USER, "member", "list", "-w", "json"))["members"]
        assert f"{listed['ID']:x}" == restored.answers[0]["memberID"]
    # Stopped again: defragmented offline, it boots a second time.
    before = run_json("status", member.data)
    run("defrag", member.data)
    after = run_json("status", member.data)
    assert after["problems"] == [] and after["dbSize"] <= before["dbSize"]
    snapshots.check_with_etcdutl(database)
    with restored as cluster:
        assert cluster.etcdctl(*USER, "get", "after", "--print-value-only").strip() == "restore"


def test_three_restored_members_form_a_cluster(sources, tmp_path):
    source = sources("3.6")
    with Restored(tmp_path, source["path"], "3.6", size=3) as cluster:
        answers = json.loads(cluster.etcdctl(*USER, "endpoint", "hashkv", "-w", "json"))
        assert {a["HashKV"]["hash"] for a in answers} == {source["hash"]}
        cluster.etcdctl(*USER, "put", "k", "v")
        assert (
            len(json.loads(cluster.etcdctl(*USER, "member", "list", "-w", "json"))["members"]) == 3
        )


def test_a_database_file_of_a_stopped_member_restores_without_a_hash(tmp_path):
    with etcd.running(tmp_path, version="3.6") as cluster:
        cluster.etcdctl("put", "k", "v")
        data = cluster.members[0].data
        database = data / "member" / "snap" / "db"
        busy = run("status", data, check=False)
        assert busy.returncode == 1 and "in use" in busy.stderr
        assert "in use" in run("defrag", data, check=False).stderr
        cluster.stop()
    refused = run("restore", database, f"--data-dir={tmp_path}/r", check=False)
    assert refused.returncode == 2 and "--skip-hash-check" in refused.stderr
    assert not (tmp_path / "r").exists()
    with Restored(tmp_path / "new", database, "3.6", flags=["--skip-hash-check"]) as cluster:
        assert cluster.etcdctl("get", "k", "--print-value-only").strip() == "v"


def test_an_existing_member_is_never_touched(sources, tmp_path):
    data = tmp_path / "data"
    (data / "member").mkdir(parents=True)
    (data / "member" / "precious").write_text("x")
    done = run("restore", sources("3.6")["path"], f"--data-dir={data}", check=False)
    assert done.returncode == 1 and "exists" in done.stderr
    assert [p.name for p in data.iterdir()] == ["member"]
    assert (data / "member" / "precious").read_text() == "x"


def test_wrong_flags_are_named_and_leave_nothing(sources, tmp_path):
    path = sources("3.6")["path"]
    rows = [
        (["--bump-revision=5"], "--mark-compacted"),
        (["--mark-compacted"], "--bump-revision"),
        (["--name=other", "--initial-cluster=a=http://h:1"], "not in --initial-cluster"),
        (["--initial-cluster=default=http://h"], "host and port"),
    ]
    for flags, says in rows:
        done = run("restore", path, f"--data-dir={tmp_path}/d", *flags, check=False)
        assert done.returncode == 2 and says in done.stderr, flags
        assert not (tmp_path / "d").exists()


def restoring(path, data):
    return subprocess.Popen(
        [snapshots.BINARY, "snapshot", "restore", path, f"--data-dir={data}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def test_killed_or_interrupted_at_any_moment_there_is_a_whole_member_or_none(tmp_path):
    """At rising moments of a restore, until two of them came too late to stop it."""
    path = tmp_path / "s.db"
    subprocess.run([snapshots.helper("bench/mkdb"), path, "60000", "500"], check=True)
    begin = time.monotonic()
    assert restoring(path, tmp_path / "whole").wait() == 0
    takes = time.monotonic() - begin
    complete = 0
    data = tmp_path / "data"
    for round_ in range(400):
        if complete == 2:
            break
        number = signal.SIGKILL if round_ % 2 else signal.SIGINT
        if number == signal.SIGINT:
            shutil.rmtree(data, ignore_errors=True)  # what a killed one left
        child = restoring(path, data)
        time.sleep(takes * (round_ + 1) / 20)
        child.send_signal(number)
        child.wait()
        if (data / "member").exists():
            complete += 1
            assert run_json("status", data)["problems"] == []
            shutil.rmtree(data)
        elif number == signal.SIGINT:
            assert not data.exists()  # nothing at all
    run("restore", path, f"--data-dir={data}")  # also over what a killed one left
    assert [p.name for p in data.iterdir()] == ["member"]
    assert complete == 2


def test_a_stream_that_does_not_match_its_hash_is_refused(tmp_path):
    with etcd.running(tmp_path, version="3.6") as cluster:
        gateway = Gateway(cluster.endpoints[0])
        for i in range(40):
            gateway.put(f"k{i}", os.urandom(20_000))
        with snapshots.flipping_proxy(cluster.endpoints[0], at=500_000) as url:
            done = run("save", tmp_path / "s.db", f"--endpoints={url}", check=False)
        assert done.returncode == 1 and "does not match its digest" in done.stderr
        assert not list(tmp_path.glob("*s.db*"))
        run("save", tmp_path / "s.db", f"--endpoints={cluster.endpoints[0]}")
        assert run_json("verify", tmp_path / "s.db")["ok"]
        assert not list(tmp_path.glob(".s.db*"))
