# SPDX-License-Identifier: Apache-2.0
"""`save` and `defrag` end by any signal at any moment: the old state or the new, and no litter.

The same of `restore` is in test_snapshot_restore.py.
"""

import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import time

import pytest

from rig import etcd, snapshots
from rig.process import catches
from rig.snapshots import Gateway, run, run_json
from rig.wait import until

SIGNALS = [signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
TOO_LATE = 3  # so many rounds came after the end: then the whole run was covered


def begun(*words):
    return subprocess.Popen(
        [snapshots.BINARY, "snapshot", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def rounds(*words, prepare):
    """Runs it again and again, and ends it later each time; yields the signal and the exit code."""
    prepare()
    begin = time.monotonic()
    assert begun(*words).wait() == 0
    takes = time.monotonic() - begin
    late = 0
    for step, number in enumerate(itertools.cycle(SIGNALS)):
        if late == TOO_LATE:
            return
        assert step < 400
        prepare()
        child = begun(*words)
        time.sleep(takes * (step + 1) / 30)
        child.send_signal(number)
        code = child.wait()
        late += code == 0
        yield number, code


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("before", [None, b"yesterday's"])
def test_save_leaves_a_whole_file_or_what_was_there(tmp_path, before):
    target = tmp_path / "out" / "s.db"
    target.parent.mkdir()

    def prepare():
        target.unlink(missing_ok=True)
        if before is not None:
            target.write_bytes(before)

    with etcd.running(tmp_path / "etcd") as cluster:
        gateway = Gateway(cluster.endpoints[0])
        for i in range(40):
            gateway.put(f"k{i}", os.urandom(1_000_000))
        words = ["save", target, f"--endpoints={cluster.endpoints[0]}"]
        killed = False  # and nobody has come as far as to clear up since
        for number, code in rounds(*words, prepare=prepare):
            found = target.read_bytes() if target.exists() else None
            if code == 0 or found != before:
                assert run_json("verify", target)["ok"]
            others = [p.name for p in target.parent.iterdir() if p != target]
            # A kill between its two last steps leaves the whole file, for the next run to remove.
            assert others in ([], [".s.db.tmp"]), number
            killed = bool(others) and (killed or number == signal.SIGKILL)
            if others:
                assert killed and before is not None, number
                assert run_json("verify", target.parent / others[0])["ok"]
        run(*words)
    assert list(target.parent.iterdir()) == [target]


def test_defrag_leaves_the_new_database_or_the_old(tmp_path):
    path, data = tmp_path / "s.db", tmp_path / "data"
    subprocess.run([snapshots.helper("bench/mkdb"), path, "60000", "500"], check=True)
    run("restore", path, f"--data-dir={data}")
    database = data / "member" / "snap" / "db"
    whole = shutil.copy(database, tmp_path / "whole")
    run("defrag", data)
    valid = {digest(whole), digest(database)}
    assert len(valid) == 2
    names = sorted(p.name for p in database.parent.iterdir())
    killed = False  # and nobody has come as far as to clear up since
    for number, _ in rounds("defrag", data, prepare=lambda: shutil.copy(whole, database)):
        assert digest(database) in valid
        left = sorted(p.name for p in database.parent.iterdir())
        killed = left != names and (killed or number == signal.SIGKILL)
        if left != names:
            assert killed, number
            assert left == sorted([*names, "db.tmp.defrag"])  # one, however often it is killed
    run("defrag", data)
    assert sorted(p.name for p in database.parent.iterdir()) == names
    assert run_json("status", data)["problems"] == []


@pytest.mark.parametrize("ignored", [False, True])
def test_a_hangup_ends_it_unless_it_was_told_to_stay(tmp_path, ignored):
    """As nohup does: a signal that is ignored from the start stays ignored."""
    stdin, hold = os.pipe()
    child = subprocess.Popen(
        [*(["nohup"] if ignored else []), snapshots.BINARY, "snapshot", "save"]
        + [tmp_path / "s.db", "--user=root", "--password-file=/dev/stdin", "--timeout=60s"],
        stdin=stdin,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(stdin)
    ends_it = signal.SIGTERM if ignored else signal.SIGHUP
    until(lambda: catches(child.pid, ends_it), 10, "it handles signals", every=0.01)
    child.send_signal(signal.SIGHUP)
    if ignored:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=0.5)
        child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=10)
    os.close(hold)
    assert child.returncode == 1 and "canceled" in said
