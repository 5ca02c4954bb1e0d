# SPDX-License-Identifier: Apache-2.0
"""Snapshots with everything in them that etcd can store, and what to compare them by."""

import base64
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path
from urllib.parse import urlsplit

from rig import etcd, ports, tools
from rig.process import Processes

BINARY = tools.REPOSITORY / "build" / "raftsman"
SANITIZED = tools.REPOSITORY / "build" / "asan" / "src" / "raftsman"
USER = ("--user", "root:secret")
LARGEST_VALUE = 1_400_000  # etcd takes 1.5 MiB for a whole request


class Gateway:
    """etcd's JSON gateway over one connection: thousands of requests a second."""

    def __init__(self, url):
        self._connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)

    def post(self, path, body):
        self._connection.request("POST", f"/v3/{path}", json.dumps(body))
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {text[:300]!r}")
        return json.loads(text)

    def put(self, key, value, lease=0):
        return self.post("kv/put", {"key": b64(key), "value": b64(value), "lease": lease})

    def txn(self, ops):
        return self.post("kv/txn", {"success": ops})

    def compact(self, revision):
        self.post("kv/compaction", {"revision": revision, "physical": True})


def b64(data):
    return base64.b64encode(data if isinstance(data, bytes) else data.encode()).decode()


def put_op(key, value, lease=0):
    return {"request_put": {"key": b64(key), "value": b64(value), "lease": lease}}


def delete_op(key, end=b""):
    return {"request_delete_range": {"key": b64(key), "range_end": b64(end)}}


def random_changes(gateway, rng, steps, keys=60, leases=()):
    """Puts, deletes, transactions with several changes, and compactions; returns the revision."""
    revision = 0
    for _ in range(steps):
        kind = rng.random()
        name = f"k{rng.randrange(keys):03}"
        size = rng.choice([0, 1, 10, 100, 900, 5000]) if rng.random() < 0.9 else 40_000
        lease = rng.choice(leases) if leases and rng.random() < 0.2 else 0
        if kind < 0.6:
            answer = gateway.put(name, rng.randbytes(size), lease)
        elif kind < 0.75:
            answer = gateway.txn([delete_op(name)])
        elif kind < 0.95:
            names = rng.sample(range(keys), 5)
            answer = gateway.txn(
                [put_op(f"k{n:03}", rng.randbytes(size % 1000), lease) for n in names]
                + [delete_op(f"t{n:03}") for n in names[:2]]
                + [put_op(f"x{names[0]:03}", b"x")]
            )
        else:
            if revision > 3:
                with contextlib.suppress(RuntimeError):  # already compacted further
                    gateway.compact(rng.randrange(2, revision))
            continue
        revision = int(answer["header"]["revision"])
    return revision


def many_keys(gateway, rng, keys, leases):
    """That many keys in transactions of a hundred; every tenth has a lease, some are gone again."""
    for first in range(0, keys, 100):
        ops = []
        for n in range(first, min(first + 100, keys)):
            lease = leases[n // 10 % len(leases)] if n % 10 == 0 else 0
            ops.append(put_op(f"n{n:07}", rng.randbytes(rng.randrange(200)), lease))
        gateway.txn(ops)
        if first % 10_000 == 0:
            gateway.txn([delete_op(f"n{first:07}"), put_op(f"d{first:07}", b"in its place")])


def fill(cluster, rng, keys=0):
    """Everything a backend can hold, and `keys` more; authentication is on afterwards."""
    gateway = Gateway(cluster.endpoints[0])
    leases = [int(gateway.post("lease/grant", {"TTL": 7200})["ID"]) for _ in range(5)]
    many_keys(gateway, rng, keys, leases[1:])  # the first one is revoked
    random_changes(gateway, rng, 400, leases=leases)
    gateway.put("one", b"1")
    gateway.put("empty", b"")
    gateway.put("large", rng.randbytes(LARGEST_VALUE))
    gateway.put(bytes(range(256)), b"binary key")
    gateway.txn([put_op(f"txn{i:03}", rng.randbytes(i)) for i in range(100)])
    gateway.txn([delete_op("txn", b"txn05")])
    gateway.post("lease/revoke", {"ID": leases[0]})
    revision = int(gateway.put("mark", b"m")["header"]["revision"])
    gateway.compact(revision - 50)
    random_changes(gateway, rng, 50, leases=leases[1:])
    status = gateway.post("maintenance/status", {})
    member = int(status["header"]["member_id"])
    gateway.post("maintenance/alarm", {"action": "ACTIVATE", "memberID": member, "alarm": 1})
    for name in "root", "reader":
        gateway.post("auth/user/add", {"name": name, "password": "secret"})
        gateway.post("auth/role/add", {"name": name})
        gateway.post("auth/user/grant", {"user": name, "role": name})
    permission = {"permType": "READ", "key": b64("k"), "range_end": b64("l")}
    gateway.post("auth/role/grant", {"name": "reader", "perm": permission})
    gateway.post("auth/enable", {})


def hash_kv(cluster, user=(), revision=0):
    """(hash, compact revision) as the first member answers."""
    words = ["endpoint", "hashkv", "-w", "json", f"--rev={revision}", "--command-timeout=60s"]
    answer = json.loads(cluster.etcdctl(*user, *words))[0]["HashKV"]
    return answer["hash"], answer.get("compact_revision", 0)


def run(*words, check=True, binary=BINARY, **options):
    """Our binary; its standard output. What a sanitizer finds is no exit code of ours."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSMAN_")}
    env |= {"ASAN_OPTIONS": "exitcode=99", "UBSAN_OPTIONS": "halt_on_error=1:exitcode=99"}
    done = subprocess.run(
        [binary, "snapshot", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        env=env,
        timeout=120,
        **options,
    )
    if check and done.returncode != 0:
        raise AssertionError(f"raftsman snapshot {words}: {done.returncode}: {done.stderr}")
    return done


def run_json(*words):
    return json.loads(run(*words, "-o", "json").stdout)


def etcdutl(*words, version="3.6"):
    """A known etcdutl; what it prints."""
    path = (
        tools.binary("etcdutl-3.6", "etcdutl")
        if version == "3.6"
        else tools.binary(f"etcd-{version}", "etcdutl")
    )
    return subprocess.run(
        [path, *map(str, words)], check=True, capture_output=True, text=True, timeout=120
    ).stdout


def helper(name):
    """A helper program of the tests, built on demand."""
    build = tools.REPOSITORY / "build" / "release"
    subprocess.run(["ninja", "-C", build, "--quiet", name], check=True, capture_output=True)
    return build / name


def contents(*files):
    """What our reader and bbolt's own make of files, as two lists of equal form."""
    ours = [helper("test/peers/boltwalk"), *files]
    theirs = [tools.binary("bboltcheck", "bboltcheck"), *files]
    return tuple(
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600).stdout
        for command in (ours, theirs)
    )


