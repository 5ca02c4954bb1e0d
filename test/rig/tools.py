# SPDX-License-Identifier: Apache-2.0
"""Where the real binaries are. `tools/deps` builds and caches them; this only asks it."""

import functools
import subprocess
import sys
from pathlib import Path

from rig.errors import Missing

REPOSITORY = Path(__file__).resolve().parents[2]


def module(name):
    """The words that run a module of this package in a process of its own."""
    return ["env", f"PYTHONPATH={REPOSITORY / 'test'}", sys.executable, "-m", f"rig.{name}"]


@functools.cache
def directory(tool_set):
    """The directory of binaries of a set such as `etcd-3.6` or `kubernetes`."""
    command = [REPOSITORY / "tools" / "deps", "path", tool_set]
    asked = subprocess.run(command, check=False, capture_output=True, text=True)
    found = Path(asked.stdout.strip() or ".")
    if asked.returncode != 0 or not found.is_absolute() or not found.is_dir():
        raise Missing(f"{tool_set} is not in the tool cache: run `tools/deps tool {tool_set}`")
    return found


def binary(tool_set, name):
    """The path of one program of a set."""
    path = directory(tool_set) / name
    if not path.is_file():
        raise Missing(f"{tool_set} has no {name}: run `tools/deps tool {tool_set}`")
    return path
