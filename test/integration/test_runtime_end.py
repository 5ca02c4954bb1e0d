# SPDX-License-Identifier: Apache-2.0
"""Stopping, events, and the rights that are needed: no more, and no less."""

import base64
import json
import threading
import time

import pytest

from fault.api_proxy import Fault, Proxy
from rig.api import Api
from rig.wait import until
from runtime_support import audited, configmap, is_write, pairs

MAPS = "/api/v1/namespaces/{}/configmaps"
RIGHTS = [  # (group, resource, verbs): what the example controller is given
    ("", "configmaps", ("create", "delete", "get", "list", "patch", "watch")),
    ("coordination.k8s.io", "leases", ("create", "get", "patch", "watch")),
    ("events.k8s.io", "events", ("create", "patch")),
]
FAST = ("--lease-duration=4s", "--renew-deadline=3s", "--retry-period=1s")


@pytest.fixture(scope="module")
def api(control_plane):
    return Api(control_plane.kubeconfig)


@pytest.fixture
def namespace(api, request):
    """The test's own: what others left behind would be work for the controller, too."""
    name = request.node.name.replace("_", "-")[-63:].strip("-")
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def test_a_stop_waits_for_the_write_under_way(control_plane, api, namespace, tmp_path):
    path = MAPS.format(namespace)
    with (
        Proxy(control_plane.kubeconfig, tmp_path) as proxy,
        pairs(proxy.kubeconfig, tmp_path / "log", f"--namespaces={namespace}") as running,
    ):
        running.wait_ready()
        slow = Fault(hold=threading.Event())
        proxy.next(slow, "POST", path)
        api.request("POST", path, configmap("stop", "source", namespace, a="1"))
        until(lambda: [r for r in proxy.requests if r.method == "POST"], 10, "a write is under way")
        running.process.terminate()
        began = time.monotonic()
        time.sleep(1)
        assert running.process.poll() is None
        slow.hold.set()
        assert running.process.wait(5) == 0
        assert time.monotonic() - began < 2.5
        assert api.request("GET", f"{path}/stop-copy")["data"] == {"a": "1"}


def test_a_stop_does_not_wait_for_ever(control_plane, api, namespace, tmp_path):
    path = MAPS.format(namespace)
    flags = (f"--namespaces={namespace}", "--lease=stop", f"--lease-namespace={namespace}", *FAST)
    with (
        Proxy(control_plane.kubeconfig, tmp_path) as proxy,
        pairs(proxy.kubeconfig, tmp_path / "log", *flags) as running,
    ):
        running.wait_ready()
        proxy.next(Fault(hold=threading.Event()), "POST", path)
        api.request("POST", path, configmap("stuck", "source", namespace, a="1"))
        until(
            lambda: [r for r in proxy.requests if r.path == path and r.method == "POST"],
            10,
            "a write is under way",
        )
        code, seconds = running.stop()
        assert code == 0 and seconds < 5


def test_a_thousand_occurrences_are_a_handful_of_writes(control_plane, api, namespace, tmp_path):
    path = MAPS.format(namespace)
    user = control_plane.user("noisy", group="system:masters")
    with pairs(user, tmp_path / "log", f"--namespaces={namespace}", "--emit=1000") as running:
        running.wait_ready()
        api.request("POST", path, configmap("noisy", "source", namespace, a="1"))

        def events():
            found = api.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
            return [e for e in found["items"] if e["regarding"].get("name") == "noisy"]

        until(events, 10, "there is an event")
        time.sleep(1)
        code, seconds = running.stop()  # what was only counted is written now
        assert code == 0 and seconds < 5
        (event,) = events()
        assert event["reason"] == "Copied" and event["action"] == "Copy"
        assert event["series"]["count"] >= 1000
        assert event["reportingController"] == "pairs"
    writes = [
        e
        for e in audited(control_plane, "noisy")
        if is_write(e) and e["objectRef"]["resource"] == "events"
    ]
    print(f"{len(writes)} writes for {event['series']['count']} occurrences")
    assert len(writes) <= 5


class Account:
    """A ServiceAccount with exactly these rights, and a kubeconfig with its token."""

    def __init__(self, control_plane, api, tmp_path, namespace):
        self.api, self.namespace = api, namespace
        self.name = f"system:serviceaccount:{namespace}:pairs"
        api.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        api.request("POST", accounts, {"metadata": {"name": "pairs"}})
        token = api.request("POST", f"{accounts}/pairs/token", {"spec": {}})["status"]["token"]
        (tmp_path / "token").write_text(token)
        config = {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [
                {
                    "name": "a",
                    "cluster": {
                        "server": control_plane.url,
                        "certificate-authority-data": base64.b64encode(
                            control_plane.authority.cert.read_bytes()
                        ).decode(),
                    },
                }
            ],
            "users": [{"name": "a", "user": {"tokenFile": "token"}}],
        }
        self.kubeconfig = tmp_path / "account.kubeconfig"
        self.kubeconfig.write_text(json.dumps(config))
        roles = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
        self.role = f"{roles}/roles/pairs"
        api.request(
            "POST", f"{roles}/roles", {"metadata": {"name": "pairs"}, "rules": rules(RIGHTS)}
        )
        api.request(
            "POST",
            f"{roles}/rolebindings",
            {
                "metadata": {"name": "pairs"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "Role",
                    "name": "pairs",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "pairs", "namespace": namespace}],
            },
        )

    def grant(self, rights):
        self.api.request(
            "PATCH", self.role, {"rules": rules(rights)}, "application/merge-patch+json"
        )