def check_with_etcdutl(database):
    """etcdutl's numbers of a database we wrote are ours, and bbolt's own check accepts it."""
    ours = run_json("status", database)
    assert ours == json.loads(etcdutl("snapshot", "status", database, "-w", "json"))
    mine, bbolts = contents(database)
    assert mine == bbolts
    with tempfile.TemporaryDirectory() as directory:
        copy = shutil.copy(database, directory)  # etcdutl changes the file it hashes
        theirs = json.loads(etcdutl("hashkv", copy, "-w", "json", version="3.7"))
    assert run_json("hashkv", database) == theirs


class Restored:
    """A cluster whose members start from directories that `restore` made.

    Those whose ordinals are in `by_etcdutl` are etcdutl's work instead.
    """

    def __init__(
        self, directory, snapshot, version, size=1, flags=(), token="restored", by_etcdutl=()
    ):
        self.cluster = etcd.Cluster(
            Processes(directory, die_with_parent=True),
            size=size,
            version=version,
            flags=VERIFYING[version],
            name="r",
        )
        self.answers = []
        members = self.cluster.members
        initial = ",".join(f"{m.name}={m.peer_url}" for m in members)
        for ordinal, member in enumerate(members):
            words = [
                "restore",
                snapshot,
                f"--data-dir={member.data}",
                f"--name={member.name}",
                f"--initial-cluster={initial}",
                f"--initial-cluster-token={token}",
                f"--initial-advertise-peer-urls={member.peer_url}",
                *flags,
            ]
            if ordinal in by_etcdutl:
                etcdutl("snapshot", *words, version=version)
            else:
                self.answers.append(run_json(*words))

    @property
    def databases(self):
        return [m.data / "member" / "snap" / "db" for m in self.cluster.members]

    def __enter__(self):
        os.environ["ETCD_VERIFY"] = "all"  # etcd's own assertions about its files
        self.cluster.start()
        return self.cluster

    def __exit__(self, *_):
        os.environ.pop("ETCD_VERIFY")
        logs = "".join(self.cluster.process(m).tail(None) for m in self.cluster.members)
        self.cluster.stop(grace=0)
        bad = re.findall(r'.*(?:"level":"(?:panic|fatal)"|panic:|corrupt.*mismatch).*', logs)
        assert not bad, bad[:3]


# Compare hashes with all peers before serving.
VERIFYING = {
    "3.5": ["--experimental-initial-corrupt-check=true"],
    "3.6": ["--feature-gates=InitialCorruptCheck=true"],
    "3.7": ["--feature-gates=InitialCorruptCheck=true"],
}


def free_url():
    return f"http://127.0.0.1:{ports.free('127.0.0.1')}"


def make_source(directory, version, seed=1, keys=0):
    """A full snapshot of a real etcd, and what that etcd said about it."""
    path = Path(directory) / f"source-{version}.db"
    with etcd.running(Path(directory) / f"etcd-{version}", version=version) as cluster:
        fill(cluster, random.Random(seed), keys)
        password = Path(directory) / "password"
        password.write_text("secret\n")
        saved = run_json(
            "save",
            path,
            f"--endpoints={cluster.endpoints[0]}",
            "--user=root",
            f"--password-file={password}",
        )
        revision = json.loads(cluster.etcdctl(*USER, "get", "mark", "-w", "json"))
        kvs = json.loads(cluster.etcdctl(*USER, "get", "", "--prefix", "-w", "json"))["kvs"]
        said = hash_kv(cluster, USER)
    return {
        "path": path,
        "version": version,
        "saved": saved,
        "hash": said[0],
        "compact": said[1],
        "revision": revision["header"]["revision"],
        "kvs": kvs,
    }


@contextlib.contextmanager
def flipping_proxy(url, at):
    """In front of a server: changes the byte at this offset of what it answers."""
    target = urlsplit(url)
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source, sink, flip):
        seen = 0
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if flip and seen <= at < seen + len(data):
                    data = bytearray(data)
                    data[at - seen] ^= 1
                seen += len(data)
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((target.hostname, target.port))
                for words in (client, server, False), (server, client, True):
                    threading.Thread(target=pump, args=words, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
