# SPDX-License-Identifier: Apache-2.0
"""Our CRDs on a real API server: what they refuse, what they keep, and that they are current."""

import copy
import json
import runpy
import time

import kubernetes
import pytest
import urllib3
import yaml

from conftest import BINARY, REPOSITORY
from rig.api import Api
from rig.process import Processes
from rig.wait import until

CRDS = REPOSITORY / "deploy" / "crds"
CASES = json.loads((REPOSITORY / "test" / "api" / "validation.json").read_text())
GROUP, VERSION = "etcd-operator.cozystack.io", "v1alpha2"


def plural(kind):
    return kind.lower() + "s"


class Server:
    """Installs CRDs and creates objects of our kinds through the official client."""

    def __init__(self, kubeconfig):
        config = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(kubeconfig), client_configuration=config)
        # A kind whose schema is being changed is answered with "come again in a second".
        config.retries = urllib3.Retry(10, status_forcelist=[429], allowed_methods=None)
        client = kubernetes.client.ApiClient(config)
        self.crds = kubernetes.client.ApiextensionsV1Api(client)
        self.objects = kubernetes.client.CustomObjectsApi(client)

    def install(self, crd):
        """Create or replace. The server goes over to the new schema a moment later."""
        name = crd["metadata"]["name"]
        try:
            known = self.crds.read_custom_resource_definition(name)
            body = {**crd, "metadata": {"name": name}}
            body["metadata"]["resourceVersion"] = known.metadata.resource_version
            self.crds.replace_custom_resource_definition(name, body)
        except kubernetes.client.ApiException as error:
            if error.status != 404:
                raise
            self.crds.create_custom_resource_definition(crd)

    def create(self, kind, body):
        return self.objects.create_namespaced_custom_object(
            GROUP, VERSION, "default", plural(kind), body
        )

    def get(self, kind, name):
        return self.objects.get_namespaced_custom_object(
            GROUP, VERSION, "default", plural(kind), name
        )

    def replace(self, kind, body):
        name = body["metadata"]["name"]
        return self.objects.replace_namespaced_custom_object(
            GROUP, VERSION, "default", plural(kind), name, body
        )


def crd_of(path):
    return yaml.safe_load(path.read_text())


def manifest(kind, name, spec):
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def without_unsupported(schema):
    """The schema as it will be once everything is built: no rule that only refuses creation."""
    if isinstance(schema, list):
        return [without_unsupported(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: without_unsupported(value) for key, value in schema.items()}
    if rules := out.get("x-kubernetes-validations"):
        out["x-kubernetes-validations"] = [r for r in rules if not r.get("optionalOldSelf")]
    return out


def preserving(crd):
    """A CRD of the same kind that accepts and keeps anything: a stand-in for another schema."""
    out = copy.deepcopy(crd)
    version = out["spec"]["versions"][0]
    version["schema"]["openAPIV3Schema"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    return out


def messages(error):
    """What the server's rules said, without paths and quoted values."""
    causes = json.loads(error.body)["details"]["causes"]
    return sorted({cause["message"].rpartition("Invalid value: ")[2] for cause in causes})


@pytest.fixture(scope="module")
def server(control_plane):
    """Objects that only exist are made before the CRDs that would refuse to create them."""
    server = Server(control_plane.kubeconfig)
    crds = [crd_of(path) for path in sorted(CRDS.glob("*.yaml"))]
    assert len(crds) == 4
    for crd in crds:
        server.install(without_unsupported(crd))
    for index, case in enumerate(CASES):
        if "old" in case:
            body = manifest(case["kind"], f"case-{index}", case["old"])
            until(lambda body=body: created(server, body), 20, "the kind is served")
    for crd in crds:
        server.install(crd)
    destination = {"pvc": {"claimName": "p"}}
    refused = manifest("EtcdSnapshot", "probe", {"clusterRef": {}, "destination": destination})
    until(lambda: not created(server, refused, dry_run="All"), 20, "the new rules are in force")
    return server


def created(server, body, **options):
    try:
        server.objects.create_namespaced_custom_object(
            GROUP, VERSION, body["metadata"]["namespace"], plural(body["kind"]), body, **options
        )
    except kubernetes.client.ApiException as error:
        if error.status not in (404, 422):
            raise
        return False
    return True


@pytest.mark.parametrize("index", range(len(CASES)), ids=[case["name"] for case in CASES])
def test_the_rules_refuse_what_they_should(server, index):
    case = CASES[index]
    name = f"case-{index}"
    body = manifest(case["kind"], name, case["spec"])
    try:
        if "old" in case:
            stored = server.get(case["kind"], name)
            body["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            server.replace(case["kind"], body)
        else:
            server.create(case["kind"], body)
        said = []
    except kubernetes.client.ApiException as error:
        assert error.status == 422, error.body
        said = messages(error)
    assert [len(said), *(any(want in each for each in said) for want in case["refused"])] == (
        [len(case["refused"]), *(True for _ in case["refused"])]
    ), said


def test_defaults_are_those_of_upstream(server):
    made = server.create("EtcdCluster", manifest("EtcdCluster", "defaults", {"version": "3.6.11"}))
    assert made["spec"] == {
        "version": "3.6.11",
        "replicas": 3,
        "storage": {"size": "1Gi", "medium": ""},
        "progressDeadlineSeconds": 600,
    }


def test_a_stored_object_survives_our_crds_byte_for_byte(control_plane):
    """Every field of upstream's schema in one object each, stored under a schema that keeps all."""
    server = Server(control_plane.kubeconfig)
    stored = {}
    samples = json.loads((REPOSITORY / "test" / "api" / "upstream.json").read_text())
    for path in sorted(CRDS.glob("*.yaml")):
        crd = crd_of(path)
        server.install(preserving(crd))
    for body in samples:
        until(lambda body=body: created(server, body), 20, "the kind is served")
        kind, name = body["kind"], body["metadata"]["name"]
        server.objects.patch_namespaced_custom_object_status(
            GROUP, VERSION, "default", plural(kind), name, {"status": body["status"]}
        )
        stored[kind, name] = server.get(kind, name)
        assert stored[kind, name]["status"] == body["status"]
    for path in sorted(CRDS.glob("*.yaml")):
        server.install(crd_of(path))
    api = Api(control_plane.kubeconfig)
    until(lambda: pruned(server), 20, "the new schema is in force")
    for (kind, name), before in stored.items():
        before["metadata"].pop("managedFields", None)
        after = api.get(f"/apis/{GROUP}/{VERSION}/namespaces/default/{plural(kind)}/{name}")
        after["metadata"].pop("managedFields", None)
        assert after == before, f"{kind} {name}"


def pruned(server):
    """Whether an unknown field is dropped, so that the test above can fail."""
    body = manifest("EtcdCluster", "pruned", {"version": "3.6.11", "noSuchField": 1})
    made = server.objects.create_namespaced_custom_object(
        GROUP, VERSION, "default", "etcdclusters", body, dry_run="All"
    )
    return "noSuchField" not in made["spec"]


UNSUPPORTED = {
    "spec.tls": {"tls": {"client": {"serverSecretRef": {"name": "s"}}}},
    "spec.auth": {"auth": {"rootCredentialsSecretRef": {"name": "r"}}},
    "spec.bootstrap": {"bootstrap": {}},
    "spec.storage.medium=Memory": {"storage": {"medium": "Memory"}},
}
OWNED = [
    "/api/v1/namespaces/stored/services",
    "/api/v1/namespaces/stored/persistentvolumeclaims",
    "/api/v1/namespaces/stored/pods",
    "/apis/policy/v1/namespaces/stored/poddisruptionbudgets",
    f"/apis/{GROUP}/{VERSION}/namespaces/stored/etcdmembers",
]


def stored_clusters(api):
    return api.get(f"/apis/{GROUP}/{VERSION}/namespaces/stored/etcdclusters")["items"]


def said(cluster):
    """What a cluster says of its availability."""
    conditions = cluster.get("status", {}).get("conditions", [])
    found = [c for c in conditions if c["type"] == "Available"]
    return (found[0]["status"], found[0]["reason"], found[0]["message"]) if found else None


def test_a_stored_cluster_that_uses_what_is_not_built_is_told_so_and_left_alone(
    control_plane, server, tmp_path
):
    """Made under a schema without the rules that refuse it; then the operator meets it."""
    api = Api(control_plane.kubeconfig)
    crd = crd_of(CRDS / "etcdclusters.yaml")
    api.create("/api/v1/namespaces", {"metadata": {"name": "stored"}})
    server.install(without_unsupported(crd))
    for number, spec in enumerate(UNSUPPORTED.values()):
        body = manifest("EtcdCluster", f"case-{number}", {"version": "3.6.11", **spec})
        body["metadata"]["namespace"] = "stored"
        until(lambda body=body: created(server, body), 20, "the rules are out of force")
    server.install(crd)
    body["metadata"]["name"] = "refused"
    until(lambda: not created(server, body, dry_run="All"), 20, "the new rules are in force")
    before = [cluster["spec"] for cluster in stored_clusters(api)]

    processes = Processes(tmp_path, die_with_parent=True)
    words = [BINARY, "operator", "--kubeconfig", control_plane.kubeconfig]
    words += ["--watch-namespace=stored", "--metrics-bind-address=0"]
    processes.start("operator", [*words, "--health-probe-bind-address=0"])
    try:
        until(lambda: all(map(said, stored_clusters(api))), 20, "each says something")
        time.sleep(2)  # long enough for another pass
    finally:
        processes.stop_all()
    after = stored_clusters(api)
    assert [cluster["spec"] for cluster in after] == before
    for cluster, what in zip(after, UNSUPPORTED, strict=True):
        status, reason, message = said(cluster)
        assert (status, reason) == ("False", "Unsupported") and what in message
        assert "observed" not in cluster["status"]
    assert [api.get(path)["items"] for path in OWNED] == [[] for _ in OWNED]


def test_the_checked_in_files_are_current(control_plane):
    """Renew them with: make crds"""
    module = runpy.run_path(str(REPOSITORY / "tools" / "crds"))
    files = {path.name: path.read_text() for path in CRDS.glob("*.yaml")}
    assert module["render"](Api(control_plane.kubeconfig)) == files
