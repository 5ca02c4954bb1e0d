# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the program that started them, and are found and stopped again.

A process is recorded by pid *and* start time, so a recycled pid is never signalled; the record of
an ended process stays, because it says how to start it again. The child writes the record itself
before it executes the program: whoever kills the parent at any moment still finds everything that
runs. See `rig.state` for the lock that closes the remaining gap.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from rig.errors import RigError
from rig.wait import TimedOut, until

PR_SET_PDEATHSIG = 1
KILL_SECONDS = 10
_libc = ctypes.CDLL(None, use_errno=True)


def start_time(pid):
    """When a process started, in clock ticks since boot; None if there is no such process."""
    fields = _stat(pid)
    return int(fields[19]) if fields else None


def state_letter(pid):
    """The state of a process as `ps` shows it; X if there is no such process."""
    fields = _stat(pid)
    return fields[0] if fields else "X"


def _stat(pid):
    """The fields of /proc/PID/stat after the name, which may itself contain spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None


def catches(pid, number):
    """Whether it handles a signal by now: one that comes before just ends it."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (number - 1) & 1 == 1


@dataclass(frozen=True)
class Process:
    """One recorded process."""

    name: str
    pid: int
    started: int
    log: Path

    def born(self):
        """The wall time of its start, to a clock tick."""
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / os.sysconf("SC_CLK_TCK")
        return time.time() - age

    def alive(self):
        with self._handle() as fd:
            return fd is not None

    def signal(self, number):
        """Send a signal, unless the process is gone."""
        with self._handle() as fd, contextlib.suppress(ProcessLookupError):
            if fd is not None:
                signal.pidfd_send_signal(fd, number)

    def stop(self, grace=5.0):
        """TERM, then KILL after `grace` seconds; returns when the process is gone."""
        with self._handle() as fd, contextlib.suppress(ProcessLookupError):
            if fd is not None:
                if grace:
                    signal.pidfd_send_signal(fd, signal.SIGTERM)
                if not _exited(fd, grace):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
                if not _exited(fd, KILL_SECONDS):
                    raise RigError(f"{self.name} (pid {self.pid}) survived SIGKILL")
        # Collect the exit status if it was our own child.
        if start_time(self.pid) == self.started:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)

    @contextlib.contextmanager
    def _handle(self):
        """A pidfd of exactly this process, or None if it is gone."""
        try:
            fd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            yield None
            return
        try:
            same = start_time(self.pid) == self.started and not _exited(fd, 0)
            yield fd if same else None
        finally:
            os.close(fd)

    def tail(self, lines=20):
        """The end of the log, or all of it if `lines` is None."""
        try:
            text = self.log.read_text(errors="replace").splitlines()
            return "\n".join(text[-lines:] if lines else text)
        except OSError:
            return ""

    def wait_ready(self, ready, seconds):
        """Wait until `ready()` is true; fail with the end of the log if the process ends first."""

        def ready_or_dead():
            if not self.alive():
                raise RigError(f"{self.name} ended while starting:\n{self.tail()}")
            return ready()

        try:
            until(ready_or_dead, seconds, f"{self.name} is ready", every=0.05)
        except TimedOut as late:
            raise RigError(f"{late}\n{self.tail()}") from None


class Processes:
    """The processes of one directory: records in `run/`, output in `logs/`."""

    def __init__(self, directory, group=None, die_with_parent=False):
        """Every process starts in the control `group`, if there is one.

        `die_with_parent` is for tests: the kernel ends every process with the test run. It
        watches the *thread* that started the process, so start from the main thread.
        """
        self.directory = Path(directory)
        self.group = group
        self.die_with_parent = die_with_parent
        self._records = self.directory / "run"
        self._logs = self.directory / "logs"

    def start(self, name, argv):
        """Start a program under a name that nothing alive uses; output is appended to its log."""
        if (running := self.get(name)) and running.alive():
            raise RigError(f"{name} already runs with pid {running.pid}")
        self._records.mkdir(parents=True, exist_ok=True)
        self._logs.mkdir(exist_ok=True)
        words = [os.fspath(word) for word in argv]
        record, log, parent = self._records / name, self._logs / f"{name}.log", os.getpid()

        def enter():
            if self.die_with_parent:
                _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != parent:
                    os._exit(1)
            if self.group:
                self.group.enter()
            pid, draft = os.getpid(), record.with_name(f".{name}")
            draft.write_text(json.dumps({"pid": pid, "started": start_time(pid), "argv": words}))
            draft.rename(record)

        with log.open("ab") as output:
            _spawn(words, output.fileno(), enter)
        return self.get(name)

    def get(self, name):
        """The recorded process of that name, alive or not; None if there is no record."""
        record = self._records / name
        try:
            known = json.loads(record.read_text())
        except FileNotFoundError:
            return None
        return Process(name, known["pid"], known["started"], self._logs / f"{name}.log")

    def restart(self, name, grace=5.0):
        """Stop a recorded process if it runs, and start it again as it was started before."""
        known = json.loads((self._records / name).read_text())
        self.get(name).stop(grace)
        return self.start(name, known["argv"])

    def all(self):
        """Every recorded process."""
        names = sorted(path.name for path in self._records.glob("[!.]*"))
        return [process for name in names if (process := self.get(name))]

    def stop_all(self, grace=0.0):
        """Stop everything at once rather than one after the other."""
        processes = self.all()
        for process in processes:
            process.signal(signal.SIGTERM if grace else signal.SIGKILL)
        deadline = time.monotonic() + grace
        for process in processes:
            process.stop(grace=max(0.0, deadline - time.monotonic()))


def _spawn(words, output, enter):
    """Fork, `enter()` and execute in a new session. Returns once the program runs.

    Unlike `subprocess`, which wants every child to be waited for by whoever started it.
    """
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            enter()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.execvp(words[0], words)
        except (OSError, ValueError) as problem:
            os.write(writer, f"{words[0]}: {problem}".encode())
        finally:
            os._exit(127)
    os.close(writer)
    with open(reader) as failure:
        problem = failure.read()
    if problem:
        os.waitpid(pid, 0)
        raise RigError(problem)


def _exited(fd, seconds):
    """Whether the process behind a pidfd has ended, waiting up to `seconds` for it."""
    return bool(select.select([fd], [], [], seconds)[0])
