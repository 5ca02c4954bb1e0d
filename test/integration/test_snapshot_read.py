# SPDX-License-Identifier: Apache-2.0
"""Reading snapshots of real etcds: single keys, differences, damage, and bbolt's own opinion."""

import contextlib
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import time
import tty
from pathlib import Path

import pytest
import yaml

from rig import etcd, snapshots
from rig.snapshots import Gateway, b64, run, run_json
from rig.wait import until

FIELDS = {"create_revision", "key", "lease", "mod_revision", "value", "version"}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """Two snapshots of one etcd, and what etcd itself says about its keys at each."""
    directory = tmp_path_factory.mktemp("two")
    with etcd.running(directory / "etcd", version="3.6") as cluster:
        gateway, rng = Gateway(cluster.endpoints[0]), random.Random(4)
        states = []
        for name in "a", "b":
            snapshots.random_changes(gateway, rng, 150)
            gateway.put(f"only-{name}", b"x")
            path = directory / f"{name}.db"
            run("save", path, f"--endpoints={cluster.endpoints[0]}")
            kvs = json.loads(cluster.etcdctl("get", "", "--prefix", "-w", "json"))["kvs"]
            states.append((path, kvs))
            gateway.txn([snapshots.delete_op("only-a")])
    return states


def normal(kvs):
    """etcdctl leaves out what is empty or zero."""
    return [
        {"value": "", "lease": 0} | {field: kv[field] for field in FIELDS & set(kv)} for kv in kvs
    ]


def test_list_and_get_print_what_etcdctl_prints(two):
    for path, kvs in two:
        assert run_json("list", path, "")["kvs"] == normal(kvs)
        some = [kv for kv in kvs if kv["key"].startswith(b64("k0")[:2])]
        prefix = run_json("list", path, "k0")["kvs"]
        assert prefix == [kv for kv in normal(kvs) if kv in prefix] and len(prefix) <= len(some)
        one = normal(kvs)[3]
        key = snapshots.base64.b64decode(one["key"]).decode()
        assert run_json("get", path, key)["kvs"] == [one]
    missing = run("get", two[0][0], "no-such-key", check=False)
    assert missing.returncode == 1 and "no-such-key" in missing.stderr


def test_diff_names_what_changed(two):
    (a, before), (b, after) = two
    old = {kv["key"]: kv.get("value", "") for kv in before}
    new = {kv["key"]: kv.get("value", "") for kv in after}
    answer = run_json("diff", a, b)
    order = snapshots.base64.b64decode
    assert answer["added"] == sorted(new.keys() - old.keys(), key=order)
    assert answer["removed"] == sorted(old.keys() - new.keys(), key=order)
    changed = [key for key in old.keys() & new.keys() if old[key] != new[key]]
    assert answer["changed"] == sorted(changed, key=order)
    assert b64("only-b") in answer["added"] and b64("only-a") in answer["removed"]
    assert run_json("diff", a, a) == {"added": [], "changed": [], "removed": []}


def test_yaml_says_what_json_says(two):
    (a, _), (b, _) = two
    for words in (
        ["list", a],
        ["list", a, "no-such-prefix"],
        ["get", a, "only-a"],
        ["diff", a, b],
        ["diff", a, a],
        ["status", a],
    ):
        assert yaml.safe_load(run(*words, "-o", "yaml").stdout) == run_json(*words), words


def on_terminal(*words):
    """What a command prints when its standard output is a terminal."""
    leader, follower = pty.openpty()
    tty.setraw(follower)
    subprocess.run([snapshots.BINARY, "snapshot", *words], stdout=follower, check=True)
    os.close(follower)
    shown = b""
    with contextlib.suppress(OSError):  # the end of a terminal
        while part := os.read(leader, 65536):
            shown += part
    os.close(leader)
    return shown


