# SPDX-License-Identifier: Apache-2.0
"""Objects the smoke tests create, as small as they can be."""

from rig import images

# Ends at once when asked to, unlike a shell that waits for `sleep`.
IDLE = "trap 'exit 0' TERM; while true; do sleep 0.2; done"


def pod(name, script=IDLE, labels=None, claim=None, secret=None, **spec):
    """A Pod with one shell, its claim at /data and its Secret at /secret.

    `container` in `spec` is merged into the container, everything else into the Pod's spec.
    """
    container = {
        "name": "main",
        "image": images.BUSYBOX,
        "command": ["sh", "-c", script],
        "volumeMounts": [],
    } | spec.pop("container", {})
    volumes = []
    if claim:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
        container["volumeMounts"].append({"name": "data", "mountPath": "/data"})
    if secret:
        volumes.append({"name": "secret", "secret": {"secretName": secret}})
        container["volumeMounts"].append({"name": "secret", "mountPath": "/secret"})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": [container],
            "volumes": volumes,
            **spec,
        },
    }


def claim(name, size="16Mi", labels=None):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
    }


def secret(name, **values):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": values}


def headless_service(name, labels):
    """Names for Pods, also before they are ready: members must find each other to become so."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": labels},
    }


def disruption_budget(name, labels, available):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"minAvailable": available, "selector": {"matchLabels": labels}},
    }


def etcd_cluster(namespace, size=3):
    """The Service and the Pods of a static cluster, each Pod on another node."""
    labels = {"app": "etcd"}
    names = [f"etcd-{ordinal}" for ordinal in range(size)]
    urls = {name: f"http://{name}.etcd.{namespace}.svc.cluster.local" for name in names}
    peers = ",".join(f"{name}={url}:2380" for name, url in urls.items())
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    wish = {"weight": 100, "podAffinityTerm": apart}  # a rig of one node cannot grant it
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish]}}

    def member(name):
        container = {
            "image": images.etcd_image(),
            "command": [
                "etcd",
                f"--name={name}",
                "--data-dir=/data/etcd",
                "--listen-client-urls=http://0.0.0.0:2379",
                f"--advertise-client-urls={urls[name]}:2379",
                "--listen-peer-urls=http://0.0.0.0:2380",
                f"--initial-advertise-peer-urls={urls[name]}:2380",
                f"--initial-cluster={peers}",
            ],
            "readinessProbe": {"httpGet": {"path": "/health", "port": 2379}, "periodSeconds": 1},
            "volumeMounts": [],
        }
        identity = {"hostname": name, "subdomain": "etcd", "affinity": affinity}
        return pod(name, labels=labels, claim=name, container=container, **identity)

    claims = [claim(name, "256Mi") for name in names]
    return [headless_service("etcd", labels), *claims, *(member(name) for name in names)]
