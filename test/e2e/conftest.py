# SPDX-License-Identifier: Apache-2.0
"""Clusters by name, a namespace per test, and what is kept when a test fails."""

import contextlib
import re
import shutil
import uuid
from pathlib import Path

import pytest
from kubernetes.client import ApiException

from etcdclusters import EtcdCluster
from kube import Kube
from operator_process import Operator, install
from rig import tools
from rig.cluster import Kubernetes
from rig.wait import until

BUILD = tools.REPOSITORY / "build"


def pytest_addoption(parser):
    parser.addoption("--cluster", default="kubernetes", help="the fixture tests get as `cluster`")
    parser.addoption("--nodes", type=int, default=3, help="real ones of the rig [3]")
    parser.addoption("--rig-dir", type=Path, default=BUILD / "rig", help="of the rig [build/rig]")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and (cluster := item.funcargs.get("cluster")):
        _keep_evidence(cluster, item.name)


@pytest.fixture(scope="session")
def kubernetes(request):
    """The rig with real nodes."""
    yield from _rig(request, request.config.getoption("--nodes"), "kubelet")


@pytest.fixture(scope="session")
def processes(request):
    """The rig with one node that runs Pods as plain processes: for loops, not for proof."""
    yield from _rig(request, 1, "process")


def _rig(request, nodes, kind):
    """A rig that is already up is used as it is and left up."""
    rig = Kubernetes(request.config.getoption("--rig-dir"))
    mine = not rig.running()
    rig.up(nodes, kind)
    yield Kube(rig.kubeconfig, rig)
    if mine:
        rig.down()


@pytest.fixture(scope="session")
def cluster(request):
    """The cluster named by `--cluster`."""
    return request.getfixturevalue(request.config.getoption("--cluster"))


@contextlib.contextmanager
def own_namespace(cluster):
    """One that can hold Pods at once."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    cluster.create(None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster.wait_account(name)
    yield name
    cluster.core.delete_namespace(name)


@pytest.fixture
def namespace(cluster):
    """A namespace of the test's own."""
    with own_namespace(cluster) as name:
        yield name


@pytest.fixture(scope="module")
def installed(cluster):
    """CRDs and rights."""
    install(cluster)
    return cluster


@pytest.fixture(scope="module")
def operator(installed, tmp_path_factory):
    running = Operator(installed, tmp_path_factory.mktemp("operator")).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def clusters_of_three(operator, installed):
    """Those that the tests of a module have used so far, in a namespace of their own."""
    made = []
    with own_namespace(installed) as name:
        yield lambda: _usable(made, installed, name)
        for each in made:
            each.delete()
        for each in made:  # while there is an operator to let its members go
            until(lambda gone=each: not gone.all_members(), 60, f"{each.name} is gone")


def _usable(made, cluster, namespace):
    """The last one, if the test before left it whole; otherwise a new one."""
    if not made or not made[-1].complete(3):
        made.append(EtcdCluster(cluster, namespace, f"three-{len(made)}").create(3))
    last = made[-1].wait(3)
    until(lambda: len(last.pods()) == 3, 60, "Pods that had to go are gone")
    return last


@pytest.fixture
def three(clusters_of_three):
    """A complete cluster of three, shared, to be left as it was: creation takes long."""
    return clusters_of_three()


@pytest.fixture
def unmanaged(installed, namespace):
    """A cluster yet to be created, and nobody who looks after it."""
    made = EtcdCluster(installed, namespace)
    yield made
    try:
        made.delete()
    except ApiException as error:
        assert error.status == 404


@pytest.fixture
def etcd(operator, unmanaged):
    """A cluster yet to be created; it goes before its namespace and its operator do.

    A namespace that is still terminating when the API server restarts may be finalized with
    members in it that nobody can let go any more.
    """
    yield unmanaged
    with contextlib.suppress(ApiException):  # deleted by the test
        unmanaged.delete()
    until(lambda: not unmanaged.all_members(), 60, "its members are gone")


def _keep_evidence(cluster, test):
    """Objects, events and logs of everything, into build/test-logs/<test>/."""
    directory = BUILD / "test-logs" / re.sub(r"[^\w.-]", "_", test)
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    kinds = "nodes,pods,services,endpointslices,pvc,pv,pdb,events"
    (directory / "objects.yaml").write_text(cluster.kubectl("get", kinds, "-A", "-o", "yaml"))
    (directory / "objects.txt").write_text(cluster.kubectl("get", kinds, "-A", "-o", "wide"))
    logs = {"logs": cluster.rig.state.directory / "logs"}
    logs |= {name: node.directory / "log" / "pods" for name, node in cluster.rig.nodes.items()}
    for name, source in logs.items():
        # Pods come and go meanwhile: what cannot be copied is no reason to lose the rest.
        with contextlib.suppress(OSError):
            shutil.copytree(source, directory / name)
