# SPDX-License-Identifier: Apache-2.0
"""A watch of everything stays complete, ordered and without repeats, come what may."""

import json
import random
import signal
import subprocess
import threading
import time

import pytest

import etcd_programs
from fault import proxy
from rig import etcd

FAST = ("--unsafe-no-fsync",)


def revision(cluster):
    answer = cluster.etcdctl("get", "none", "-w", "json")
    return json.loads(answer)["header"]["revision"]


def finish(process, timeout):
    out, err = process.communicate(timeout=timeout)
    assert process.returncode == 0, err[-4000:]
    return json.loads(out)


@pytest.mark.parametrize(
    ("version", "events"), [("3.6", 100_000), ("3.5", 20_000), ("3.7", 20_000)]
)
def test_many_events_through_restarts_and_compactions(tmp_path, version, events):
    seed = random.randrange(1 << 30)
    dice = random.Random(seed)
    with (
        etcd.running(tmp_path, version=version, flags=FAST) as cluster,
        proxy.before(cluster.endpoints[0]) as between,
    ):
        member = cluster.members[0]
        writer = etcd_programs.start(
            "etcd_try", "write", "--endpoints", cluster.endpoints[0], "--count", events,
            stdin=subprocess.PIPE,
        )  # fmt: skip
        followers = [
            etcd_programs.start(
                "etcd_try", "follow", "--endpoints", between.url, "--rev", 2,
                "--count", 1 << 40, "--timeout-ms", 6000,
            )
            for _ in range(2)
        ]  # fmt: skip
        restarts = compactions = 0
        certain = ["kill", "compact"]
        while writer.poll() is None:
            time.sleep(dice.uniform(0.2, 1.0))
            act = dice.choice(["kill", "stop", "compact", "compact", "cut", "cut"])
            act = certain.pop() if certain else act
            if act == "kill":
                cluster.process(member).signal(signal.SIGKILL)
            if act in ("kill", "stop"):
                cluster.process(member).stop(2)
                cluster.start(member)
                restarts += 1
            elif act == "cut":
                between.reset()
            else:
                try:
                    # Usually behind the watchers, now and then ahead of them.
                    cluster.etcdctl("compact", str(revision(cluster) - dice.choice([0, 50, 500])))
                    compactions += 1
                except subprocess.CalledProcessError:  # compacted already, or not so far yet
                    certain += ["compact"] if compactions == 0 else []
            if not certain and writer.stdin:  # a fast machine has written it all by now
                writer.stdin.close()
                writer.stdin = None  # or communicate() would flush it
        written = finish(writer, 10)
        last = revision(cluster)
        results = [finish(follower, 60) for follower in followers]
        print(f"seed {seed}: {restarts} restarts, {compactions} compactions, {written}, {results}")
        assert written["acknowledged"] >= events and restarts > 0 and compactions > 0
        for seen in results:
            assert seen["holes"] == 0 and seen["repeats"] == 0, f"seed {seed}: {seen}"
            assert seen["misplaced"] == 0, f"seed {seed}: {seen}"
            assert seen["next"] == last + 1, f"seed {seed}: stopped at {seen}"
            assert "deadline exceeded" in seen["error"], seen  # nothing more to come: the clean end
            if seen["expired"] == 0:
                assert seen["events"] >= written["acknowledged"], f"seed {seed}: {seen}"


def test_a_transaction_that_comes_in_fragments_survives_cuts_inside_it(tmp_path):
    with (
        etcd.running(tmp_path, flags=FAST) as cluster,
        proxy.before(cluster.endpoints[0]) as between,
    ):
        where = ["--endpoints", cluster.endpoints[0]]
        written = json.loads(
            etcd_programs.run(
                "etcd_try", "write-large", *where, "--count", 12, "--timeout-ms", 60000
            )
        )
        stop, cuts = threading.Event(), []

        def cut():
            """Ever later in the stream, so that every round gets further than the one before."""
            allowed = 1_700_000
            while not stop.is_set():
                if between.forwarded > allowed:
                    between.reset()
                    cuts.append(between.forwarded)
                    between.forwarded = 0
                    allowed += 300_000
                time.sleep(0.001)

        cutter = threading.Thread(target=cut)
        cutter.start()
        try:
            out = etcd_programs.run(
                "etcd_try", "follow", "--endpoints", between.url, "--rev", 2, "--count", 13
            )
        finally:
            stop.set()
            cutter.join()
        seen = json.loads(out)
        print(f"cut after {cuts}: {seen}")
        assert seen["holes"] == seen["repeats"] == seen["misplaced"] == 0, seen
        assert seen["events"] >= written["events"] - 100, "the last one may still be coming in"
        assert seen["partial"] > 0 and len(cuts) > 1


def test_a_compaction_ahead_of_the_watch_is_one_expiry_with_its_revision(tmp_path):
    with etcd.running(tmp_path, flags=FAST) as cluster:
        etcd_programs.run("etcd_try", "write", "--endpoints", cluster.endpoints[0], "--count", 2000)
        last = revision(cluster)
        cluster.etcdctl("compact", str(last - 10))
        seen = json.loads(
            etcd_programs.run(
                "etcd_try",
                "follow",
                "--endpoints",
                cluster.endpoints[0],
                "--rev",
                2,
                "--count",
                last,
            )
        )
        assert seen["expired"] == 1 and seen["holes"] == 0 and seen["next"] == last + 1


def test_a_half_open_connection_is_found_by_pings_and_the_watch_goes_on(tmp_path):
    with (
        etcd.running(tmp_path, flags=FAST) as cluster,
        proxy.before(cluster.endpoints[0]) as between,
    ):
        follower = etcd_programs.start(
            "etcd_try", "follow", "--endpoints", between.url, "--rev", 2, "--count", 3,
            "--timeout-ms", 30000, "--keepalive-ms", 5000,
        )  # fmt: skip
        cluster.etcdctl("put", "a", "1")
        time.sleep(1)
        between.silent = True
        stuck = between._pairs[:]
        cluster.etcdctl("put", "b", "1")
        time.sleep(3)
        between.silent = False
        between._pairs.clear()  # the old connection stays silent for ever
        for pair in stuck:
            for end in pair:
                end.detach()
        began = time.monotonic()
        seen = finish(follower, 30)
        assert seen["events"] == 2 and seen["holes"] == 0 and seen["repeats"] == 0
        assert time.monotonic() - began < 12
