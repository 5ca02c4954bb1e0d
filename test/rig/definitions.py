# SPDX-License-Identifier: Apache-2.0
"""Kinds that tests define for themselves."""


def definition(kind, group, properties, scope="Namespaced"):
    """The CustomResourceDefinition of `kind`: version v1, with these properties beside metadata."""
    name = kind.lower()
    schema = {"type": "object", "properties": properties}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": f"{name}s", "singular": name},
            "versions": [version],
        },
    }
