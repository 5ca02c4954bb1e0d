# SPDX-License-Identifier: Apache-2.0
"""The large matrices of the snapshot tools; `make test-snapshot-full` runs them."""

import json
import random
import shutil
import subprocess

import pytest

from rig import etcd, snapshots
from rig.snapshots import USER, Gateway, Restored, run, run_json
from rig.wait import until

pytestmark = pytest.mark.timeout(3600)

VERSIONS = ["3.5", "3.6", "3.7"]
BOOTS = [("3.5", "3.5"), ("3.5", "3.6"), ("3.5", "3.7"), ("3.6", "3.6"), ("3.6", "3.7"),
         ("3.7", "3.7"), ("3.6", "3.5"), ("3.7", "3.5")]  # fmt: skip


READERS = ["verify", "status", "hashkv", "list"]


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    directory = tmp_path_factory.mktemp("sources")
    return {v: snapshots.make_source(directory, v, seed=7) for v in VERSIONS}


def hashes(cluster):
    """Of every member; None while one of them lags behind and does not know the token yet."""
    try:
        return json.loads(cluster.etcdctl(*USER, "endpoint", "hashkv", "-w", "json"))
    except subprocess.CalledProcessError:
        return None


@pytest.mark.parametrize(("version", "target"), BOOTS)
@pytest.mark.parametrize("size", [1, 3])
def test_every_version_boots_what_every_version_saved(sources, tmp_path, version, target, size):
    source = sources[version]
    with Restored(tmp_path, source["path"], target, size=size) as cluster:
        answers = until(lambda: hashes(cluster), 20, "every member takes the user's token")
        assert {a["HashKV"]["hash"] for a in answers} == {source["hash"]}
        kvs = json.loads(cluster.etcdctl(*USER, "get", "", "--prefix", "-w", "json"))["kvs"]
        assert kvs == source["kvs"]
        cluster.etcdctl(*USER, "put", "k", "v")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("keys", [0, 1, 1_000_000])
def test_any_number_of_keys(tmp_path, version, keys):
    path = tmp_path / "s.db"
    if keys > 1:
        subprocess.run([snapshots.helper("bench/mkdb"), path, str(keys), "100"], check=True)
        # Its storage version is 3.6: every target but 3.5 takes that as it is, 3.5 ignores it.
    else:
        with etcd.running(tmp_path / "etcd", version=version) as cluster:
            for i in range(keys):
                cluster.etcdctl("put", f"k{i}", "v")
            run("save", path, f"--endpoints={cluster.endpoints[0]}")
    ours = run_json("hashkv", path)
    restored = Restored(tmp_path, path, version)
    snapshots.check_with_etcdutl(*restored.databases)
    with restored as cluster:
        assert snapshots.hash_kv(cluster)[0] == ours["hash"]
        cluster.etcdctl("put", "after", "x")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("keys", [1000, 10_000, 100_000])
def test_many_keys_of_transactions_with_leases_and_users(tmp_path, version, keys):
    source = snapshots.make_source(tmp_path / "old", version, keys=keys)
    assert len(source["kvs"]) >= keys
    assert run_json("verify", source["path"])["ok"]
    restored = Restored(tmp_path / "new", source["path"], version)
    snapshots.check_with_etcdutl(*restored.databases)
    with restored as cluster:
        said = snapshots.hash_kv(cluster, USER, source["revision"])
        assert said == (source["hash"], source["compact"])
        kvs = json.loads(cluster.etcdctl(*USER, "get", "", "--prefix", "-w", "json"))["kvs"]
        assert kvs == source["kvs"]
        cluster.etcdctl(*USER, "put", "after", "x")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_thousand_random_databases_read_as_bbolt_reads_them(tmp_path, version):
    rng = random.Random(int(version[2:]))
    compared = 0
    for batch in range(12):
        files = []
        with etcd.running(tmp_path / f"etcd-{batch}", version=version) as cluster:
            gateway = Gateway(cluster.endpoints[0])
            for i in range(28):
                snapshots.random_changes(gateway, rng, rng.randrange(60), keys=rng.choice([5, 400]))
                files.append(tmp_path / f"{i}.db")
                run("save", files[-1], f"--endpoints={cluster.endpoints[0]}")
        ours, theirs = snapshots.contents(*files)
        assert ours == theirs
        compared += len(ours.splitlines())
        rewritten = []
        for path in files[::4]:  # and what we write of them
            database = tmp_path / f"re-{path.name}"
            shutil.copy(path, database)
            with database.open("r+b") as file:
                file.truncate(path.stat().st_size - 32)
            run("defrag", database)
            rewritten.append(database)
        mine, bbolts = snapshots.contents(*rewritten)
        assert mine == bbolts == "".join(ours.splitlines(keepends=True)[::4])
    assert compared == 336


def test_every_byte_of_a_small_snapshot(tmp_path):
    """With its hash every single change is found; each position once, and every page cut."""
    path, damaged = tmp_path / "s.db", tmp_path / "d.db"
    with etcd.running(tmp_path / "etcd", version="3.6") as cluster:
        cluster.etcdctl("put", "k", "v")
        run("save", path, f"--endpoints={cluster.endpoints[0]}")
    whole = path.read_bytes()
    rng = random.Random(1)
    for at in range(len(whole)):
        content = bytearray(whole)
        content[at] ^= 1 << rng.randrange(8)
        damaged.write_bytes(content)
        done = run("verify", damaged, check=False)
        assert done.returncode == 1, at


@pytest.mark.parametrize("seed", range(300))
def test_random_damage_to_a_large_database_never_crashes(tmp_path_factory, seed):
    directory = tmp_path_factory.getbasetemp()
    path, damaged = directory / "large.db", directory / "damaged.db"
    if not path.exists():
        subprocess.run([snapshots.helper("bench/mkdb"), path, "20000", "200", "2"], check=True)
    rng = random.Random(seed)
    content = bytearray(path.read_bytes()[:-32])
    for _ in range(rng.randrange(1, 20)):
        at, n = rng.randrange(len(content)), rng.choice([1, 8, 512, 4096])
        content[at : at + n] = rng.randbytes(min(n, len(content) - at))
    damaged.write_bytes(content)
    restore = ["restore", damaged, f"--data-dir={directory}/data", "--skip-hash-check"]
    for binary in snapshots.BINARY, snapshots.SANITIZED:
        for words in *([word, damaged] for word in READERS), restore:
            done = run(*words, check=False, binary=binary)
            assert done.returncode in (0, 1), (words, done.stderr)
        shutil.rmtree(directory / "data", ignore_errors=True)
