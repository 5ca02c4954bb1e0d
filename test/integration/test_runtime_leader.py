# SPDX-License-Identifier: Apache-2.0
"""Three candidates, one Lease: who may write, and how fast it changes hands.

The apiserver's audit log is the witness. A renewal was sent before the apiserver received it, so
a lease ends, by its holder's own clock, at the latest `lease` after the last renewal received.
"""

import contextlib
import json
import signal
import threading
import time

import pytest

import side_by_side
from fault.api_proxy import Fault, Proxy
from rig.api import ApiError
from rig.wait import until
from runtime_support import KeptApi, audited, configmap, is_write, pairs, received


@pytest.fixture(scope="module")
def ahead(request, control_plane, tmp_path_factory):
    """Waiting for leases to run out is most of it."""
    yield from side_by_side.run(request, tmp_path_factory, 8, control_plane)


class Election:
    """Candidates that are known to the apiserver by their own names, in their own namespace."""

    def __init__(self, control_plane, directory, name, duration, renew, retry):
        self.control_plane, self.directory, self.name = control_plane, directory, name
        self.duration, self.retry = duration, retry
        self.api = KeptApi(control_plane.kubeconfig)
        self.lease = f"/apis/coordination.k8s.io/v1/namespaces/{name}/leases/{name}"
        self.flags = [
            f"--namespaces={name}",
            f"--lease-namespace={name}",
            f"--lease={name}",
            f"--lease-duration={duration}s",
            f"--renew-deadline={renew}s",
            f"--retry-period={retry}s",
        ]

    def user(self, number):
        return f"{self.name}-{number}"

    def kubeconfig(self, number):
        return self.control_plane.user(self.user(number), group="system:masters")

    def candidate(self, number, kubeconfig=None):
        return pairs(
            kubeconfig or self.kubeconfig(number),
            self.directory / f"log-{number}",
            f"--identity={self.user(number)}",
            *self.flags,
        )

    def holder(self):
        try:
            return self.api.request("GET", self.lease)["spec"]["holderIdentity"]
        except (ApiError, KeyError):
            return None

    def wait_holder(self, accept, seconds, what):
        began = time.monotonic()
        until(lambda: accept(self.holder()), seconds, what, every=0.01)
        return time.monotonic() - began

    def late_writes(self, number):
        """Writes received after the lease of their sender had run out by its own clock."""
        last, late = 0.0, []
        for entry in audited(self.control_plane, self.user(number)):
            at = received(entry)
            if is_write(entry) and entry["objectRef"]["resource"] != "leases":
                if at > last + self.duration:
                    late.append(entry)
            elif entry["verb"] in ("patch", "create") and entry["responseStatus"]["code"] < 300:
                last = at
        return late


@contextlib.contextmanager
def election(control_plane, directory, name, duration, renew, retry):
    """With a source that changes all the time, so that whoever leads has something to write."""
    running = Election(control_plane, directory, name, duration, renew, retry)
    maps = f"/api/v1/namespaces/{name}/configmaps"
    running.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    running.api.request("POST", maps, configmap("busy", "source", name, n="0"))
    stop = threading.Event()

    def change():
        api, number = KeptApi(control_plane.kubeconfig), 0
        while not stop.wait(0.05):
            number += 1
            patch = {"data": {"n": str(number)}}
            api.request("PATCH", f"{maps}/busy", patch, "application/merge-patch+json")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield running
    finally:
        stop.set()
        thread.join()


def wait_copies(vote, number, seconds=10):
    """Until that candidate has written."""
    until(
        lambda: [
            e
            for e in audited(vote.control_plane, vote.user(number))
            if is_write(e) and e["objectRef"]["resource"] == "configmaps"
        ],
        seconds,
        f"candidate {number} writes",
    )


@side_by_side.scenario
def test_hand_over_with_the_real_timings(directory, control_plane):
    """15 s, 10 s and 2 s, as the operator uses them."""
    with (
        election(control_plane, directory, "real", 15, 10, 2) as vote,
        vote.candidate(1) as first,
    ):
        vote.wait_holder(lambda h: h == "real-1", 10, "the first leads")
        wait_copies(vote, 1)
        with vote.candidate(2) as second, vote.candidate(3) as third:
            second.wait_ready()
            third.wait_ready()
            time.sleep(3)
            assert vote.holder() == "real-1"
            first.process.kill()
            first.process.wait()
            after_kill = vote.wait_holder(lambda h: h in ("real-2", "real-3"), 25, "another leads")
            assert after_kill <= 15 + 2
            leader, other = (2, second), (3, third)
            if vote.holder() == "real-3":
                leader, other = other, leader
            wait_copies(vote, leader[0])
            code, stop_took = leader[1].stop()
            took = stop_took + vote.wait_holder(
                lambda h: h == vote.user(other[0]), 5, "the last one leads"
            )
            assert code == 0 and took < 1
            wait_copies(vote, other[0])
    for number in (1, 2, 3):
        assert vote.late_writes(number) == []
    return (
        f"hand-over after kill -9: {after_kill:.2f} s\n"
        f"hand-over after a clean stop: {took:.2f} s, of which {stop_took:.2f} s to stop"
    )


