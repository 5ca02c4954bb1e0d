# SPDX-License-Identifier: Apache-2.0
"""What a process node reads from the API for a Pod: volumes and environment."""

import base64
import os
import re
from pathlib import Path


class PodFiles:
    def __init__(self, api, pod, directory, address):
        self._api = api
        self._pod = pod
        self._directory = directory
        self._address = address
        self._namespace = f"/api/v1/namespaces/{pod['metadata']['namespace']}"

    def volumes(self):
        """Path by volume name. Called again, it brings files of changed Secrets up to date."""
        return {v["name"]: self._volume(v) for v in self._pod["spec"].get("volumes", [])}

    def environment(self, container, image_environment):
        """The container's variables, with `$(NAME)` replaced by those before it."""
        values = dict(image_environment)
        for entry in container.get("env", []):
            if source := entry.get("valueFrom"):
                values[entry["name"]] = self._value_from(source)
            else:
                values[entry["name"]] = expand(entry.get("value", ""), values)
        return values

    def _volume(self, volume):
        if claim := volume.get("persistentVolumeClaim"):
            path = f"{self._namespace}/persistentvolumeclaims/{claim['claimName']}"
            name = self._api.get(path)["spec"]["volumeName"]
            path = Path(self._api.get(f"/api/v1/persistentvolumes/{name}")["spec"]["local"]["path"])
        else:
            path = self._directory / "volumes" / volume["name"]
            path.mkdir(parents=True, exist_ok=True)
        if "emptyDir" in volume:
            path.chmod(0o777)
        for name, data in self._files(volume).items():
            _replace(path / name, data)
        group = self._pod["spec"].get("securityContext", {}).get("fsGroup")
        if group is not None and path.stat().st_gid != group:
            os.chown(path, -1, group)
            path.chmod(path.stat().st_mode | 0o2070)
        return path

    def _files(self, volume):
        """The files of a volume made from API objects; a projected one is made of several."""
        files = {}
        for source in volume.get("projected", {}).get("sources", []):
            files |= self._files(source)
        if token := volume.get("serviceAccountToken"):
            files[token["path"]] = self._token(token).encode()
        for item in volume.get("downwardAPI", {}).get("items", []):
            files[item["path"]] = self._field(item["fieldRef"]["fieldPath"]).encode()
        for kind in "secret", "configMap":
            if source := volume.get(kind):
                data = self._data(kind, source.get("secretName") or source["name"])
                wanted = source.get("items") or [{"key": key, "path": key} for key in data]
                files |= {item["path"]: data[item["key"]] for item in wanted}
        return files

    def _data(self, kind, name):
        """The content of a Secret or ConfigMap as bytes by key."""
        data = self._api.get(f"{self._namespace}/{kind.lower()}s/{name}").get("data", {})
        decode = base64.b64decode if kind == "secret" else str.encode
        return {key: decode(value) for key, value in data.items()}

    def _value_from(self, source):
        if field := source.get("fieldRef"):
            return self._field(field["fieldPath"])
        kind = "secret" if "secretKeyRef" in source else "configMap"
        reference = source[f"{kind}KeyRef"]
        return self._data(kind, reference["name"])[reference["key"]].decode()

    def _field(self, path):
        """The value of a path such as `metadata.labels['app']`."""
        if path == "status.podIP":
            return self._address
        value = self._pod
        for quoted, plain in re.findall(r"\['(.*?)'\]|([^.\[]+)", path):
            value = value[quoted or plain]
        return value

    def _token(self, wanted):
        about, spec = self._pod["metadata"], {"expirationSeconds": 3607}
        reference = {"apiVersion": "v1", "kind": "Pod", "name": about["name"], "uid": about["uid"]}
        spec |= {"boundObjectRef": reference}
        spec |= {"audiences": [wanted["audience"]]} if "audience" in wanted else {}
        path = f"{self._namespace}/serviceaccounts/{self._pod['spec']['serviceAccountName']}/token"
        return self._api.request("POST", path, {"spec": spec})["status"]["token"]


def expand(text, values):
    """Kubernetes' `$(NAME)`; what is not known stays as it is."""
    return re.sub(r"\$\(([\w.-]+)\)", lambda match: values.get(match[1], match[0]), text)


def _replace(path, data):
    """Write a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"..{path.name}")
    draft.write_bytes(data)
    draft.rename(path)
