# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in real clusters, on request."""

import contextlib
import errno
import shutil
import signal
import subprocess

from rig import dns, tools, volumes
from rig.cgroups import ROOT, TRACKING, Group
from rig.errors import RigError

CHUNK = bytes(1 << 20)


def stop_dns(rig):
    rig.processes.get(dns.NAME).stop()


def start_dns(rig):
    rig.processes.restart(dns.NAME)
    dns.wait_ready(rig.processes, rig.instance.address)


def restart_apiserver(rig):
    """Stop the apiserver, start it again and wait until it is ready."""
    process = rig.processes.restart("kube-apiserver")
    process.wait_ready(rig.api.ready, 60)


def kill_pod(rig, namespace, name):
    """SIGKILL every process of the Pod's containers, as a crash or an OOM kill would."""
    _signal_pod(rig, namespace, name, signal.SIGKILL)


@contextlib.contextmanager
def frozen_pod(rig, namespace, name):
    """Every process of the Pod's containers stands still meanwhile."""
    _signal_pod(rig, namespace, name, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal_pod(rig, namespace, name, signal.SIGCONT)


def _signal_pod(rig, namespace, name, number):
    pod = rig.api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    identities = {
        status["containerID"].partition("://")[2]
        for status in pod["status"].get("containerStatuses", [])
        if status.get("containerID")
    }
    top = ROOT / TRACKING
    groups = (top / rig.instance.cgroup).rglob(f"pod{pod['metadata']['uid']}/*")
    reached = [
        Group(group.relative_to(top)).signal(number) for group in groups if group.name in identities
    ]
    if not any(reached):
        raise RigError(f"Pod {namespace}/{name} has no running process")


def lose_volume(rig, namespace, claim):
    """Empty the volume under whoever uses it."""
    for entry in _content(rig, namespace, claim).iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def fill_volume(rig, namespace, claim):
    """Leave no free byte on the volume; removing the file `filling` undoes it."""
    with (_content(rig, namespace, claim) / "filling").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(CHUNK)
        except OSError as full:
            if full.errno != errno.ENOSPC:
                raise


def drain(rig, node, seconds=120):
    """What an administrator does before maintenance. `kubectl uncordon` is the way back."""
    command = [tools.binary("kubernetes", "kubectl"), f"--kubeconfig={rig.kubeconfig}"]
    command += ["drain", node, f"--timeout={seconds}s", "--ignore-daemonsets", "--force"]
    command += ["--delete-emptydir-data"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise RigError(f"drain {node}: {done.stderr.strip()}")


def _content(rig, namespace, claim):
    return volumes.content(rig.processes, rig.api, namespace, claim)