def test_control_characters_do_not_reach_a_terminal(tmp_path):
    with etcd.running(tmp_path / "etcd") as cluster:
        gateway = Gateway(cluster.endpoints[0])
        first, second = tmp_path / "a.db", tmp_path / "b.db"
        run("save", first, f"--endpoints={cluster.endpoints[0]}")
        gateway.put(b"k\x1b[2J\n", "a\x1b]0;x\x07\n\tü\u009b\x7f".encode() + b"\xff\0")
        run("save", second, f"--endpoints={cluster.endpoints[0]}")
    key, value = b"k\\x1b[2J\\x0a", "a\\x1b]0;x\\x07\n\tü\\xc2\\x9b\\x7f\\xff\\x00".encode()
    assert on_terminal("list", second) == key + b"\n"
    assert on_terminal("list", "--values", second) == key + b"\n" + value + b"\n"
    assert on_terminal("diff", first, second) == b"+ " + key + b"\n"
    assert run("list", second).stdout == "k\x1b[2J\n\n"  # a pipe gets the bytes


def test_verify_says_how_much_it_left_out(tmp_path):
    path = tmp_path / "s.db"
    subprocess.run([snapshots.helper("bench/mkdb"), path, "60000", "500"], check=True)
    content = bytearray(path.read_bytes()[:-32])
    damaged = 0
    for page in range(10, 4000):  # the bucket `key`; its roots come last
        at = page * 4096
        if int.from_bytes(content[at : at + 8], "little") == page and content[at + 8] == 2:
            content[at + 4] ^= 1  # a leaf with another number
            damaged += 1
    path.write_bytes(content)
    done = run("verify", path, "-o", "json", check=False)
    said = json.loads(done.stdout)
    assert done.returncode == 1 and len(said["problems"]) == 1000 and damaged > 1500
    assert said["more"] >= damaged - 1000
    assert f"and {said['more']} more" in run("verify", path, check=False).stdout


def test_nothing_is_printed_on_a_pipe_but_the_result(two):
    assert run("verify", two[0][0]).stderr == ""


def test_every_changed_byte_is_found_with_the_hash(two, tmp_path):
    """A sample of positions here; all of them in the full suite."""
    damaged = tmp_path / "d.db"
    whole = bytearray(two[0][0].read_bytes())
    rng = random.Random(9)
    for at in [*rng.sample(range(len(whole)), 60), 0, len(whole) - 1, len(whole) - 33]:
        whole[at] ^= 1 << rng.randrange(8)
        damaged.write_bytes(whole)
        done = run("verify", damaged, "-o", "json", check=False)
        assert done.returncode == 1 and not json.loads(done.stdout)["ok"], at
        whole = bytearray(two[0][0].read_bytes())
    for size in 0, 1, 79, 4096, len(whole) // 2, len(whole) - 1, len(whole) - 32:
        damaged.write_bytes(whole[:size])
        if size % 512 == 0 and size == len(whole) - 32:
            continue  # a database file without its hash is complete
        assert run("verify", damaged, check=False).returncode == 1, size


def test_a_damaged_snapshot_is_not_restored(two, tmp_path):
    damaged = tmp_path / "d.db"
    whole = bytearray(two[0][0].read_bytes())
    whole[-5000] ^= 1
    damaged.write_bytes(whole)
    done = run("restore", damaged, f"--data-dir={tmp_path}/data", check=False)
    assert done.returncode == 1 and "SHA-256" in done.stderr
    assert not (tmp_path / "data").exists()
    # Without the hash: structure is still checked before anything gets its name.
    whole = bytearray(two[0][0].read_bytes()[:-32])
    meta = max((0, 4096), key=lambda at: int.from_bytes(whole[at + 64 : at + 72], "little"))
    root = int.from_bytes(whole[meta + 32 : meta + 40], "little")
    whole[root * 4096 + 8] ^= 0x10
    damaged.write_bytes(whole)
    words = ["restore", damaged, f"--data-dir={tmp_path}/data", "--skip-hash-check"]
    done = run(*words, check=False)
    assert done.returncode == 1 and f"page {root}" in done.stderr
    assert not (tmp_path / "data").exists()


def test_damaged_directories_say_what_would_stop_etcd(two, tmp_path):
    data = tmp_path / "data"
    run("restore", two[0][0], f"--data-dir={data}")
    assert run_json("status", data)["problems"] == []
    database = data / "member" / "snap" / "db"
    for words in ["verify", data], ["diff", data, two[0][0]], ["get", data, "k"]:
        done = run(*words, check=False)
        assert done.returncode == 2 and f"its database is {database}" in done.stderr, done.stderr

    def problems_after(change):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(data, copy)
        change(copy / "member")
        done = run("status", copy, "-o", "json", check=False)
        assert done.returncode == 1 and "problems found" in done.stderr
        assert run("status", copy, check=False).returncode == 1
        return " ".join(json.loads(done.stdout)["problems"])

    def flip(path, at):
        content = bytearray(path.read_bytes())
        content[at] ^= 1
        path.write_bytes(content)

    (snap,) = [p.name for p in (data / "member" / "snap").glob("*.snap")]
    (wal,) = [p.name for p in (data / "member" / "wal").iterdir()]
    assert "no log" in problems_after(lambda m: (m / "wal" / wal).unlink())
    assert "checksum" in problems_after(lambda m: flip(m / "wal" / wal, 40))
    assert "checksum" in problems_after(lambda m: flip(m / "snap" / snap, 100))
    assert "snap/db" in problems_after(lambda m: (m / "snap" / "db").unlink())
    # The database of another time: its applied index is past the log.
    assert "past the log" in problems_after(lambda m: shutil.copy(two[0][0], m / "snap" / "db"))


def test_random_databases_read_as_bbolt_reads_them(tmp_path):
    """Thirty here, a thousand in the full suite."""
    files = []
    with etcd.running(tmp_path / "etcd", version="3.6") as cluster:
        gateway, rng = Gateway(cluster.endpoints[0]), random.Random(11)
        for i in range(30):
            snapshots.random_changes(gateway, rng, rng.randrange(40))
            files.append(tmp_path / f"{i}.db")
            run("save", files[-1], f"--endpoints={cluster.endpoints[0]}")
    ours, theirs = snapshots.contents(*files)
    assert ours == theirs and len(ours.splitlines()) == 30


@pytest.mark.parametrize("version", ["3.5", "3.6", "3.7"])
def test_the_directory_of_a_killed_member_is_described(tmp_path, version):
    """With raft snapshots and several of them; then with a torn log, which etcd repairs."""
    flags = ["--snapshot-count=100"]
    with etcd.running(tmp_path, version=version, flags=flags) as cluster:
        gateway = Gateway(cluster.endpoints[0])
        snapshots.random_changes(gateway, random.Random(2), 450)
        status = gateway.post("maintenance/status", {})
        (member,) = cluster.members
        cluster.process(member).stop(grace=0)
        said = run_json("status", member.data)
        assert said["problems"] == []
        assert int(said["clusterID"], 16) == int(status["header"]["cluster_id"])
        assert int(said["memberID"], 16) == int(status["header"]["member_id"])
        assert said["term"] == int(status["raftTerm"]) and said["snapshotIndex"] > 100
        assert said["lastIndex"] >= int(status["raftIndex"]) >= said["consistentIndex"]
        log = sorted((member.data / "member" / "wal").glob("*.wal"))[-1]
        content = log.read_bytes()
        log.write_bytes(content[: len(content.rstrip(b"\0")) - 5])
        done = run("status", member.data, "-o", "json", check=False)
        torn = json.loads(done.stdout)
        assert done.returncode == (1 if torn["problems"] else 0)
        assert torn["walTorn"] and torn["lastIndex"] <= said["lastIndex"]
        # Whether it starts is for etcd to say: it repairs the end it may have lost.
        if torn["problems"] == []:
            cluster.start(member)


def test_progress_is_shown_on_a_terminal_after_a_second(tmp_path):
    path = tmp_path / "s.db"
    subprocess.run([snapshots.helper("bench/mkdb"), path, "200000", "300"], check=True)
    leader, follower = pty.openpty()
    child = subprocess.Popen(
        [snapshots.BINARY, "snapshot", "status", path], stdout=subprocess.DEVNULL, stderr=follower
    )
    maps = Path(f"/proc/{child.pid}/maps")
    until(lambda: str(path) in maps.read_text(), 10, "it reads", every=0.001)
    child.send_signal(signal.SIGSTOP)  # a slow disk
    time.sleep(1.2)
    child.send_signal(signal.SIGCONT)
    assert child.wait() == 0
    os.close(follower)
    shown = os.read(leader, 10_000).decode()
    os.close(leader)
    assert "reading [" in shown and "% of" in shown and shown.endswith("\r\x1b[K")
