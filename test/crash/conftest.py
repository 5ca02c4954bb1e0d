# SPDX-License-Identifier: Apache-2.0
"""One rig with a process node for all crashes, and how many of them are tried."""

import random
from pathlib import Path

import pytest

from kube import Kube
from operator_process import install
from rig import tools
from rig.cluster import Kubernetes


def pytest_addoption(parser):
    parser.addoption("--share", type=int, default=1, help="try one in so many calls [1: all]")
    parser.addoption("--seed", type=int, help="which of them [a new one each time]")
    parser.addoption("--rig-dir", type=Path, default=tools.REPOSITORY / "build" / "rig-crash")


def pytest_configure(config):
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(10**6)


def pytest_report_header(config):
    return f"crash: one in {config.option.share} calls, --seed {config.option.seed}"


@pytest.fixture(scope="session")
def cluster(request):
    rig = Kubernetes(request.config.getoption("--rig-dir"))
    rig.up(1, "process")
    made = Kube(rig.kubeconfig, rig)
    install(made)
    yield made
    rig.down()


@pytest.fixture
def chosen(request):
    """Of so many calls, the numbers to die at."""

    def choose(scenario, calls):
        share = request.config.option.share
        pick = random.Random(f"{request.config.option.seed} {scenario}")
        return sorted(pick.sample(range(1, calls + 1), max(1, calls // share)))

    return choose
