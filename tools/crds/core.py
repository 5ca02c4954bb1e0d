# SPDX-License-Identifier: Apache-2.0
"""Core Kubernetes types as CRD schemas, taken from a running API server's OpenAPI.

References are resolved in place and descriptions dropped, because a structural schema knows no
references and a CRD has a size limit. What remains is the shape: types, required fields, list and
map semantics, so that nothing a user stored is pruned.
"""

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
QUANTITY = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": QUANTITY_PATTERN,
    "x-kubernetes-int-or-string": True,
}
INT_OR_STRING = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
# Kept of each schema; anything else in the API server's document is prose or bookkeeping.
KEPT = ("type", "format", "required", "enum", "x-kubernetes-map-type", "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys")  # fmt: skip


class Core:
    """The schemas of one API server; `document` is its `/openapi/v3/api/v1`."""

    def __init__(self, document):
        self._schemas = document["components"]["schemas"]

    def type(self, name):
        """A core/v1 type by its short name, such as `Affinity`."""
        return self._resolve({"$ref": f"#/components/schemas/io.k8s.api.core.v1.{name}"})

    def _resolve(self, schema):
        if "allOf" in schema and len(schema["allOf"]) == 1:
            schema = {**schema, **schema["allOf"][0]}
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name.endswith(".resource.Quantity"):
                return QUANTITY
            if name.endswith(".intstr.IntOrString"):
                return INT_OR_STRING
            return self._resolve(self._schemas[name])
        out = {key: schema[key] for key in KEPT if key in schema}
        if "properties" in schema:
            out["properties"] = {k: self._resolve(v) for k, v in schema["properties"].items()}
        if "items" in schema:
            out["items"] = self._resolve(schema["items"])
        if isinstance(schema.get("additionalProperties"), dict):
            out["additionalProperties"] = self._resolve(schema["additionalProperties"])
        if "x-kubernetes-list-map-keys" in out:
            # A key of a list-map must be required or have a default.
            keys, item = out["x-kubernetes-list-map-keys"], out["items"]
            for key in keys:
                if key not in item.get("required", ()):
                    item["properties"][key] = {**item["properties"][key], "default": ""}
        return out
