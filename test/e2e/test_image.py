# SPDX-License-Identifier: Apache-2.0
"""tools/image: the same input gives the same bytes."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile

import pytest

from manifests import pod
from rig import tools

MAKER = tools.REPOSITORY / "tools" / "image"


@pytest.fixture
def files(tmp_path):
    program, note = tmp_path / "program", tmp_path / "note"
    program.write_bytes(b"\x7fELF")
    note.write_text("read me")
    return program, note


def test_the_same_files_give_the_same_archive(tmp_path, files):
    program, note = files
    first = _make(tmp_path / "first.tar", f"{program}:/bin/program:0755", f"{note}:/doc/note")
    os.utime(program, (1, 1))
    program.chmod(0o600)
    second = _make(tmp_path / "second.tar", f"{note}:/doc/note", f"{program}:/bin/program:0755")
    assert first == second
    assert _digest(tmp_path / "first.tar") == _digest(tmp_path / "second.tar")


def test_another_file_gives_another_image(tmp_path, files):
    program, _ = files
    first = _make(tmp_path / "first.tar", f"{program}:/bin/program:0755")
    program.write_bytes(b"other")
    assert _make(tmp_path / "second.tar", f"{program}:/bin/program:0755") != first


def test_the_archive_holds_files_directories_and_links(tmp_path, files):
    program, _ = files
    archive = tmp_path / "image.tar"
    identity = _make(archive, f"{program}:/usr/bin/program:0755", "@program:/usr/bin/alias")
    with tarfile.open(archive) as outer:
        manifest = json.load(outer.extractfile("manifest.json"))[0]
        config = outer.extractfile(manifest["Config"]).read()
        layer = outer.extractfile(manifest["Layers"][0]).read()
        with tarfile.open(fileobj=outer.extractfile(manifest["Layers"][0])) as inner:
            modes = {member.name: oct(member.mode) for member in inner}
            assert inner.getmember("usr/bin/alias").linkname == "program"
    assert modes["usr/bin/program"] == "0o755"
    assert modes["usr"] == "0o755"
    assert manifest["RepoTags"] == ["example.test/thing:v1"]
    assert identity == f"sha256:{hashlib.sha256(config).hexdigest()}"
    diff = f"sha256:{hashlib.sha256(layer).hexdigest()}"
    assert json.loads(config)["rootfs"]["diff_ids"] == [diff]


def test_a_loaded_image_runs_on_every_node(cluster, namespace, tmp_path):
    archive = tmp_path / "shell.tar"
    _make(archive, f"{shutil.which('busybox')}:/bin/sh:0755")
    cluster.rig.load_image(archive)
    names = list(cluster.rig.nodes)
    image = {"image": "example.test/thing:v1", "imagePullPolicy": "Never"}
    cluster.create(namespace, *(pod(f"on-{n}", container=image, nodeName=n) for n in names))
    cluster.wait_ready(namespace, *(f"on-{name}" for name in names))


def test_a_missing_file_is_named(tmp_path):
    words = [sys.executable, MAKER, "--name=a:b", f"--output={tmp_path}/x", "/nowhere:/bin/x"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "image: [Errno 2] No such file or directory: '/nowhere'\n"
    assert not (tmp_path / "x").exists()


def _make(archive, *files):
    """Make an image and return its identity."""
    words = [sys.executable, MAKER, "--name=example.test/thing:v1", f"--output={archive}"]
    words += ["--entrypoint=/bin/program", *files]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()


def _digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()
