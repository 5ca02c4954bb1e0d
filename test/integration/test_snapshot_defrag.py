# SPDX-License-Identifier: Apache-2.0
"""`defrag` and etcd: what it leaves is small, and any etcd goes on with it."""

import random
import shutil
import subprocess

import pytest

from rig import etcd, snapshots
from rig.snapshots import Gateway, b64, delete_op, etcdutl, put_op, run, run_json

# Below a page, beside its halves and thirds, and over several.
VALUES = [10, 300, 1300, 2000, 4100, 5300, 10_240, 70_000]
PAGE = 4096
SHARING = 16 * PAGE  # bbolt lets larger values share their pages in pairs, we do not


def database_of(data):
    return data / "member" / "snap" / "db"


@pytest.mark.parametrize("value", VALUES)
def test_it_makes_no_larger_file_than_etcdutl(tmp_path, value):
    path, mine, theirs = tmp_path / "s.db", tmp_path / "mine", tmp_path / "theirs"
    subprocess.run([snapshots.helper("bench/mkdb"), path, "2000", str(value)], check=True)
    run("restore", path, f"--data-dir={mine}")
    shutil.copytree(mine, theirs)
    etcdutl("defrag", "--data-dir", theirs)
    run("defrag", mine)
    ours, etcds = (run_json("status", database_of(data)) for data in (mine, theirs))
    assert ours["totalKey"] == etcds["totalKey"]
    more = ours["totalKey"] * PAGE if value > SHARING else 0
    assert ours["totalSize"] <= etcds["totalSize"] + more


@pytest.mark.parametrize("version", ["3.5", "3.6", "3.7"])
def test_etcd_goes_on_with_what_it_leaves(tmp_path, monkeypatch, version):
    """Overwrites, deletes and compacts it: its leaves, which are not those of bbolt, come apart."""
    monkeypatch.setenv("ETCD_VERIFY", "all")  # etcd's own assertions about its files
    rng = random.Random(int(version[2:]))
    with etcd.running(tmp_path, version=version) as cluster:
        (member,) = cluster.members
        gateway = Gateway(cluster.endpoints[0])
        for i in range(800):
            gateway.put(f"k{i:04}", rng.randbytes(rng.choice(VALUES)))
        before = snapshots.hash_kv(cluster)
        cluster.stop()
        run("defrag", member.data)
        snapshots.check_with_etcdutl(database_of(member.data))
        cluster.start()
        assert snapshots.hash_kv(cluster) == before

        gateway = Gateway(cluster.endpoints[0])
        held = {}
        for i in rng.sample(range(800), 500):
            key, value = f"k{i:04}", rng.randbytes(rng.choice(VALUES))
            gone = rng.random() < 0.5
            answer = gateway.txn([delete_op(key) if gone else put_op(key, value)])
            held[key] = None if gone else b64(value)
            if rng.random() < 0.02:
                gateway.compact(int(answer["header"]["revision"]))
        cluster.stop()
        cluster.start()
        gateway = Gateway(cluster.endpoints[0])
        for key, value in held.items():
            kvs = gateway.post("kv/range", {"key": b64(key)}).get("kvs", [])
            assert [kv["value"] for kv in kvs] == ([] if value is None else [value])
        cluster.stop()
        assert run_json("verify", database_of(member.data))["ok"]
        snapshots.check_with_etcdutl(database_of(member.data))
