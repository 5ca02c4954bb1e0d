# SPDX-License-Identifier: Apache-2.0
"""Views equal a fresh list, whatever happens to the stream between us and the apiserver."""

import concurrent.futures
import json
import os
import random
import sys
import threading
import time

import pytest

from fault.api_proxy import Fault, Proxy
from rig.api import Api, ApiError
from rig.definitions import definition
from rig.wait import until
from runtime_support import ROLE, KeptApi, configmap, data_hash, pairs

ROUNDS = 200
# Side by side, because most of the time all of them wait: how lists are read, and whether the
# namespaces are named, which makes a source of each.
MODES = (("streamed", False), ("paged", False), ("streamed", True), ("paged", True))
NAMESPACES = ("watch-a", "watch-b")


@pytest.fixture(scope="module")
def api(control_plane):
    api = Api(control_plane.kubeconfig)
    for name in NAMESPACES:
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return api


def labelled(api, path="/api/v1/configmaps", field="data"):
    """What the views must be: key → (version, hash)."""
    listed = api.request("GET", f"{path}?labelSelector={ROLE}")
    return {
        f"{o['metadata']['namespace']}/{o['metadata']['name']}": {
            "version": o["metadata"]["resourceVersion"],
            "data": data_hash(o.get(field)),
        }
        for o in listed["items"]
    }


def in_step(api, running, namespaces):
    """Others work in other namespaces of the same apiserver."""

    views = running.views()["configmaps"]["views"]
    listed = {}
    for namespace in namespaces:
        listed |= labelled(api, f"/api/v1/namespaces/{namespace}/configmaps")
    return {k: v for k, v in views.items() if k.partition("/")[0] in namespaces} == listed


class Writer:
    """Creates, changes, relabels and deletes at random, as somebody else would."""

    def __init__(self, api, rnd, namespaces):
        self.api, self.rnd, self.namespaces = api, rnd, namespaces
        self.names = set()

    def path(self, key=None):
        namespace, _, name = (key or "/").partition("/")
        return f"/api/v1/namespaces/{namespace}/configmaps" + (f"/{name}" if name else "")

    def step(self):
        rnd = self.rnd
        role = rnd.choice(("source", "other", "other", None))
        kind = rnd.choice(("create", "create", "update", "update", "relabel", "delete"))
        if kind == "create" or not self.names:
            namespace = rnd.choice(self.namespaces)
            name = f"o{rnd.randrange(10**6)}"
            made = configmap(
                name, role, namespace, n=str(rnd.randrange(1000)), pad="x" * rnd.randrange(3000)
            )
            self.api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", made)
            self.names.add(f"{namespace}/{name}")
            return
        key = rnd.choice(sorted(self.names))
        if kind == "delete":
            self.api.request("DELETE", self.path(key))
            self.names.remove(key)
        elif kind == "update":
            self.patch(key, {"data": {"n": str(rnd.randrange(1000))}})
        else:  # it may leave the selector, or come into it
            self.patch(key, {"metadata": {"labels": {ROLE: role}}})

    def patch(self, key, patch):
        self.api.request("PATCH", self.path(key), patch, "application/merge-patch+json")


def gone(proxy):
    """The next watch is told that its version is too old, in one of the two ways."""
    event = {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}
    text = json.dumps(event).encode() + b"\n"
    proxy.next(Fault(status=200, body=text), "GET", "resourceVersion=")
    proxy.cut_streams()


def refuse(proxy, status, **headers):
    body = json.dumps({"kind": "Status", "code": status, "message": "told to"}).encode()
    for _ in range(2):
        proxy.next(Fault(status=status, body=body, headers=headers), "GET", "watch=true")
    proxy.cut_streams()


FAULTS = {
    "nothing": lambda proxy, rnd: None,
    "cut": lambda proxy, rnd: proxy.cut_streams(),
    "truncated": lambda proxy, rnd: proxy.truncate_streams(rnd.randrange(1, 1500)),
    "garbled": lambda proxy, rnd: proxy.garble_streams(rnd.randrange(0, 1500)),
    "delayed": lambda proxy, rnd: proxy.slow_streams(0.1),
    "silent": lambda proxy, rnd: proxy.silence_streams(),
    "gone event": lambda proxy, rnd: gone(proxy),
    "gone answer": lambda proxy, rnd: refuse(proxy, 410),
    "throttled": lambda proxy, rnd: refuse(proxy, 429, **{"Retry-After": "1"}),
    "broken": lambda proxy, rnd: refuse(proxy, 500),
    "list cut": lambda proxy, rnd: (
        proxy.next(Fault(cut_after=rnd.randrange(1, 20000)), "GET", "sendInitialEvents"),
        proxy.next(Fault(cut_after=rnd.randrange(1, 20000)), "GET", "limit="),
        gone(proxy),
    ),
}


