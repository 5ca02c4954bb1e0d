# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes client against a real apiserver, through test/example/kube_probe.c."""

import base64
import json
import ssl
import subprocess
import threading
import time

import pytest

from fault import h2
from fault.api_proxy import Fault, Proxy
from rig.api import Api
from rig.definitions import definition
from rig.wait import until
from runtime_support import PROGRAMS, audited, configmap, environment

NAMESPACE = "client"
DEPLOYMENTS = {"group": "apps", "version": "v1", "plural": "deployments", "kind": "Deployment"}


class Probe:
    """Calls of our client: each answer is the object, or an `Error`."""

    def __init__(self, *words, env=None):
        self.process = subprocess.Popen(
            ["setarch", "--addr-no-randomize", PROGRAMS / "kube_probe", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | (env or {}),
        )

    def __call__(self, op, **fields):
        self.process.stdin.write(json.dumps({"op": op} | fields) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        answer = json.loads(line)
        if "error" in answer:
            return Error(answer["error"], answer["ms"])
        return answer["ok"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        code = self.process.wait(10)
        said = self.process.stderr.read()
        assert code == 0 and "Sanitizer" not in said, said


class Error:
    def __init__(self, fields, ms):
        self.code, self.reason, self.text = fields["code"], fields["reason"], fields["text"]
        self.retry_after_ms, self.ms = fields["retry_after_ms"], ms

    def __repr__(self):
        return f"{self.code} {self.text}"


@pytest.fixture(scope="module")
def api(control_plane):
    api = Api(control_plane.kubeconfig)
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    return api


@pytest.fixture(scope="module")
def probe(control_plane, api):
    with Probe(control_plane.kubeconfig) as probe:
        yield probe


def maps(**fields):
    return {"kind": "configmaps", "ns": NAMESPACE} | fields


def test_objects_come_and_go(probe):
    made = probe("create", **maps(object=configmap("a", None, NAMESPACE, x="1", y="2")))
    assert made["data"] == {"x": "1", "y": "2"}
    again = probe("create", **maps(object=configmap("a", None, NAMESPACE)))
    assert again.code == "EXISTS" and again.reason == "AlreadyExists"
    got = probe("get", **maps(name="a"))
    assert got["metadata"]["uid"] == made["metadata"]["uid"]
    assert probe("get", **maps(name="b")).code == "NOT_FOUND"

    patched = probe("patch", **maps(name="a", patch={"data": {"x": None, "z": "3"}}))
    assert patched["data"] == {"y": "2", "z": "3"}
    patch = [{"op": "replace", "path": "/data", "value": {"only": "this"}}]
    patched = probe(
        "patch", **maps(name="a", patch=patch, version=patched["metadata"]["resourceVersion"])
    )
    assert patched["data"] == {"only": "this"}
    for stale in ({"data": {"n": "1"}}, [{"op": "add", "path": "/data/n", "value": "1"}]):
        refused = probe(
            "patch", **maps(name="a", patch=stale, version=made["metadata"]["resourceVersion"])
        )
        assert refused.code == "CONFLICT" and refused.reason == "Conflict"
    invalid = probe("patch", **maps(name="a", patch={"data": {"not/allowed": "x"}}))
    assert invalid.code == "INVALID" and invalid.reason == "Invalid"

    assert probe("delete", **maps(name="a", uid="another")).code == "CONFLICT"
    assert probe("delete", **maps(name="a", version="1")).code == "CONFLICT"
    assert probe("delete", **maps(name="a", uid=made["metadata"]["uid"])) is None
    assert probe("delete", **maps(name="a")).code == "NOT_FOUND"
    for name in ("", ".", "..", "a/../b"):
        assert probe("get", **maps(name=name)).code in ("INVALID", "NOT_FOUND")


def test_lists_are_complete_whatever_the_page(probe, api):
    for i in range(25):
        labels = "source" if i % 2 else None
        api.request(
            "POST",
            f"/api/v1/namespaces/{NAMESPACE}/configmaps",
            configmap(f"l{i}", labels, NAMESPACE),
        )
    for page in (1, 7, 25, 26, 100):
        listed = probe("list", **maps(page=page, fields="metadata.name!=kube-root-ca.crt"))
        assert sorted(o["metadata"]["name"] for o in listed["items"]) == sorted(
            f"l{i}" for i in range(25)
        )
        assert int(listed["version"]) > 0
    assert len(probe("list", **maps(labels="pairs.example/role=source", page=5))["items"]) == 12
    assert probe("list", **maps(labels="not a selector")).code == "INVALID"


def test_status_scale_eviction_and_logs(probe, api):
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "c", "image": "example/none"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": spec,
    }
    at = {"kind": DEPLOYMENTS, "ns": NAMESPACE}
    assert probe("create", **at, object=deployment)["metadata"]["name"] == "d"
    assert probe("get_scale", **at, name="d") == 0
    assert probe("set_scale", **at, name="d", replicas=2) is None
    assert probe("get_scale", **at, name="d") == 2

    pods = until(
        lambda: probe("list", kind="pods", ns=NAMESPACE, labels="app=x")["items"], 20, "Pods exist"
    )
    name, uid = pods[0]["metadata"]["name"], pods[0]["metadata"]["uid"]
    pod = {"kind": "pods", "ns": NAMESPACE, "name": name}
    condition = {"type": "Tested", "status": "True"}
    patched = probe("patch", **pod, sub="status", patch={"status": {"conditions": [condition]}})
    assert patched["status"]["conditions"][0]["type"] == "Tested"
    assert probe("logs", **pod) == ""  # it runs nowhere: there is no log yet
    assert probe("evict", **pod, uid="another").code == "CONFLICT"

    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    probe("patch", **pod, sub="status", patch={"status": running})
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "x"}}},
    }
    probe("create", kind="poddisruptionbudgets", ns=NAMESPACE, object=budget)
    until(
        lambda: (
            probe("get", kind="poddisruptionbudgets", ns=NAMESPACE, name="b")
            .get("status", {})
            .get("observedGeneration")
        ),
        20,
        "the budget is observed",
    )
    refused = probe("evict", **pod, uid=uid)
    assert refused.code == "NOT_READY" and refused.reason == "DisruptionBudget"
    probe("delete", kind="poddisruptionbudgets", ns=NAMESPACE, name="b")
    assert probe("evict", **pod, uid=uid) is None
    probe("delete", **at, name="d", propagation=1)


