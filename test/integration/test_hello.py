# SPDX-License-Identifier: Apache-2.0
"""The real parts the other tests stand on: they start, they serve, and they are gone afterwards."""

import json
import subprocess
import sys
import textwrap

import kubernetes
import pytest

from rig import controlplane, etcd, process, tools
from rig.errors import RigError
from rig.wait import until


def put(cluster, key, value):
    """Whether a write was acknowledged; it is not while a leader is being elected."""
    try:
        cluster.etcdctl("put", key, value)
    except subprocess.CalledProcessError:
        return False
    return True


@pytest.mark.parametrize("version", ["3.5", "3.6", "3.7"])
def test_every_etcd_version_serves(tmp_path, version):
    with etcd.running(tmp_path, version=version) as cluster:
        cluster.etcdctl("put", "greeting", "hello")
        assert cluster.etcdctl("get", "greeting", "--print-value-only").strip() == "hello"
        status = json.loads(cluster.etcdctl("endpoint", "status", "-w", "json"))
        assert status[0]["Status"]["version"].startswith(f"{version}.")


def test_three_members_with_tls_survive_the_loss_of_one(tmp_path):
    with etcd.running(tmp_path, size=3, tls=True) as cluster:
        cluster.etcdctl("put", "k", "1")
        cluster.process(cluster.members[0]).stop(grace=0)
        until(lambda: put(cluster, "k", "2"), 20, "the others agree on a leader")
        cluster.start(cluster.members[0])
        assert cluster.etcdctl("get", "k", "--print-value-only").strip() == "2"


def test_a_real_apiserver_serves_the_official_client(control_plane):
    api = kubernetes.client.CoreV1Api(
        kubernetes.config.new_client_from_config(str(control_plane.kubeconfig))
    )
    api.create_namespaced_config_map("default", {"metadata": {"name": "hello"}, "data": {"a": "b"}})
    assert api.read_namespaced_config_map("hello", "default").data == {"a": "b"}
    assert api.api_client.call_api("/version", "GET", response_type="object")[0]["gitVersion"] == (
        "v1.34.4"
    )


def test_kubectl_talks_to_it(control_plane):
    kubectl = tools.binary("kubernetes", "kubectl")
    command = [kubectl, "--kubeconfig", control_plane.kubeconfig, "get", "namespaces", "-o", "name"]
    out = subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout
    assert "namespace/default" in out.split()


def test_a_failed_start_shows_the_log_and_leaves_nothing(tmp_path):
    processes = process.Processes(tmp_path, die_with_parent=True)
    cluster = etcd.Cluster(processes, flags=["--data-dir=/proc/nowhere"])
    with pytest.raises(RigError, match="ended while starting(.|\n)*/proc/nowhere"):
        cluster.start()
    assert not any(started.alive() for started in processes.all())


def test_no_process_outlives_a_killed_test_run(tmp_path):
    """A test run that is killed outright cannot clean up; the kernel does it."""
    script = f"""
        import sys, time
        sys.path.insert(0, {str(tools.REPOSITORY / "test")!r})
        from pathlib import Path
        from rig import etcd
        with etcd.running(Path({str(tmp_path)!r})):
            print("ready", flush=True)
            time.sleep(60)
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    (started,) = process.Processes(tmp_path).all()
    assert started.alive()
    child.kill()
    child.wait()
    until(lambda: not started.alive(), 10, "etcd is gone")


def test_a_control_plane_stops_with_its_block(tmp_path):
    with controlplane.running(tmp_path) as running:
        started = running.processes.all()
        assert len(started) >= 3 and all(p.alive() for p in started)
    assert not any(p.alive() for p in started)
