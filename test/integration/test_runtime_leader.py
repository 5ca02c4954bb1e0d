# SPDX-License-Identifier: Apache-2.0
"""Three candidates, one Lease: who may write, and how fast it changes hands.

The apiserver's audit log is the witness. A renewal was sent before the apiserver received it, so
a lease ends, by its holder's own clock, at the latest `lease` after the last renewal received.
"""

import json
import signal
import threading
import time

import pytest

from fault.api_proxy import Fault, Proxy
from rig.api import Api
from rig.wait import until
from runtime_support import audited, configmap, is_write, pairs, received

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
MAPS = "/api/v1/namespaces/default/configmaps"


class Election:
    """Candidates that are known to the apiserver by their own names."""

    def __init__(self, control_plane, tmp_path, name, duration, renew, retry):
        self.control_plane, self.directory, self.name = control_plane, tmp_path, name
        self.duration, self.retry = duration, retry
        self.api = Api(control_plane.kubeconfig)
        self.flags = [
            "--namespaces=default",  # what others left elsewhere is not ours to copy
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
            return self.api.request("GET", f"{LEASES}/{self.name}")["spec"]["holderIdentity"]
        except Exception:
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


@pytest.fixture
def changing(control_plane):
    """A source that changes all the time, so that whoever leads has something to write."""
    api, stop = Api(control_plane.kubeconfig), threading.Event()
    api.request("POST", MAPS, configmap("busy", "source", n="0"))

    def change():
        number = 0
        while not stop.wait(0.05):
            number += 1
            api.request(
                "PATCH",
                f"{MAPS}/busy",
                {"data": {"n": str(number)}},
                "application/merge-patch+json",
            )

    thread = threading.Thread(target=change)
    thread.start()
    yield api
    stop.set()
    thread.join()
    api.request("DELETE", f"{MAPS}/busy")


def wait_copies(election, number, seconds=10):
    """Until that candidate has written."""
    until(
        lambda: [
            e
            for e in audited(election.control_plane, election.user(number))
            if is_write(e) and e["objectRef"]["resource"] == "configmaps"
        ],
        seconds,
        f"candidate {number} writes",
    )


@pytest.mark.timeout(180)
def test_hand_over_with_the_real_timings(control_plane, changing, tmp_path):
    """15 s, 10 s and 2 s, as the operator uses them."""
    election = Election(control_plane, tmp_path, "real", 15, 10, 2)
    with election.candidate(1) as first:
        election.wait_holder(lambda h: h == "real-1", 10, "the first leads")
        wait_copies(election, 1)
        with election.candidate(2) as second, election.candidate(3) as third:
            second.wait_ready()
            third.wait_ready()
            time.sleep(3)
            assert election.holder() == "real-1"
            first.process.kill()
            first.process.wait()
            took = election.wait_holder(lambda h: h in ("real-2", "real-3"), 25, "another leads")
            print(f"hand-over after kill -9: {took:.2f} s")
            assert took <= 15 + 2
            leader, other = (2, second), (3, third)
            if election.holder() == "real-3":
                leader, other = other, leader
            wait_copies(election, leader[0])
            code, stop_took = leader[1].stop()
            took = stop_took + election.wait_holder(
                lambda h: h == election.user(other[0]), 5, "the last one leads"
            )
            print(f"hand-over after a clean stop: {took:.2f} s, of which {stop_took:.2f} s to stop")
            assert code == 0 and took < 1
            wait_copies(election, other[0])
    for number in (1, 2, 3):
        assert election.late_writes(number) == []


@pytest.mark.timeout(180)
def test_a_paused_leader_stops_and_its_late_write_is_refused(control_plane, changing, tmp_path):
    election = Election(control_plane, tmp_path, "paused", 4, 3, 1)
    with (
        Proxy(election.kubeconfig(1), tmp_path) as proxy,
        election.candidate(1, proxy.kubeconfig) as first,
    ):
        election.wait_holder(lambda h: h == "paused-1", 10, "the first leads")
        wait_copies(election, 1)
        with election.candidate(2) as second:
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
            took = election.wait_holder(lambda h: h == "paused-2", 10, "the second leads")
            assert took <= 4 + 1
            wait_copies(election, 2)
            time.sleep(4)
            held.hold.set()
            until(lambda: election.late_writes(1), 10, "the late write arrived")
            first.process.send_signal(signal.SIGCONT)
            began = time.monotonic()
            assert first.process.wait(10) == 1
            took = time.monotonic() - began
            print(f"a resumed ex-leader ended after {took:.2f} s")
            assert took < 1
            assert first.messages("leadership lost")
            assert second.process.poll() is None
    late = election.late_writes(1)
    assert [e["responseStatus"]["code"] for e in late] == [409], late
    assert election.late_writes(2) == []


@pytest.mark.timeout(180)
def test_pauses_at_random_never_let_a_write_out(control_plane, changing, tmp_path):
    """Stopped past the lease, again and again: what was not under way is not sent."""
    election = Election(control_plane, tmp_path, "random", 3, 2, 1)
    for round_number in range(4):
        first, second = 10 + round_number * 2, 11 + round_number * 2
        with election.candidate(first) as a:
            election.wait_holder(lambda h, n=first: h == election.user(n), 10, "it leads")
            wait_copies(election, first)
            with election.candidate(second) as b:
                b.wait_ready()
                time.sleep(0.13 * round_number)
                a.process.send_signal(signal.SIGSTOP)
                election.wait_holder(
                    lambda h, n=second: h == election.user(n), 10, "the other leads"
                )
                time.sleep(1)
                a.process.send_signal(signal.SIGCONT)
                assert a.process.wait(10) == 1
        for number in (first, second):
            late = [e for e in election.late_writes(number) if e["responseStatus"]["code"] < 300]
            assert late == []


@pytest.mark.timeout(120)
def test_setting_the_date_changes_nothing(control_plane, changing, tmp_path):
    election = Election(control_plane, tmp_path, "dated", 3, 2, 1)
    with election.candidate(1) as first:
        election.wait_holder(lambda h: h == "dated-1", 10, "the first leads")
        with election.candidate(2) as second:
            second.wait_ready()
            for jump in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR2):
                for process in (first, second):
                    process.process.send_signal(jump)
                for _ in range(40):
                    assert election.holder() == "dated-1"
                    time.sleep(0.1)
            assert first.process.poll() is None
            first.process.kill()
            first.process.wait()
            took = election.wait_holder(lambda h: h == "dated-2", 10, "the second leads")
            assert took <= 3 + 1
    assert election.late_writes(1) == [] and election.late_writes(2) == []


@pytest.mark.timeout(120)
def test_an_apiserver_out_of_reach_ends_leadership_in_time(control_plane, changing, tmp_path):
    election = Election(control_plane, tmp_path, "cut", 4, 2, 1)
    with (
        Proxy(election.kubeconfig(1), tmp_path) as proxy,
        election.candidate(1, proxy.kubeconfig) as first,
    ):
        election.wait_holder(lambda h: h == "cut-1", 10, "the first leads")
        wait_copies(election, 1)
        body = json.dumps({"kind": "Status", "code": 503}).encode()
        for _ in range(400):
            proxy.next(Fault(status=503, body=body), part="/")
        began = time.monotonic()
        assert first.process.wait(15) == 1
        took = time.monotonic() - began
        print(f"ended {took:.2f} s after the last answer")
        assert took <= 2 + 1 + 1  # renew deadline, one period, one second to end
    assert election.late_writes(1) == []