def rules(rights):
    return [{"apiGroups": [g], "resources": [r], "verbs": sorted(v)} for g, r, v in rights if v]


def exercise(control_plane, account, tmp_path, log, done):
    """Everything the controller can do: create, follow, delete a copy; lead; say so."""
    api, path = account.api, MAPS.format(account.namespace)
    with pairs(
        account.kubeconfig,
        tmp_path / log,
        f"--namespaces={account.namespace}",
        "--lease=pairs",
        f"--lease-namespace={account.namespace}",
        "--emit=2",
        "--paged",
        *FAST,
    ) as running:
        api.request("POST", path, configmap("r", "source", account.namespace, a="1"))
        try:
            until(lambda: done(running, "created"), 20, "created")
            api.request("PATCH", f"{path}/r", {"data": {"a": "2"}}, "application/merge-patch+json")
            until(lambda: done(running, "followed"), 20, "followed")
            # Only the controller removes the copy now: its owner is not gone, but unlabelled.
            labels = {"metadata": {"labels": {"pairs.example/role": None}}}
            api.request("PATCH", f"{path}/r", labels, "application/merge-patch+json")
            until(lambda: done(running, "removed"), 20, "removed")
        finally:
            for name in ("r", "r-copy"):
                try:
                    api.request("DELETE", f"{path}/{name}")
                except Exception:
                    pass
        return running.lines(), running.stop()


def used_rights(control_plane, user):
    """From the audit log, in the words of RBAC."""
    used = set()
    for entry in audited(control_plane, user):
        about = entry["objectRef"]
        used.add((about.get("apiGroup", ""), about["resource"], entry["verb"]))
    return used


def forget_lease(account):
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{account.namespace}/leases"
    for lease in account.api.request("GET", leases)["items"]:
        account.api.request("DELETE", f"{leases}/{lease['metadata']['name']}")


@pytest.mark.timeout(300)
def test_every_right_is_needed_and_none_is_missing(control_plane, api, tmp_path):
    account = Account(control_plane, api, tmp_path, "rights")
    path = MAPS.format(account.namespace)

    def copy():
        try:
            return api.request("GET", f"{path}/r-copy")["data"]["a"]
        except Exception:
            return None

    wanted = {"created": "1", "followed": "2", "removed": None}
    # Another one leads meanwhile, so that the Lease is watched as well.
    with pairs(
        account.kubeconfig,
        tmp_path / "standby",
        f"--namespaces={account.namespace}",
        "--lease=pairs",
        f"--lease-namespace={account.namespace}",
        "--emit=2",
        *FAST,
    ) as first:
        first.wait_ready()
        lines, _ = exercise(
            control_plane, account, tmp_path, "all", lambda running, step: copy() == wanted[step]
        )
    assert not [line for line in lines if line["level"] in ("warn", "error")], lines
    granted = {(g, r, v) for g, r, verbs in RIGHTS for v in verbs}
    # A watch is in the log when its connection is closed, which is after the process ended.
    until(
        lambda: used_rights(control_plane, account.name) == granted,
        15,
        f"exactly the rights are used: {granted}",
    )

    # One right less at a time: one line says which.
    for group, resource, verb in sorted(granted):
        if (resource, verb) in (("leases", "watch"), ("events", "create"), ("events", "patch")):
            continue  # done without: polled instead, and not worth a line
        account.grant(
            [
                (g, r, set(v) - ({verb} if (g, r) == (group, resource) else set()))
                for g, r, v in RIGHTS
            ]
        )
        forget_lease(account)
        full = f"{resource}.{group}" if group else resource
        text = f"the right to {verb} {full} in namespace rights is missing"

        def complained(running, text=text):
            return [line for line in running.lines() if text in line.get("error", "")]

        def done(running, step, complained=complained):
            return complained(running) or (step != "removed" and copy() == wanted[step])

        log = f"without-{verb}-{resource}"
        lines, _ = exercise(control_plane, account, tmp_path, log, done)
        said = [line for line in lines if text in line.get("error", "")]
        assert len(said) == 1, (text, lines)
    account.grant(RIGHTS)
