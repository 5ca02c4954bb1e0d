# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of the runtime share: a real control plane, and /proc."""

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "test"))
BUILD = REPOSITORY / "build" / "bench"
RUNTIME = BUILD / "bench" / "bench_runtime"
INFORMER = BUILD / "informer"


def build(peer=True):
    """The release build of our programs, and the Go peer from its pinned modules."""
    options = ["-Dtests=true", "--buildtype=release", "--optimization=2"]
    subprocess.run(["tools/configure", BUILD, *options], cwd=REPOSITORY, check=True)
    programs = ["bench/bench_runtime", "bench/bench_etcd"]
    subprocess.run(["ninja", "-C", BUILD, "--quiet", *programs], cwd=REPOSITORY, check=True)
    if peer:
        env = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
        words = [
            "go",
            "build",
            "-mod=readonly",
            "-trimpath",
            "-buildvcs=false",
            "-o",
            INFORMER,
            ".",
        ]
        subprocess.run(words, cwd=REPOSITORY / "bench/peers/informer", env=env, check=True)


def memory_kib(pid, field):
    """VmRSS, VmHWM (the peak), RssAnon."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise KeyError(field)


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


class Program:
    """A program that prints "synced SECONDS COUNT" and stays."""

    def __init__(self, *words):
        self.process = subprocess.Popen(
            [str(w) for w in words], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        self.pid = self.process.pid
        said = self.process.stdout.readline().split()
        assert said and said[0] == "synced", said
        self.synced, self.count = float(said[1]), int(said[2])

    def stop(self):
        self.process.terminate()
        self.process.wait(20)