@side_by_side.scenario
def test_a_paused_leader_stops_and_its_late_write_is_refused(directory, control_plane):
    with (
        election(control_plane, directory, "paused", 4, 3, 1) as vote,
        Proxy(vote.kubeconfig(1), directory) as proxy,
        vote.candidate(1, proxy.kubeconfig) as first,
    ):
        vote.wait_holder(lambda h: h == "paused-1", 10, "the first leads")
        wait_copies(vote, 1)
        with vote.candidate(2) as second:
            second.wait_ready()
            # A write is under way when the process is paused: it arrives when all is over.
            held = Fault(hold=threading.Event())
            proxy.next(held, "PATCH", "/configmaps/busy-copy")
            asked = len(proxy.requests)
            until(
                lambda: [
                    r
                    for r in proxy.requests[asked:]
                    if r.method == "PATCH" and "busy-copy" in r.path
                ],
                10,
                "a write is under way",
                every=0.005,
            )
            first.process.send_signal(signal.SIGSTOP)
            took = vote.wait_holder(lambda h: h == "paused-2", 10, "the second leads")
            assert took <= 4 + 1
            wait_copies(vote, 2)
            time.sleep(4)
            held.hold.set()
            until(lambda: vote.late_writes(1), 10, "the late write arrived")
            first.process.send_signal(signal.SIGCONT)
            began = time.monotonic()
            assert first.process.wait(10) == 1
            took = time.monotonic() - began
            assert took < 1
            assert first.messages("leadership lost")
            assert second.process.poll() is None
    late = vote.late_writes(1)
    assert [e["responseStatus"]["code"] for e in late] == [409], late
    assert vote.late_writes(2) == []
    return f"a resumed ex-leader ended after {took:.2f} s"


@pytest.mark.parametrize("number", range(4))
@side_by_side.scenario
def test_pauses_at_random_never_let_a_write_out(directory, control_plane, number):
    """Stopped past the lease: what was not under way is not sent."""
    name = f"random-{number}"
    with election(control_plane, directory, name, 3, 2, 1) as vote, vote.candidate(1) as first:
        vote.wait_holder(lambda h: h == f"{name}-1", 10, "it leads")
        wait_copies(vote, 1)
        with vote.candidate(2) as second:
            second.wait_ready()
            time.sleep(0.13 * number)
            first.process.send_signal(signal.SIGSTOP)
            vote.wait_holder(lambda h: h == f"{name}-2", 10, "the other leads")
            time.sleep(1)
            first.process.send_signal(signal.SIGCONT)
            assert first.process.wait(10) == 1
    for candidate in (1, 2):
        late = [e for e in vote.late_writes(candidate) if e["responseStatus"]["code"] < 300]
        assert late == []


@side_by_side.scenario
def test_setting_the_date_changes_nothing(directory, control_plane):
    with (
        election(control_plane, directory, "dated", 3, 2, 1) as vote,
        vote.candidate(1) as first,
    ):
        vote.wait_holder(lambda h: h == "dated-1", 10, "the first leads")
        with vote.candidate(2) as second:
            second.wait_ready()
            for jump in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2):
                for process in (first, second):
                    process.process.send_signal(jump)
                for _ in range(40):
                    assert vote.holder() == "dated-1"
                    time.sleep(0.1)
            assert first.process.poll() is None
            first.process.kill()
            first.process.wait()
            took = vote.wait_holder(lambda h: h == "dated-2", 10, "the second leads")
            assert took <= 3 + 1
    assert vote.late_writes(1) == [] and vote.late_writes(2) == []


@side_by_side.scenario
def test_an_apiserver_out_of_reach_ends_leadership_in_time(directory, control_plane):
    with (
        election(control_plane, directory, "cut", 4, 2, 1) as vote,
        Proxy(vote.kubeconfig(1), directory) as proxy,
        vote.candidate(1, proxy.kubeconfig) as first,
    ):
        vote.wait_holder(lambda h: h == "cut-1", 10, "the first leads")
        wait_copies(vote, 1)
        body = json.dumps({"kind": "Status", "code": 503}).encode()
        for _ in range(400):
            proxy.next(Fault(status=503, body=body), part="/")
        began = time.monotonic()
        assert first.process.wait(15) == 1
        took = time.monotonic() - began
        assert took <= 2 + 1 + 1  # renew deadline, one period, one second to end
    assert vote.late_writes(1) == []
    return f"ended {took:.2f} s after the last answer"
