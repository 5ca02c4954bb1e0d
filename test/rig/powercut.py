# SPDX-License-Identifier: Apache-2.0
"""What a disk may hold after the power went: replays of a log that test/peers/powerlog.c wrote.

The model is harsher than any file system. What a completed sync of a file covers (its bytes) or
of a directory (its names) is kept; of everything else any subset may be there, in any order, and
a write may be cut at a sector. States are computed in memory.
"""

import json
import os
import random
import subprocess
from pathlib import Path

from rig import snapshots

SECTOR = 512
SUBSETS = 300  # per prefix, where there are more


class Node:
    """A file or directory as it was made; what it holds is in the operations on it."""

    def __init__(self, is_dir, content=b""):
        self.is_dir = is_dir
        self.content = content  # before the log begins


class Op:
    def __init__(self, kind, node, **what):
        self.kind = kind  # link, unlink, write, truncate, grow
        self.node = node  # the directory or file it changes
        self.what = what


class Log:
    """The operations of a run under `root`, resolved to nodes."""

    def __init__(self, path, root):
        self.root = Path(root)
        self.ops = []  # (Op or ("sync", node))
        self.tree = Node(True)
        self.names = {}  # directory node -> {name: node} as the program saw it
        self.inodes = {}
        self.before = {}  # directory node -> {name: node} when the log begins
        self.data = Path(f"{path}.data").read_bytes() if Path(f"{path}.data").exists() else b""
        self._lines = [json.loads(line) for line in Path(path).read_text().splitlines()]

    def load_before(self, listing, unsynced=()):
        """What was there: {relative path: (inode, bytes or None for a directory)}.

        The names in `unsynced` were made a moment before: a power cut may still take them.
        """
        self.names[self.tree] = {}
        for path, (ino, content) in sorted(listing.items()):
            parent, name = self._parent(self.root / path)
            node = Node(content is None, content or b"")
            self.names[parent][name] = node
            if node.is_dir:
                self.names[node] = {}
            self.inodes[ino] = node
        self.before = {node: dict(entries) for node, entries in self.names.items()}
        for path in unsynced:
            parent, name = self._parent(self.root / path)
            self.ops.append(Op("link", parent, name=name, to=self.before[parent].pop(name)))

    def _parent(self, path):
        node = self.tree
        parts = Path(os.path.normpath(path)).relative_to(self.root).parts
        for part in parts[:-1]:
            node = self.names[node][part]
        return node, parts[-1]

    def _lookup(self, path):
        if Path(os.path.normpath(path)) == self.root:
            return self.tree
        parent, name = self._parent(path)
        return self.names[parent].get(name)

    def parse(self):
        for line in self._lines:
            kind = line["op"]
            if kind in ("create", "mkdir"):
                parent, name = self._parent(line["path"])
                node = Node(kind == "mkdir")
                self.names[parent][name] = node
                if node.is_dir:
                    self.names[node] = {}
                else:
                    self.inodes[line["ino"]] = node
                self.ops.append(Op("link", parent, name=name, to=node))
            elif kind == "unnamed":
                self.inodes[line["ino"]] = Node(False)
            elif kind == "link":
                parent, name = self._parent(line["path"])
                node = self.inodes[line["ino"]]
                self.names[parent][name] = node
                self.ops.append(Op("link", parent, name=name, to=node))
            elif kind in ("unlink", "rmdir"):
                parent, name = self._parent(line["path"])
                self.names[parent].pop(name)
                self.ops.append(Op("unlink", parent, name=name))
            elif kind == "rename":
                parent, name = self._parent(line["path"])
                to_parent, to_name = self._parent(line["to"])
                assert parent is to_parent  # ours stay in one directory
                node = self.names[parent].pop(name)
                self.names[parent][to_name] = node
                self.ops.append(Op("rename", parent, name=name, to_name=to_name, to=node))
            elif kind == "sync":
                node = self.inodes.get(line["ino"]) or self._lookup(line["path"])
                self.ops.append(("sync", node))
            elif kind == "write":
                data = self.data[line["data"] : line["data"] + line["n"]]
                node = self.inodes[line["ino"]]
                self.ops.append(Op("write", node, offset=line["offset"], data=data))
            elif kind in ("truncate", "grow"):
                self.ops.append(Op(kind, self.inodes[line["ino"]], n=line["n"]))
        return self

    def crashes(self, rng):
        """Every prefix with subsets of what no sync covers: (names, contents) of each state."""
        for end in range(len(self.ops) + 1):
            durable, pending = self._split(end)
            choices = 1 << len(pending) if len(pending) <= 8 else SUBSETS
            for choice in range(choices):
                bits = choice if len(pending) <= 8 else rng.getrandbits(len(pending))
                chosen = [op for i, op in enumerate(pending) if bits >> i & 1]
                if rng.random() < 0.5:
                    rng.shuffle(chosen)
                state = State(self, durable + chosen, set(map(id, chosen)), rng)
                state.over = end == len(self.ops)
                yield state

    def _split(self, end):
        done, pending = [], []
        for op in self.ops[:end]:
            if isinstance(op, tuple):
                covered = [p for p in pending if p.node is op[1]]
                pending = [p for p in pending if p.node is not op[1]]
                done += covered
            else:
                pending.append(op)
        return done, pending