def test_what_the_server_knows_and_allows(probe, control_plane):
    assert probe("has_kind", kind="leases") is True
    assert probe("has_kind", kind={"group": "none.example", "plural": "x", "kind": "X"}) is False
    item = {"type": "object", "properties": {"id": {"type": "string"}}}
    spec = {"type": "object", "properties": {"list": {"type": "array", "items": item}}}
    crd = definition("Field", "client.example", {"spec": spec})
    kind = {"group": "client.example", "version": "v1", "plural": "fields", "kind": "Field"}
    assert probe("has_field", kind=kind, field="spec").code == "NOT_FOUND"
    probe("create", kind="customresourcedefinitions", object=crd)
    for field, there in {
        "spec": True,
        "spec.list.[].id": True,
        "spec.list.[].no": False,
        "status": False,
    }.items():
        assert probe("has_field", kind=kind, field=field) is there
    until(lambda: probe("has_kind", kind=kind), 20, "the kind is served")
    assert probe("may", kind="pods", verb="create", ns=NAMESPACE) is True
    with Probe(control_plane.user("nobody")) as nobody:
        assert nobody("may", kind="pods", verb="create", ns=NAMESPACE) is False
        denied = nobody("list", **maps())
        assert denied.code == "DENIED" and denied.reason == "Forbidden"
        assert "the right to list configmaps in namespace client is missing" in denied.text
        denied = nobody("get", kind="pods", ns=NAMESPACE, name="x", sub="log")
        assert "the right to get pods/log in namespace client is missing" in denied.text


