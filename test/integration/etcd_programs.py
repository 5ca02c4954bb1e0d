# SPDX-License-Identifier: Apache-2.0
"""The C programs of the etcd tests, built with sanitizers: a leak fails the test."""

import os
import subprocess
from pathlib import Path

PROGRAMS = Path(__file__).resolve().parents[2] / "build" / "asan" / "test" / "integration"
SANITIZERS = {
    "ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}


def command(program, *words):
    """The address layout is fixed because this generation of sanitizers needs it (tools/unit)."""
    return ["setarch", "--addr-no-randomize", str(PROGRAMS / program), *map(str, words)]


def start(program, *words, **options):
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("RAFTSMAN_")}
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(
        command(program, *words), env=inherited | SANITIZERS, text=True, **options
    )


def run(program, *words, timeout=120):
    """Runs to the end and fails with what it said if it does not succeed."""
    process = start(program, *words)
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{program} hangs; it said: {err[-2000:]}") from None
    assert process.returncode == 0, err[-4000:]
    return out


def client_options(cluster, *, certificate=True):
    """How to reach a rig cluster."""
    words = ["--endpoints", ",".join(cluster.endpoints)]
    if cluster.authority:
        words += ["--cacert", cluster.authority.cert]
        if certificate:
            words += ["--cert", cluster.client.cert, "--key", cluster.client.key]
    return words
