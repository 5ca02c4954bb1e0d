# SPDX-License-Identifier: Apache-2.0
"""EtcdClusters as tests use them: create, wait, look, and write to while things happen."""

import base64
import json
import re
import threading
import time
import urllib.error
import urllib.request
import uuid

from kubernetes.client import ApiException
from urllib3.exceptions import HTTPError

from rig.wait import until

GROUP, VERSION = "etcd-operator.cozystack.io", "v1alpha2"
LABEL = f"{GROUP}/cluster={{}}"


class EtcdCluster:
    """One EtcdCluster in one namespace."""

    def __init__(self, cluster, namespace, name="demo"):
        self.cluster, self.namespace, self.name = cluster, namespace, name
        self.where = (GROUP, VERSION, namespace, "etcdclusters")

    def create(self, replicas=3, version="3.6.11", **spec):
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "EtcdCluster",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {"replicas": replicas, "version": version, **spec},
        }
        self.cluster.custom.create_namespaced_custom_object(*self.where, body)
        return self

    def get(self):
        return self.cluster.custom.get_namespaced_custom_object(*self.where, self.name)

    def delete(self):
        self.cluster.custom.delete_namespaced_custom_object(*self.where, self.name)

    def scale(self, replicas):
        self.edit({"spec": {"replicas": replicas}})

    def edit(self, body):
        self.cluster.custom.patch_namespaced_custom_object(*self.where, self.name, body)

    def edit_status(self, body):
        """As a person may: through the status subresource."""
        self.cluster.custom.patch_namespaced_custom_object_status(
            *self.where, self.name, {"status": body}
        )

    def status(self):
        return self.get().get("status", {})

    def condition(self, kind):
        found = [c for c in self.status().get("conditions", []) if c["type"] == kind]
        return found[0] if found else {"status": "", "reason": "", "message": ""}

    def mentions(self, name):
        """Whether a condition of it or of a member names this, and not what begins alike."""
        alone = re.compile(rf"{re.escape(name)}(?![\w-])")
        objects = [self.get(), *self.all_members()]
        conditions = [c for each in objects for c in each.get("status", {}).get("conditions", [])]
        return any(alone.search(c["message"]) for c in conditions)

    def complete(self, replicas):
        return is_complete(self.get(), replicas)

    def wait(self, replicas, seconds=60):
        until(lambda: self.complete(replicas), seconds, f"{self.name} has {replicas} members")
        return self

    def all_members(self):
        return self.cluster.custom.list_namespaced_custom_object(
            *self.where[:3], "etcdmembers", label_selector=LABEL.format(self.name)
        )["items"]

    def members(self):
        """EtcdMembers that are not about to go."""
        return [m for m in self.all_members() if not m["metadata"].get("deletionTimestamp")]

    def delete_member(self, name):
        self.cluster.custom.delete_namespaced_custom_object(*self.where[:3], "etcdmembers", name)

    def edit_member(self, name, body):
        self.cluster.custom.patch_namespaced_custom_object(
            *self.where[:3], "etcdmembers", name, body
        )

    def names(self):
        return sorted(m["metadata"]["name"] for m in self.members())

    def uids(self):
        """Of the EtcdMembers: a name may be borne again."""
        return {m["metadata"]["name"]: m["metadata"]["uid"] for m in self.members()}

    def ids(self):
        return {m["metadata"]["name"]: m.get("status", {}).get("memberID") for m in self.members()}

    def pods(self):
        listed = self.cluster.core.list_namespaced_pod(
            self.namespace, label_selector=LABEL.format(self.name)
        ).items
        return {pod.metadata.name: pod for pod in listed}

    def pod_uids(self):
        return {name: pod.metadata.uid for name, pod in self.pods().items()}

    def budget(self):
        """Its PodDisruptionBudget; None if there is none."""
        try:
            return self.cluster.policy.read_namespaced_pod_disruption_budget(
                self.name, self.namespace
            )
        except ApiException as error:
            if error.status != 404:
                raise
            return None

    def events(self):
        """What was told of it: reason and text, oldest first."""
        listed = self.cluster.core.list_namespaced_event(
            self.namespace, field_selector=f"involvedObject.name={self.name}"
        ).items
        listed.sort(key=lambda event: event.metadata.creation_timestamp)
        return [(event.reason, event.message) for event in listed]

    def addresses(self):
        return [pod.status.pod_ip for pod in self.pods().values() if pod.status.pod_ip]

    def call(self, path, body, seconds=2):
        """One request to etcd's JSON gateway, at whichever member answers."""
        problem = OSError("no member has an address")
        for address in self.addresses():
            request = urllib.request.Request(
                f"http://{address}:2379{path}", json.dumps(body).encode(), method="POST"
            )
            try:
                with urllib.request.urlopen(request, timeout=seconds) as answer:
                    return json.load(answer)
            except OSError as error:
                problem = error
        raise problem

    def remove_from_etcd(self, name):
        """By hand, as soon as etcd lets it go: its members must have been connected for a while."""
        number = int(self.ids()[name], 16)

        def gone():
            try:
                self.call("/v3/cluster/member/remove", {"ID": str(number)}, seconds=10)
            except urllib.error.HTTPError as error:
                if error.code not in (404, 503):
                    raise
                return error.code == 404  # the answer to an earlier request was lost
            return True

        until(gone, 30, f"{name} is removed")

    def put(self, key, value):
        self.call("/v3/kv/put", {"key": encode(key), "value": encode(value)})

    def read(self, prefix):
        """Every key with that prefix, by a linearizable read."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        span = {"key": encode(prefix), "range_end": encode(end)}
        answer = self.call("/v3/kv/range", span, seconds=10)
        return {decode(kv["key"]): decode(kv["value"]) for kv in answer.get("kvs", [])}

    def etcd_members(self):
        return self.call("/v3/cluster/member/list", {"linearizable": True})["members"]


def is_complete(cluster, replicas):
    """The target is adopted and reached: what a user waits for."""
    status = cluster.get("status", {})
    conditions = {c["type"]: c["status"] for c in status.get("conditions", [])}
    return (
        status.get("observed", {}).get("replicas") == replicas
        and status.get("readyMembers") == replicas
        and conditions.get("Progressing") == "False"
        and conditions.get("Available") == ("True" if replicas else "False")
    )


def encode(text):
    return base64.b64encode(text.encode()).decode()


def decode(text):
    return base64.b64decode(text).decode()


class Writer:
    """Writes all the time; afterwards every acknowledged write must be there."""

    def __init__(self, etcd):
        self.etcd = etcd
        self.prefix = f"write-{uuid.uuid4().hex[:8]}/"  # what another one wrote proves nothing
        self.acknowledged = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        if kind is None:  # a cluster may be complete before the first write came through
            until(lambda: self.acknowledged > 0, 30, "a write is acknowledged")
        self._done.set()
        self._thread.join(30)
        if kind is None:
            self.check()

    def _run(self):
        while not self._done.is_set():
            number = self.acknowledged
            try:
                self.etcd.put(f"{self.prefix}{number:08}", str(number))
                self.acknowledged = number + 1
            except (OSError, ApiException, HTTPError):
                time.sleep(0.05)  # not acknowledged: the same number again
            time.sleep(0.01)

    def more(self, seconds=30):
        """Wait for writes that began after this call."""
        before = self.acknowledged
        until(lambda: self.acknowledged > before + 1, seconds, "writes are acknowledged")

    def check(self):
        (found,) = until(self._read, 30, "etcd answers a read")
        numbers = range(self.acknowledged)
        missing = [n for n in numbers if found.get(f"{self.prefix}{n:08}") != str(n)]
        assert not missing, f"{len(missing)} acknowledged writes are lost: {missing[:5]}"

    def _read(self):
        """What is there, in a tuple: nothing at all is an answer too. None: nobody answers."""
        try:
            return (self.etcd.read(self.prefix),)
        except OSError:
            return None