class State:
    """The names and bytes after a crash.

    `over`: the program had ended, so what it promised must be there.
    """

    def __init__(self, log, ops, tearable, rng):
        self.log = log
        self.over = False
        self.entries = {node: dict(entries) for node, entries in log.before.items()}
        self.writes = {}
        for done in ops:
            op = done
            if op.kind in ("link", "unlink", "rename"):
                names = self.entries.setdefault(op.node, {})
                if op.kind != "link":
                    names.pop(op.what["name"], None)
                if op.kind != "unlink":
                    names[op.what.get("to_name", op.what.get("name"))] = op.what["to"]
                continue
            if op.kind == "write" and id(op) in tearable and rng.random() < 0.3:
                cut = rng.randrange(0, len(op.what["data"]) + 1, SECTOR)
                op = Op("write", op.node, offset=op.what["offset"], data=op.what["data"][:cut])
            self.writes.setdefault(op.node, []).append(op)

    def node(self, path):
        node = self.log.tree
        for part in Path(path).parts:
            node = self.entries.get(node, {}).get(part)
            if node is None:
                return None
        return node

    def content(self, node):
        content = bytearray(node.content)
        for op in self.writes.get(node, []):
            if op.kind == "write":
                end = op.what["offset"] + len(op.what["data"])
                content.extend(bytes(max(0, end - len(content))))
                content[op.what["offset"] : end] = op.what["data"]
            elif op.kind == "truncate":
                n = op.what["n"]
                content = content[:n] + bytes(max(0, n - len(content)))
            else:
                content.extend(bytes(max(0, op.what["n"] - len(content))))
        return bytes(content)

    def files(self, path):
        """{relative path: content} of everything below a directory."""
        found = {}

        def walk(node, prefix):
            for name, child in self.entries.get(node, {}).items():
                if child.is_dir:
                    found[f"{prefix}{name}/"] = b""
                    walk(child, f"{prefix}{name}/")
                else:
                    found[f"{prefix}{name}"] = self.content(child)

        walk(self.node(path), "")
        return found


def listing(root):
    """What lies under a directory, as Log.load_before takes it."""
    found = {}
    for path in Path(root).rglob("*"):
        content = None if path.is_dir() else path.read_bytes()
        found[str(path.relative_to(root))] = (path.stat().st_ino, content)
    return found


def record(root, log, *words, named=False, unsynced=()):
    """Runs our binary with everything it does under `root` written down; the parsed log.

    `named`: as on a file system that knows no unnamed files. `unsynced`: names that nobody has
    made durable yet.
    """
    before = listing(root)
    _run(root, log, words, {"POWERLOG_NAMED": "1"} if named else {}).check_returncode()
    parsed = Log(log, root)
    parsed.load_before(before, unsynced)
    return parsed.parse()


def fail(root, log, *words, at, named=False):
    """Runs our binary with an I/O error at its `at`th change under `root`.

    Returns what became of it and the path that failed, None if there were fewer changes.
    """
    settings = {"POWERLOG_FAIL": str(at)} | ({"POWERLOG_NAMED": "1"} if named else {})
    done = _run(root, log, words, settings)
    lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
    return done, next((line["path"] for line in lines if line["op"] == "failed"), None)


def _run(root, log, words, settings):
    env = os.environ | {
        "LD_PRELOAD": str(snapshots.helper("test/peers/powerlog.so")),
        "POWERLOG": str(log),
        "POWERLOG_ROOT": str(root),
    }
    return subprocess.run(
        [snapshots.BINARY, "snapshot", *map(str, words)],
        check=False,
        env=env | settings,
        capture_output=True,
        text=True,
        timeout=60,
    )


def states(log, seed=1):
    return log.crashes(random.Random(seed))
