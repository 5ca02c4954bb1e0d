# SPDX-License-Identifier: Apache-2.0
"""Image archives for the nodes, made by `tools/image` at first need and kept in the cache."""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from rig import tools
from rig.errors import Missing, RigError

PAUSE = "registry.k8s.io/pause:3.10"
BUSYBOX = "docker.io/library/busybox:1.35"
ETCD = "quay.io/coreos/etcd"
ETCD_SETS = ("etcd-3.5", "etcd-3.6", "etcd-3.7")


def cache():
    """Where archives are kept: beside the tool cache, and like it safe to delete."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = root / "raftsman" / "images"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def standard():
    """The archives every node gets: pause, a shell, and each etcd in the tool cache."""
    archives = [pause(), busybox()]
    for tool_set in ETCD_SETS:
        with contextlib.suppress(Missing):
            archives.append(etcd(tool_set))
    return archives


def pause():
    """The program that holds a Pod's namespaces; containerd starts no Pod without it."""
    source = Path(__file__).with_name("pause.c")
    program = cache() / "pause"
    if not _fresh(program, [source]):
        draft = program.with_suffix(f".{os.getpid()}")
        _run(["gcc", "-static", "-Os", "-s", "-o", draft, source])
        draft.rename(program)
    return _archive(PAUSE, {"/pause": program}, ["--entrypoint=/pause"])


def busybox():
    """A shell that is its own `cat`, `nslookup`, `wget` and so on: no more links are needed."""
    files = {"/bin/busybox": Path(shutil.which("busybox")), "/bin/sh": "@busybox"}
    return _archive(BUSYBOX, files, ["--cmd=/bin/sh"])


def etcd(tool_set="etcd-3.6"):
    """The image `etcd_image(tool_set)`, with the programs where the upstream image has them."""
    directory = tools.directory(tool_set)
    files = {f"/usr/local/bin/{path.name}": path for path in directory.glob("etcd*")}
    return _archive(etcd_image(tool_set), files, ["--cmd=/usr/local/bin/etcd"])


def etcd_image(tool_set="etcd-3.6"):
    """The image name, with the version the binary reports."""
    said = _run([tools.binary(tool_set, "etcd"), "--version"])
    return f"{ETCD}:v{said.split()[2]}"


def _archive(image, files, options):
    """The archive of an image, made unless there is one younger than its files."""
    path = cache() / f"{image.rpartition('/')[2].replace(':', '-')}.tar"
    maker = tools.REPOSITORY / "tools" / "image"
    with (cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _fresh(path, [maker, *(file for file in files.values() if isinstance(file, Path))]):
            listed = [f"{source}:{target}:0755" for target, source in files.items()]
            _run([sys.executable, maker, f"--name={image}", f"--output={path}", *options, *listed])
    return path


def _fresh(target, sources):
    """Whether `target` exists and is younger than everything it is made from."""
    if not target.exists():
        return False
    made = target.stat().st_mtime
    return all(source.stat().st_mtime <= made for source in sources)


def _run(command):
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RigError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout


class Unpacked:
    """An image as a directory, for nodes that run containers as plain processes."""

    def __init__(self, archive, directory):
        """Nothing is unpacked before `root` is asked for."""
        self._archive = archive
        with tarfile.open(archive) as outer:
            self._manifest = json.load(outer.extractfile("manifest.json"))[0]
            config = json.load(outer.extractfile(self._manifest["Config"]))["config"]
        self._root = directory / archive.stem
        self._entrypoint = config.get("Entrypoint") or []
        self._cmd = config.get("Cmd") or []
        self.names = self._manifest["RepoTags"]
        self.environment = dict(entry.split("=", 1) for entry in config.get("Env", []))

    @property
    def root(self):
        if not self._root.exists():
            draft = self._root.with_suffix(".part")
            with tarfile.open(self._archive) as outer:
                layer = outer.extractfile(self._manifest["Layers"][0])
                with tarfile.open(fileobj=layer) as files:
                    files.extractall(draft)
            draft.rename(self._root)
        return self._root

    def command(self, container):
        """What to execute: the words of the container's spec over the image's."""
        if "command" in container:
            return container["command"] + container.get("args", [])
        return self._entrypoint + container.get("args", self._cmd)
