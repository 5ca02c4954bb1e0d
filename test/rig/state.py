# SPDX-License-Identifier: Apache-2.0
"""The state directory of a rig: what was asked for, and the lock every command takes.

A process forked by `rig.process` holds the lock too, until it has recorded itself and executes
its program. So whoever gets the lock after `up` was killed sees a record of everything it started.
"""

import contextlib
import fcntl
import json
import os
import shutil
from pathlib import Path

from rig.errors import RigError
from rig.wait import TimedOut, until

LOCK_SECONDS = 60


class State:
    """One state directory, named by its real path."""

    def __init__(self, directory):
        self.directory = Path(directory).resolve()
        self._facts = self.directory / "rig.json"

    def facts(self):
        """What `up` wrote when it was done; None if it never was."""
        try:
            return json.loads(self._facts.read_text())
        except FileNotFoundError:
            return None

    def finish(self, facts):
        """Say that the rig is up."""
        draft = self._facts.with_suffix(".part")
        draft.write_text(json.dumps(facts))
        draft.rename(self._facts)

    def clear(self, keep_logs=False):
        """Forget everything; from the first step on the rig no longer counts as up."""
        self._facts.unlink(missing_ok=True)
        for entry in self.directory.iterdir():
            if entry.name == "lock" or (keep_logs and entry.name == "logs"):
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    @contextlib.contextmanager
    def locked(self):
        """One command at a time. The directory goes away with the lock if nothing else is in it."""
        lock = self.directory / "lock"
        with contextlib.ExitStack() as stack:
            try:
                until(lambda: self._lock(lock, stack), LOCK_SECONDS, "")
            except TimedOut:
                raise RigError(f"another command is at work in {self.directory}") from None
            yield
            if os.listdir(self.directory) == ["lock"]:
                lock.unlink()
                self.directory.rmdir()

    def _lock(self, path, stack):
        """Lock the file that has the name *now*: the one opened may have been removed meanwhile."""
        self.directory.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                stack.enter_context(file)
                return True
        except (BlockingIOError, FileNotFoundError):
            pass
        file.close()
        return False
