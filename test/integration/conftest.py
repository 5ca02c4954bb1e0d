# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: our binary, and one control plane for all of them."""

import os
import subprocess
from pathlib import Path

import pytest

from rig import controlplane

REPOSITORY = Path(__file__).resolve().parents[2]
BINARY = REPOSITORY / "build" / "raftsman"


@pytest.fixture(scope="session")
def raftsman():
    """Runs our binary: raftsman("convert", "quantity", "1Gi").stdout."""

    def run(*words, program=BINARY, env=None, text=None, timeout=30):
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSMAN_")}
        return subprocess.run(
            [str(program), *map(str, words)],
            input=text,
            env=inherited | (env or {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    return run


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory):
    """A real etcd 3.6.11 with a real kube-apiserver and controller-manager on loopback."""
    with controlplane.running(tmp_path_factory.mktemp("control-plane")) as running:
        yield running