def test_faults_are_told_apart(control_plane, probe, tmp_path):
    def status(code, reason="", **more):
        body = json.dumps({"kind": "Status", "code": code, "reason": reason} | more).encode()
        return {"status": code, "body": body}

    with Proxy(control_plane.kubeconfig, tmp_path) as proxy, Probe(proxy.kubeconfig) as ours:
        ours("limit", ms=1000)
        make = maps(object=configmap("f", None, NAMESPACE))
        proxy.next(Fault(**status(429, "TooManyRequests"), headers={"Retry-After": "3"}))
        throttled = ours("create", **make)
        assert throttled.code == "THROTTLED" and throttled.retry_after_ms == 3000
        proxy.next(Fault(**status(503, "ServiceUnavailable", details={"retryAfterSeconds": 2})))
        assert ours("create", **make).retry_after_ms == 2000
        proxy.next(Fault(**status(500, "InternalError")))
        assert ours("create", **make).code == "OUTCOME_UNKNOWN"
        proxy.next(Fault(**status(500, "InternalError")))
        assert ours("get", **maps(name="f")).code == "UNAVAILABLE"
        proxy.next(Fault(**status(410, "Expired")))
        assert ours("list", **maps()).code == "EXPIRED"
        # What a kubelet says comes as it is.
        proxy.next(Fault(status=200, body=b"one\ntwo\n"), "GET", "/pods/p/log?")
        assert (
            ours("logs", kind="pods", ns=NAMESPACE, name="p", tail=2, container="c") == "one\ntwo\n"
        )
        assert "tailLines=2" in proxy.requests[-1].path and "container=c" in proxy.requests[-1].path
        # A list cut in the middle is no list.
        proxy.next(Fault(cut_after=300), "GET", "limit=")
        assert ours("list", **maps()).code in ("UNAVAILABLE", "CORRUPT")
        proxy.next(Fault(garble_after=200), "GET", "limit=")
        assert ours("list", **maps()).code == "CORRUPT"
        # Carried out, but nobody says so.
        proxy.next(Fault(drop_answer=True), "POST")
        assert ours("create", **make).code == "OUTCOME_UNKNOWN"
        assert ours("create", **make).code == "EXISTS"
        # Not answered in time: a read is a time-out, a write is unknown.
        for op, code in (("get", "TIMEOUT"), ("delete", "OUTCOME_UNKNOWN")):
            held = Fault(hold=threading.Event())
            proxy.next(held)
            late = ours(op, **maps(name="f"))
            assert late.code == code and 900 < late.ms < 1500
            held.hold.set()
        until(
            lambda: getattr(probe("get", **maps(name="f")), "code", "") == "NOT_FOUND",
            10,
            "it was deleted",
        )
    with Probe(proxy.kubeconfig) as ours:  # nobody listens there any more
        assert ours("create", **make).code == "UNAVAILABLE"


