# SPDX-License-Identifier: Apache-2.0
"""The life of a rig: whatever happens to it, nothing of it stays on the machine."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rig import tools
from rig.process import Process, state_letter
from rig.wait import until

COMMAND = tools.REPOSITORY / "test" / "rig" / "kubernetes"
NOBODY = 65534

# What `up` has reached when it is killed: a file or directory of its state, the earlier first.
MOMENTS = ["lock", "pki", "run/etcd", "run/kube-apiserver", "run/volumes", "run/node1", "rig.json"]


class Machine:
    """What a rig could leave behind on this machine."""

    @staticmethod
    def links():
        return {link["ifname"] for link in json.loads(_output("ip", "-json", "link"))}

    @staticmethod
    def routes():
        return set(_output("ip", "route").splitlines())

    @staticmethod
    def namespaces():
        return set(_output("ip", "netns").splitlines())

    @staticmethod
    def mounts():
        return set(Path("/proc/self/mounts").read_text().splitlines())

    @staticmethod
    def groups():
        """Of rigs only. One can be removed only when no process is in it, so this is also a
        comparison of processes."""
        return set(Path("/sys/fs/cgroup").glob("*/raftsman-rig*"))

    @staticmethod
    def sysctls():
        names = "vm/overcommit_memory kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys"
        return {name: Path("/proc/sys", name).read_text() for name in names.split()}

    def everything(self):
        parts = ("links", "routes", "namespaces", "mounts", "groups", "sysctls")
        return {part: getattr(self, part)() for part in parts}


@pytest.fixture
def clean():
    """Fails the test if anything is left of what it did."""
    before = Machine().everything()
    yield
    assert Machine().everything() == before


def test_up_and_down_twice_in_a_row_leave_nothing(tmp_path, clean):
    directory = tmp_path / "rig"
    _rig(directory, "up", "--nodes=1")
    pids = _pids(directory)
    _rig(directory, "up", "--nodes=1")
    assert _pids(directory) == pids, "the second `up` left the first one's processes alone"
    assert "running" in _rig(directory, "status")
    _rig(directory, "down")
    _rig(directory, "down")
    assert not directory.exists()
    assert not _alive(pids)


@pytest.mark.parametrize("moment", MOMENTS)
def test_down_after_up_was_killed_leaves_nothing(tmp_path, clean, moment):
    directory = tmp_path / "rig"
    words = [COMMAND, "up", "--nodes=1", f"--dir={directory}"]
    with subprocess.Popen(words, start_new_session=True) as up:
        until((directory / moment).exists, 60, f"{moment} exists", every=0.001)
        os.killpg(up.pid, signal.SIGKILL)
    pids = _pids(directory)
    _rig(directory, "down")
    assert not directory.exists()
    assert not _alive(pids)


def test_an_interrupted_up_takes_itself_down(tmp_path, clean):
    directory = tmp_path / "rig"
    with subprocess.Popen([COMMAND, "up", "--nodes=1", f"--dir={directory}"]) as up:
        until((directory / "run" / "kube-apiserver").exists, 60, "the apiserver is started")
        pids = _pids(directory)
        up.terminate()
        assert up.wait(30) == 128 + signal.SIGTERM
    assert not _alive(pids)
    assert {path.name for path in directory.iterdir()} == {"lock", "logs"}


def test_a_rig_whose_directory_was_deleted_can_be_taken_down(tmp_path, clean):
    directory = tmp_path / "rig"
    _rig(directory, "up", "--nodes=1", "--node-kind=process")
    pids = _pids(directory)
    subprocess.run(["rm", "-rf", directory], check=True)
    _rig(directory, "down")
    assert not _alive(pids)


def test_two_rigs_side_by_side_do_not_meet(tmp_path, clean):
    one, two = tmp_path / "one", tmp_path / "two"
    kind = ("--nodes=1", "--node-kind=process")
    try:
        _rig(one, "up", *kind)
        _rig(two, "up", *kind)
        urls = {_server(directory) for directory in (one, two)}
        assert len(urls) == 2
        _rig(one, "down")
        assert "ended" not in _rig(two, "status")
    finally:
        _rig(one, "down")
        _rig(two, "down")


def test_without_root_it_says_so_and_exits_3(tmp_path, clean):
    tmp_path.chmod(0o777)
    directory = tmp_path / "rig"
    words = [sys.executable, "-c", AS_NOBODY, str(directory)]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert done.stderr == "kubernetes: nodes need root: run as root, or with --nodes 0\n"
    assert not directory.exists()


@pytest.mark.parametrize("program", ["containerd", "runc", "ip"])
def test_a_missing_program_is_named_and_exits_3(tmp_path, clean, program):
    directory, hidden = tmp_path / "rig", tmp_path / "hidden"
    hidden.write_text("")
    path = _output("sh", "-c", f"command -v {program}").strip()
    words = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"']
    words += [hidden, path, COMMAND, "up", "--nodes=1", f"--dir={directory}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert done.stderr == (
        f"kubernetes: {program} is not installed: run `tools/deps packages rig`\n"
    )
    assert not directory.exists()


def test_a_missing_kernel_feature_is_named_and_exits_3(tmp_path, clean):
    directory = tmp_path / "rig"
    hide = 'umount --lazy /sys/fs/cgroup/pids && exec "$@"'
    words = ["unshare", "--mount", "sh", "-c", hide, "sh", COMMAND, "up", f"--dir={directory}"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert done.stderr == "kubernetes: control group (v1) hierarchies are not mounted: pids\n"
    assert not directory.exists()


def test_a_recycled_pid_is_not_signalled(tmp_path):
    with subprocess.Popen(["sleep", "60"]) as stranger:
        recorded = Process("gone", stranger.pid, started=1, log=tmp_path / "log")
        assert not recorded.alive()
        recorded.signal(signal.SIGKILL)
        recorded.stop(grace=0)
        assert stranger.poll() is None
        stranger.kill()


AS_NOBODY = f"""
import os, sys
sys.path.insert(0, {str(tools.REPOSITORY / "test")!r})
from rig import cli
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
sys.argv = ["kubernetes", "up", "--nodes=1", "--dir=" + sys.argv[1]]
cli.main()
"""


def _rig(directory, *words):
    """Run a command of the rig that must succeed."""
    command = [COMMAND, *words, f"--dir={directory}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pids(directory):
    """Of every process recorded in the directory."""
    return [json.loads(path.read_text())["pid"] for path in (directory / "run").glob("[!.]*")]


def _alive(pids):
    return [pid for pid in pids if state_letter(pid) not in "ZX"]


def _server(directory):
    config = json.loads((directory / "kubeconfig").read_text())
    return config["clusters"][0]["cluster"]["server"]


def _output(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout
