# SPDX-License-Identifier: Apache-2.0
"""A cluster as tests see it: the official client, and waits with deadlines."""

import contextlib
import json
import subprocess

import kubernetes
from kubernetes.stream import stream

from rig import tools
from rig.wait import until

READY_SECONDS = 60


class Kube:
    """One user's view of one cluster. `rig` is what the faults of `rig.faults` act on."""

    def __init__(self, kubeconfig, rig):
        self.kubeconfig = kubeconfig
        self.rig = rig
        self.client = kubernetes.config.new_client_from_config(str(kubeconfig))
        self.core = kubernetes.client.CoreV1Api(self.client)
        self.custom = kubernetes.client.CustomObjectsApi(self.client)
        self.coordination = kubernetes.client.CoordinationV1Api(self.client)
        self.policy = kubernetes.client.PolicyV1Api(self.client)

    def create(self, namespace, *objects):
        """Create objects given as in a manifest."""
        for manifest in objects:
            kubernetes.utils.create_from_dict(self.client, manifest, namespace=namespace)

    def wait_account(self, namespace, seconds=30):
        """Wait for the ServiceAccount without which no Pod is accepted."""
        accounts = self.core.list_namespaced_service_account
        until(lambda: accounts(namespace).items, seconds, f"namespace {namespace} has its account")

    def wait_ready(self, namespace, *pods, seconds=READY_SECONDS):
        """Wait until all of the Pods are ready."""
        until(
            lambda: all(self.is_ready(namespace, pod) for pod in pods),
            seconds,
            f"{', '.join(pods)} in {namespace} ready",
        )

    def is_ready(self, namespace, pod):
        """Whether the Pod is there, says so and is not about to go."""
        found = self.exists(namespace, pod)
        if not found or found.metadata.deletion_timestamp:
            return False
        return condition(found, "Ready") == "True"

    def delete_pod(self, namespace, pod, seconds=READY_SECONDS):
        """Delete a Pod and wait until it is gone; another may bear its name then."""
        uid = self.core.read_namespaced_pod(pod, namespace).metadata.uid
        self.core.delete_namespaced_pod(pod, namespace)

        def gone():
            found = self.exists(namespace, pod)
            return not found or found.metadata.uid != uid

        until(gone, seconds, f"Pod {pod} is gone")

    def evict(self, namespace, pod):
        """Whether the budgets let the Pod be evicted."""
        body = kubernetes.client.V1Eviction(metadata={"name": pod, "namespace": namespace})
        try:
            self.core.create_namespaced_pod_eviction(pod, namespace, body)
        except kubernetes.client.ApiException as error:
            if error.status != 429:
                raise
            return False
        return True

    @contextlib.contextmanager
    def no_room(self):
        """Every node is closed: whatever Pod is made meanwhile stays pending."""
        names = [node.metadata.name for node in self.core.list_node().items]
        for name in names:
            self.core.patch_node(name, {"spec": {"unschedulable": True}})
        try:
            yield
        finally:
            for name in names:
                self.core.patch_node(name, {"spec": {"unschedulable": None}})

    def exists(self, namespace, pod):
        try:
            return self.core.read_namespaced_pod(pod, namespace)
        except kubernetes.client.ApiException as error:
            if error.status == 404:
                return None
            raise

    def shell(self, namespace, pod, script):
        """What a script prints in the Pod's first container."""
        return self.execute(namespace, pod, "sh", "-c", script)

    def execute(self, namespace, pod, *command, seconds=30):
        """What a command prints in the Pod's first container."""
        # With the content preloaded, the client would parse and reprint output that is JSON.
        connection = stream(
            self.core.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            command=list(command),
            stdout=True,
            stderr=True,
            stdin=False,
            tty=False,
            _preload_content=False,
        )
        connection.run_forever(timeout=seconds)
        return connection.read_all()

    def restarts(self, namespace, pod):
        """How often the Pod's first container was restarted; None before it was reported."""
        statuses = self.core.read_namespaced_pod(pod, namespace).status.container_statuses
        return statuses[0].restart_count if statuses else None

    def last_node(self):
        """Its name, and itself, to be lost: there is one however small the rig is."""
        return max(self.rig.nodes.items())

    def node_ready(self, node):
        """True, False or Unknown, as the Node's condition says."""
        return condition(self.core.read_node(node), "Ready")

    def requests(self):
        """What our operator has asked of the API server, by its audit log."""
        lines = (self.rig.state.directory / "logs" / "audit.log").read_text().splitlines()
        return [r for r in map(json.loads, lines) if r.get("userAgent", "").startswith("raftsman")]

    def kubectl(self, *words, text=None):
        """What kubectl prints, be it a complaint, for people to read. `text` is its input."""
        command = [tools.binary("kubernetes", "kubectl"), f"--kubeconfig={self.kubeconfig}"]
        command += ["--request-timeout=20s", *words]
        done = subprocess.run(command, input=text, check=False, capture_output=True, text=True)
        return done.stdout + done.stderr


def condition(thing, kind):
    """The status of a condition of a Pod or Node; None if it has none."""
    found = [c.status for c in thing.status.conditions or [] if c.type == kind]
    return found[0] if found else None