def edit(control_plane, tmp_path, cluster=None, user=None, name="edited"):
    config = json.loads(control_plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"].update(cluster or {})
    if user is not None:
        config["users"][0]["user"] = user
    path = tmp_path / f"{name}.kubeconfig"
    path.write_text(json.dumps(config))
    return path


def test_the_server_has_to_convince(control_plane, tmp_path):
    wrong_name = edit(control_plane, tmp_path, {"tls-server-name": "other.example"})
    with Probe(wrong_name) as ours:
        refused = ours("get", kind="namespaces", name="default")
        assert refused.code == "DENIED" and "other.example" in refused.text
    right_name = edit(control_plane, tmp_path, {"tls-server-name": "kubernetes.default.svc"})
    with Probe(right_name) as ours:
        assert ours("get", kind="namespaces", name="default")["metadata"]["name"] == "default"
    other = control_plane.authority.__class__(tmp_path / "other-pki")
    ca = base64.b64encode(other.cert.read_bytes()).decode()
    with Probe(edit(control_plane, tmp_path, {"certificate-authority-data": ca})) as ours:
        assert ours("get", kind="namespaces", name="default").code == "DENIED"
    config = json.loads(control_plane.kubeconfig.read_text())
    del config["clusters"][0]["cluster"]["certificate-authority-data"]
    bare = tmp_path / "bare.kubeconfig"
    bare.write_text(json.dumps(config))
    with Probe(bare) as ours:  # the system's authorities did not sign it
        assert ours("get", kind="namespaces", name="default").code == "DENIED"


def test_http2_is_spoken_where_it_is_offered(control_plane, tmp_path):
    """The server knows nothing else: what is not HTTP/2 gets no answer from it."""
    pair = control_plane.authority.issue("h2", "h2", hosts=["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    context.set_alpn_protocols(["h2", "http/1.1"])

    def created(c):
        c.headers((":status", "201"), ("content-type", "application/json"))
        c.data(json.dumps(configmap("made", x="1")).encode(), end=True)

    with (
        h2.server(created, tls=context) as (url, seen),
        Probe(edit(control_plane, tmp_path, {"server": url})) as ours,
    ):
        for _ in range(3):
            made = ours("create", **maps(object=configmap("made", None, NAMESPACE)))
            assert made["data"] == {"x": "1"}
        assert seen == [1, 3, 5], "three streams of one connection"


def token_for(api, name):
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    api.request("POST", accounts, {"metadata": {"name": name}})
    return api.request("POST", f"{accounts}/{name}/token", {"spec": {}})["status"]["token"]


def test_tokens_rotate_and_plugins_are_asked(control_plane, api, tmp_path):
    ask = {"kind": "configmaps", "ns": NAMESPACE, "name": "none"}
    first, second = token_for(api, "first"), token_for(api, "second")
    (tmp_path / "token").write_text(first)
    path = edit(control_plane, tmp_path, user={"tokenFile": "token"})
    with Probe(path) as ours:
        assert f"system:serviceaccount:{NAMESPACE}:first" in ours("get", **ask).text
        (tmp_path / "next").write_text(second)
        (tmp_path / "next").rename(tmp_path / "token")
        assert f"system:serviceaccount:{NAMESPACE}:second" in ours("get", **ask).text

    # The account of a Pod.
    account = tmp_path / "account"
    account.mkdir()
    (account / "token").write_text(first)
    (account / "ca.crt").write_bytes(control_plane.authority.cert.read_bytes())
    host, _, port = control_plane.url.removeprefix("https://").partition(":")
    env = {
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": port,
        "ACCOUNT_DIR": str(account),
    }
    with Probe(env=env) as ours:
        assert f"system:serviceaccount:{NAMESPACE}:first" in ours("get", **ask).text

    # A plugin whose first token is refused is asked again, once.
    (tmp_path / "credential").write_text("stale")
    plugin = tmp_path / "plugin"
    plugin.write_text(
        "#!/bin/sh\n"
        f"token=$(cat {tmp_path}/credential)\n"
        f"echo run >>{tmp_path}/runs\n"
        f"cp {tmp_path}/token {tmp_path}/credential\n"
        'printf \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"%s"}}\' "$token"\n'
    )
    plugin.chmod(0o700)
    spec = {"command": "./plugin", "apiVersion": "client.authentication.k8s.io/v1"}
    with Probe(edit(control_plane, tmp_path, user={"exec": spec})) as ours:
        for _ in range(3):
            assert f"system:serviceaccount:{NAMESPACE}:second" in ours("get", **ask).text
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


def test_one_connection_is_kept(control_plane, api):
    """Calls in a row do not connect anew, and speak HTTP/2."""
    name = "kept"
    with Probe(control_plane.user(name, group="system:masters")) as ours:
        began = time.monotonic()
        for _ in range(100):
            ours("get", kind="namespaces", name="default")
        each = (time.monotonic() - began) / 100
    entries = until(
        lambda: len(found := audited(control_plane, name)) >= 100 and found, 10, "audited"
    )
    assert len(entries) == 100
    assert each < 0.05, f"{each * 1000:.1f} ms per call"