def whole_in_step(api, running, named):
    """Nothing of anybody else's is left over or missing either."""
    views = running.views()["configmaps"]["views"]
    listed = labelled(api)
    if named:
        listed = {k: v for k, v in listed.items() if k.partition("/")[0] in named}
    return views == listed


def rounds(control_plane, directory, number, seed, all_done):
    """One controller behind one proxy, and two namespaces that nobody else writes to."""
    mode, named = MODES[number]
    rnd = random.Random(seed)
    api = KeptApi(control_plane.kubeconfig)
    namespaces = [f"rounds-{number}-{letter}" for letter in "ab"]
    for name in namespaces:
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    writer = Writer(api, rnd, namespaces)
    flags = ["--paged"] if mode == "paged" else []
    flags += [f"--namespaces={','.join(namespaces)}"] if named else []
    authority = control_plane.authority if mode == "paged" else None
    with (
        Proxy(control_plane.kubeconfig, directory, f"proxy-{number}", authority) as proxy,
        pairs(
            proxy.kubeconfig, directory / f"log-{number}", "--idle-limit=1s", "--debug", *flags
        ) as running,
    ):
        running.wait_ready()
        names = list(FAULTS)
        for at in range(ROUNDS // len(MODES)):
            fault = rnd.choice(names)
            before = rnd.randrange(3)
            for _ in range(before):
                writer.step()
            FAULTS[fault](proxy, rnd)
            for _ in range(rnd.randrange(1, 5)):
                writer.step()
            what = f"{mode} views equal a fresh list after round {at} ({fault}), seed {seed}"
            until(lambda: in_step(api, running, namespaces), 20, what, every=0.03)
            proxy.clear()
        assert running.process.poll() is None
        lists = [
            r
            for r in proxy.requests
            if ("limit=" in r.path) == (mode == "paged") and r.method == "GET"
        ]
        assert lists
        all_done.wait(300)  # nobody writes any more: now the whole can be compared
        what = f"{mode} views equal a fresh list of everything, seed {seed}"
        until(lambda: whole_in_step(api, running, namespaces if named else None), 20, what)
        all_done.wait(60)
    for key in writer.names:
        api.request("DELETE", writer.path(key))


@pytest.mark.timeout(600)
def test_views_equal_a_fresh_list(control_plane, tmp_path):
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    all_done = threading.Barrier(len(MODES))

    def lane(number):
        try:
            rounds(control_plane, tmp_path, number, seed + number, all_done)
        except BaseException:
            all_done.abort()
            raise

    with concurrent.futures.ThreadPoolExecutor(len(MODES)) as pool:
        problems = [each.exception() for each in [pool.submit(lane, n) for n in range(len(MODES))]]
    for problem in problems:
        if problem and not isinstance(problem, threading.BrokenBarrierError):
            raise problem
    assert problems == [None] * len(MODES)


CRD = definition(
    "Thing",
    "pairs.example",
    {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
)
THINGS = "/apis/pairs.example/v1/namespaces/watch-a/things"


@pytest.fixture(scope="module")
def things(api):
    api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)

    def served():
        try:
            return api.request("GET", THINGS)
        except ApiError:
            return False

    until(served, 20, "the kind is served")


def thing(name, spec, **annotations):
    return {
        "apiVersion": "pairs.example/v1",
        "kind": "Thing",
        "metadata": {"name": name, "labels": {ROLE: "other"}, "annotations": annotations},
        "spec": spec,
    }


def nested(depth):
    sys.setrecursionlimit(10000)  # json.dumps() needs it to write this
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def raw(name, spec, version):
    """An event as no real apiserver would send it."""
    return (
        '{"type":"ADDED","object":{"apiVersion":"pairs.example/v1","kind":"Thing","metadata":'
        f'{{"name":"{name}","namespace":"watch-a","labels":{{"{ROLE}":"other"}},'
        f'"resourceVersion":"{version}","uid":"00000000-0000-0000-0000-000000000001"}},'
        f'"spec":{spec}}}}}\n'
    ).encode()


def test_poison_is_quarantined_and_the_others_flow_on(control_plane, api, things, tmp_path):
    stored = {
        "deep": thing("deep", nested(3000)),
        "huge": thing("huge", {"blob": "x" * 1_450_000}),
        "refused": thing("refused", {"unprojectable": True}),
    }
    injected = {
        "number": '{"n":1e999}',
        "integer": '{"n":123456789012345678901234567890}',
        "escape": '{"s":"\\ud800"}',
        "twice": '{"a":1,"a":2}',
    }
    with (
        Proxy(control_plane.kubeconfig, tmp_path) as proxy,
        pairs(proxy.kubeconfig, tmp_path / "log", "--things") as running,
    ):
        running.wait_ready()

        def state():
            return running.views()["things"]

        def wait_views(*names):
            wanted = {f"watch-a/{name}" for name in names}
            until(lambda: set(state()["views"]) == wanted, 15, f"views are {names}: {state()}")

        api.request("POST", THINGS, thing("first", {"n": 1}))
        # A NUL in a string is legal, and read.
        api.request("POST", THINGS, thing("nul", {"s": "a\0b"}, note="a\0b"))
        for body in stored.values():
            api.request("POST", THINGS, body)
        api.request("POST", THINGS, thing("second", {"n": 2}))
        wait_views("first", "nul", "second")
        version = max(int(v["version"]) for v in state()["views"].values())
        (stream,) = proxy.open_streams("/things")
        for name, spec in injected.items():
            stream.inject.append(raw(name, spec, version))
        bad = {f"watch-a/{name}" for name in [*stored, *injected]}
        until(lambda: set(state()["quarantined"]) == bad, 15, "all are in quarantine")
        api.request("POST", THINGS, thing("third", {"n": 3}))
        wait_views("first", "nul", "second", "third")
        gauge = 'raftsman_quarantined_objects{kind="things"} 7\n'
        until(lambda: gauge in running.get("/metrics"), 15, "the gauge says so")

        # The resume point moved past them: nothing is read again after a cut.
        asked = len(proxy.requests)
        proxy.cut_streams()

        def again_asked():
            return [r.path for r in proxy.requests[asked:] if "/things" in r.path]

        until(again_asked, 15, "the watch is back")
        again = again_asked()
        assert len(again) == 1 and "resourceVersion=" in again[0], again
        assert "sendInitialEvents" not in again[0]

        # Repaired, or gone.
        repair = json.dumps({"spec": {"unprojectable": None}})
        api.request(
            "PATCH", f"{THINGS}/refused", json.loads(repair), "application/merge-patch+json"
        )
        api.request("DELETE", f"{THINGS}/huge")
        api.request("DELETE", f"{THINGS}/deep")
        wait_views("first", "nul", "second", "third", "refused")
        left = {f"watch-a/{name}" for name in injected}
        until(lambda: set(state()["quarantined"]) == left, 15, "the rest left quarantine")
        # A fresh list does not name what was injected.
        gone(proxy)
        until(lambda: not state()["quarantined"], 15, "quarantine is empty")

    # The same objects met in a list, streamed or by pages.
    for body in stored.values():
        if body["metadata"]["name"] != "refused":
            api.request("POST", THINGS, body)
    for flags in [[], ["--paged"]]:
        with pairs(
            control_plane.kubeconfig, tmp_path / f"log{len(flags)}", "--things", *flags
        ) as running:
            running.wait_ready()
            found = running.views()["things"]
            assert set(found["quarantined"]) == {"watch-a/deep", "watch-a/huge"}
            assert len(found["views"]) == 5
    for name in ("first", "nul", "second", "third", "refused", "deep", "huge"):
        api.request("DELETE", f"{THINGS}/{name}")


def test_pairs_are_kept_in_step(control_plane, api, tmp_path):
    path = "/api/v1/namespaces/watch-b/configmaps"

    def copy_of(name):
        try:
            return api.request("GET", f"{path}/{name}-copy")["data"]
        except ApiError as missing:
            return missing.status

    with pairs(
        control_plane.kubeconfig, tmp_path / "log", "--namespaces=watch-a,watch-b"
    ) as running:
        running.wait_ready()
        api.request("POST", path, configmap("s", "source", "watch-b", a="1"))
        until(lambda: copy_of("s") == {"a": "1"}, 10, "the copy is made")
        api.request(
            "PATCH", f"{path}/s", {"data": {"a": None, "b": "2"}}, "application/merge-patch+json"
        )
        until(lambda: copy_of("s") == {"b": "2"}, 10, "the copy follows")
        api.request("PATCH", f"{path}/s-copy", {"data": {"b": "3"}}, "application/merge-patch+json")
        until(lambda: copy_of("s") == {"b": "2"}, 10, "an edit of the copy is undone")
        api.request("DELETE", f"{path}/s")
        until(lambda: copy_of("s") == 404, 10, "the copy goes with its source")
        until(lambda: running.views()["configmaps"]["views"] == {}, 10, "nothing is left")
        time.sleep(1)
        code, seconds = running.stop()
        assert code == 0 and seconds < 5
        assert not [line for line in running.lines() if line["level"] in ("warn", "error")]
