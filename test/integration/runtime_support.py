# SPDX-License-Identifier: Apache-2.0
"""The example controller (test/example/pairs.c) as a process, and the audit log as evidence."""

import contextlib
import datetime
import functools
import http.client
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request

from conftest import REPOSITORY
from rig import ports
from rig.api import Api, ApiError
from rig.wait import until

# The sanitized build of `make test-unit`; `make test-integration` builds it too.
PROGRAMS = REPOSITORY / "build" / "asan" / "test" / "example"
ROLE = "pairs.example/role"


def environment():
    kept = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and k != "KUBECONFIG"}
    return kept | {
        "ASAN_OPTIONS": "detect_stack_use_after_return=1",
        "UBSAN_OPTIONS": "halt_on_error=1",
    }


class Pairs:
    """One running controller."""

    def __init__(self, kubeconfig, log, *flags, program=PROGRAMS / "pairs"):
        self.address = f"127.0.0.1:{ports.free()}"
        self.health = f"127.0.0.1:{ports.free()}"
        self.log_path = log
        words = [program, f"--address={self.address}", f"--health={self.health}", *flags]
        if kubeconfig:
            words.append(f"--kubeconfig={kubeconfig}")
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                ["setarch", "--addr-no-randomize", *map(str, words)],
                stderr=output,
                stdin=subprocess.DEVNULL,
                env=environment(),
            )

    @property
    def pid(self):
        return self.process.pid

    def get(self, path, address=None):
        try:
            with urllib.request.urlopen(f"http://{address or self.address}{path}", timeout=5) as r:
                return r.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.read().decode()
        except OSError:
            return ""

    def views(self):
        return json.loads(self.get("/views") or "{}")

    def wait_ready(self, seconds=20):
        until(lambda: self.get("/readyz", self.health) == "ok", seconds, "the controller is ready")
        return self

    def lines(self):
        return [
            json.loads(line) for line in self.log_path.read_text().splitlines() if line[:1] == "{"
        ]

    def messages(self, text):
        return [line for line in self.lines() if line["msg"] == text]

    def stop(self, number=signal.SIGTERM, seconds=15):
        """Its exit code and how long it took."""
        began = time.monotonic()
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        return code, time.monotonic() - began


@contextlib.contextmanager
def pairs(kubeconfig, log, *flags):
    """A controller that must not have met a sanitizer finding when the block ends."""
    running = Pairs(kubeconfig, log, *flags)
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.process.send_signal(signal.SIGCONT)
            running.process.terminate()
            try:
                running.process.wait(10)
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()
        text = log.read_text()
        assert "Sanitizer" not in text and "runtime error" not in text, text[-4000:]


class KeptApi(Api):
    """For one thread that asks often: one connection instead of a handshake per request."""

    _connection = None

    def request(self, method, path, body=None, content_type="application/json"):
        if not self._connection:
            self._connection = http.client.HTTPSConnection(self._address, context=self._context)
        headers = {"Accept": "application/json", "Content-Type": content_type}
        text = None if body is None else json.dumps(body)
        self._connection.request(method, path, text, headers)
        answer = self._connection.getresponse()
        said = answer.read()
        if answer.status >= 300:
            raise ApiError(method, path, answer.status, said.decode().strip())
        return json.loads(said)


def configmap(name, role=None, namespace="default", **data):
    labels = {ROLE: role} if role else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "data": data,
    }


def data_hash(data):
    """FNV-1a of the sorted, compact text: what the controller's views hold of the data."""
    return fnv(json.dumps(data or {}, sort_keys=True, separators=(",", ":")))


@functools.cache
def fnv(text):
    value = 14695981039346656037
    for byte in text.encode():
        value = (value ^ byte) * 1099511628211 % 2**64
    return f"{value:016x}"


def audited(control_plane, user):
    """What the apiserver was asked by a user: finished requests, in order of arrival."""
    found, named = [], json.dumps(user)
    for line in control_plane.audit_log.read_text().splitlines():
        if named not in line:
            continue  # most are about others, and reading one costs more than looking for a name
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # the last line is being written
        if entry["user"].get("username") == user and entry["stage"] == "ResponseComplete":
            found.append(entry)
    return sorted(found, key=received)


def received(entry):
    return datetime.datetime.fromisoformat(entry["requestReceivedTimestamp"]).timestamp()


def is_write(entry):
    return entry["verb"] in ("create", "update", "patch", "delete")
