# SPDX-License-Identifier: Apache-2.0
"""Real etcd: one member or a static cluster, of any version in the tool cache."""

import contextlib
import functools
import json
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from rig import ports, tools
from rig.pki import Authority, client_context
from rig.process import Processes

START_SECONDS = 30


@dataclass(frozen=True)
class Member:
    """What is fixed about a member: stopping and starting it again changes nothing here."""

    name: str
    client_url: str
    peer_url: str
    data: Path


class Cluster:
    """A static cluster on one address. Nothing runs until `start`."""

    def __init__(
        self,
        processes,
        *,
        size=1,
        version="3.6",
        address="127.0.0.1",
        tls=False,
        flags=(),
        name="etcd",
    ):
        """With `tls`, clients and peers need a certificate of `authority`, such as `client`.

        `flags` are passed to every member as they are.
        """
        self.version = version
        self.authority = self.client = self._context = None
        self._processes = processes
        self._flags = list(flags)
        directory = processes.directory / name
        if tls:
            self.authority = Authority(directory / "pki")
            self.client = self.authority.issue("client", "root")
            self._context = client_context(self.authority.cert, self.client)
            self._server = self.authority.issue("server", "etcd", hosts=["localhost", address])
        scheme = "https" if tls else "http"
        names = [name] if size == 1 else [f"{name}-{ordinal}" for ordinal in range(size)]
        self.members = [
            Member(
                name=member,
                client_url=f"{scheme}://{address}:{ports.free(address)}",
                peer_url=f"{scheme}://{address}:{ports.free(address)}",
                data=directory / f"{member}.data",
            )
            for member in names
        ]

    @property
    def endpoints(self):
        return [member.client_url for member in self.members]

    def start(self, *members):
        """Start the given members, or all, and wait until each serves linearizable reads."""
        for member in members or self.members:
            self._processes.start(member.name, self._argv(member))
        for member in members or self.members:
            ready = functools.partial(self.healthy, member)
            self.process(member).wait_ready(ready, START_SECONDS)

    def process(self, member):
        """The process of a member, to be stopped or signalled."""
        return self._processes.get(member.name)

    def stop(self, grace=2.0):
        for member in self.members:
            if process := self.process(member):
                process.stop(grace)

    def healthy(self, member):
        """Whether the member answers `/health`, which is a linearizable read."""
        try:
            url = f"{member.client_url}/health"
            with urllib.request.urlopen(url, timeout=2, context=self._context) as answer:
                return json.load(answer)["health"] == "true"
        except OSError:
            return False

    def etcdctl(self, *words, timeout=30):
        """Run etcdctl of the same version against all members and return what it prints."""
        command = [tools.binary(f"etcd-{self.version}", "etcdctl")]
        command += ["--endpoints", ",".join(self.endpoints)]
        if self.client:
            command += ["--cacert", self.authority.cert]
            command += ["--cert", self.client.cert, "--key", self.client.key]
        return subprocess.run(
            [*command, *words], capture_output=True, text=True, check=True, timeout=timeout
        ).stdout

    def _argv(self, member):
        peers = ",".join(f"{peer.name}={peer.peer_url}" for peer in self.members)
        argv = [
            tools.binary(f"etcd-{self.version}", "etcd"),
            f"--name={member.name}",
            f"--data-dir={member.data}",
            f"--listen-client-urls={member.client_url}",
            f"--advertise-client-urls={member.client_url}",
            f"--listen-peer-urls={member.peer_url}",
            f"--initial-advertise-peer-urls={member.peer_url}",
            f"--initial-cluster={peers}",
        ]
        if self.authority:
            for prefix in "", "peer-":
                argv += [
                    f"--{prefix}client-cert-auth",
                    f"--{prefix}trusted-ca-file={self.authority.cert}",
                    f"--{prefix}cert-file={self._server.cert}",
                    f"--{prefix}key-file={self._server.key}",
                ]
        return argv + self._flags


@contextlib.contextmanager
def running(directory, **options):
    """A cluster for a test; it ends with the block, and at the latest with the test run."""
    processes = Processes(directory, die_with_parent=True)
    try:
        cluster = Cluster(processes, **options)
        cluster.start()
        yield cluster
    finally:
        processes.stop_all()
