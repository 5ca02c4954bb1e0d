# SPDX-License-Identifier: Apache-2.0
"""Restores that raise the revision: what old clients are told, and that etcdutl does the same."""

import json
import subprocess

import pytest

from rig import etcd, snapshots, tools
from rig.snapshots import Gateway, Restored, delete_op, put_op, run, run_json
from rig.wait import until

VERSIONS = ["3.5", "3.6", "3.7"]
BUMP = 1_000_000
FLAGS = [f"--bump-revision={BUMP}", "--mark-compacted"]


@pytest.mark.parametrize("version", VERSIONS)
def test_after_a_bump_old_watchers_are_told_compacted(tmp_path, version):
    with etcd.running(tmp_path / "old", version=version) as cluster:
        for i in range(20):
            cluster.etcdctl("put", f"k{i}", "v")
        path = tmp_path / "s.db"
        run("save", path, f"--endpoints={cluster.endpoints[0]}")
    restored = Restored(tmp_path, path, version, flags=FLAGS)
    assert restored.answers[0]["nextRevision"] == 1000021
    with restored as cluster:
        etcdctl = tools.binary(f"etcd-{version}", "etcdctl")
        watch = subprocess.run(
            [etcdctl, "--endpoints", cluster.endpoints[0], "watch", "k1", "--rev=5"],
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
        assert "compacted" in watch.stderr + watch.stdout
        answer = json.loads(cluster.etcdctl("put", "new", "1", "-w", "json"))
        assert answer["header"]["revision"] > 1000021
        assert cluster.etcdctl("get", "k7", "--print-value-only").strip() == "v"


def fill(gateway, kind):
    """A store of that kind; returns its last revision in the bucket `key`."""
    if kind == "empty":
        return 0
    for i in range(20):
        gateway.put(f"k{i}", b"v" * i)
    if kind == "deleted":
        answer = gateway.txn([delete_op("k", b"l")])
        gateway.compact(int(answer["header"]["revision"]))
    else:
        answer = gateway.txn([put_op(f"t{i}", b"t") for i in range(5)] + [delete_op("k3")])
    return int(answer["header"]["revision"])


def hashes(cluster):
    answers = json.loads(cluster.etcdctl("endpoint", "hashkv", "-w", "json"))
    return [answer["HashKV"] for answer in answers]


@pytest.mark.parametrize(
    ("version", "kind"),
    [("3.5", "full"), ("3.6", "empty"), ("3.6", "deleted"), ("3.6", "full"), ("3.7", "full")],
)
def test_members_that_etcdutl_raised_and_those_we_raised_agree(tmp_path, version, kind):
    path = tmp_path / "s.db"
    with etcd.running(tmp_path / "old", version=version) as cluster:
        last = fill(Gateway(cluster.endpoints[0]), kind)
        run("save", path, f"--endpoints={cluster.endpoints[0]}")
    restored = Restored(tmp_path, path, version, size=3, flags=FLAGS, by_etcdutl=[1])
    assert [a["nextRevision"] for a in restored.answers] == [last + BUMP] * 2
    ours, theirs, _ = restored.databases
    snapshots.check_with_etcdutl(ours)
    offline = run_json("hashkv", ours)
    assert offline == run_json("hashkv", theirs)
    with restored as cluster:
        said = hashes(cluster)
        assert [a["hash"] for a in said] == [offline["hash"]] * 3
        assert [a["compact_revision"] for a in said] == [last + BUMP] * 3
        put = json.loads(cluster.etcdctl("put", "new", "1", "-w", "json"))
        assert put["header"]["revision"] == last + BUMP + 1
        until(lambda: len({a["hash"] for a in hashes(cluster)}) == 1, 10, "they agree again")
