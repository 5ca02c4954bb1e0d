# SPDX-License-Identifier: Apache-2.0
"""Dynamic volumes: a StorageClass, and the process that makes and removes what it promises.

A volume is a file system of the size the claim asks for, in memory, mounted below `volumes/` of
the state directory. The mounts live in a mount namespace of their own, held by one sleeping
process; nodes are started from there as its slaves and so see every volume that appears. Nothing
is ever mounted on the host, and the end of the processes is the end of the mounts.

PersistentVolumes are of type `local`, pinned to the node the scheduler selected: unlike
`hostPath`, that type honours fsGroup.
"""

import functools
import subprocess
import sys
import threading
from pathlib import Path

from rig import tools
from rig.api import Api
from rig.errors import RigError

STORAGE_CLASS = "standard"
PROVISIONER = "rig/volumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
HOLDER = "mounts"

UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def start(processes, kubeconfig):
    """Start the holder of the mounts, and the provisioner in there."""
    directory = processes.directory / "volumes"
    directory.mkdir()
    script = 'mount --bind "$0" "$0" && mount --make-shared "$0" && exec sleep infinity'
    words = ["unshare", "--mount", "--propagation=private", "sh", "-c", script, directory]
    holder = processes.start(HOLDER, words)
    command = Path(f"/proc/{holder.pid}/comm")
    holder.wait_ready(lambda: command.read_text().strip() == "sleep", 5)
    words = [*tools.module("volumes"), kubeconfig, directory]
    processes.start("volumes", [*inside(processes), *words])


def inside(processes):
    """The words that run a command where the volumes are mounted."""
    return ["nsenter", f"--mount=/proc/{processes.get(HOLDER).pid}/ns/mnt", "--"]


def content(processes, api, namespace, claim):
    """The directory of a claim's volume, reachable from the host."""
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
    volume = api.get(path)["spec"].get("volumeName")
    if not volume:
        raise RigError(f"claim {namespace}/{claim} has no volume")
    holder = processes.get(HOLDER)
    return Path(f"/proc/{holder.pid}/root{processes.directory}/volumes/{volume}")


def parse_size(quantity):
    """Bytes of a quantity such as `64Mi`."""
    digits = quantity.rstrip("kMGi")
    return int(digits) * UNITS[quantity[len(digits) :]]


def _serve(api, directory):
    api.create(
        "/apis/storage.k8s.io/v1/storageclasses",
        {
            "metadata": {
                "name": STORAGE_CLASS,
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
        },
    )
    collections = {
        "/api/v1/persistentvolumeclaims": _provision,
        "/api/v1/persistentvolumes": _remove_released,
    }
    for path, handle in collections.items():
        words = (path, functools.partial(handle, api, directory))
        threading.Thread(target=api.follow, args=words).start()


def _wanted(claim):
    return (
        claim["spec"].get("storageClassName") == STORAGE_CLASS
        and not claim["spec"].get("volumeName")
        and SELECTED_NODE in claim["metadata"].get("annotations", {})
        and "deletionTimestamp" not in claim["metadata"]
    )


def _provision(api, directory, event, claim):
    """Make the volume a claim waits for, mounted before the kubelet can learn of it."""
    if not _wanted(claim):
        return
    about, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{about['uid']}"
    size = spec["resources"]["requests"]["storage"]
    path = directory / name
    path.mkdir(exist_ok=True)
    if not path.is_mount():
        options = f"size={parse_size(size)},mode=0755"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, name, path], check=True)
    on_node = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": [about["annotations"][SELECTED_NODE]],
    }
    claim_reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": about["namespace"],
        "name": about["name"],
        "uid": about["uid"],
    }
    volume = {
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": size},
            "accessModes": spec["accessModes"],
            "storageClassName": STORAGE_CLASS,
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": claim_reference,
            "local": {"path": str(path)},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]},
            },
        },
    }
    api.create("/api/v1/persistentvolumes", volume)


def _remove_released(api, directory, event, volume):
    """Remove a volume whose claim is gone."""
    spec, path = volume["spec"], directory / volume["metadata"]["name"]
    ours = spec.get("storageClassName") == STORAGE_CLASS
    released = volume.get("status", {}).get("phase") == "Released"
    if not (ours and released and spec["persistentVolumeReclaimPolicy"] == "Delete"):
        return
    api.delete(f"/api/v1/persistentvolumes/{path.name}")
    if path.is_mount():
        subprocess.run(["umount", "--lazy", path], check=True)
    if path.exists():
        path.rmdir()


if __name__ == "__main__":
    _serve(Api(sys.argv[1]), Path(sys.argv[2]))
