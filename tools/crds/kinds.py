# SPDX-License-Identifier: Apache-2.0
"""The four kinds of etcd-operator.cozystack.io/v1alpha2: upstream's full schema, and ours on top.

A field missing here would be pruned from every stored object when the CRD is installed, so nothing
of upstream's is left out. What this release cannot do yet is refused when an object is created, by
one rule each (UNSUPPORTED); objects that exist already are left alone.
"""

from core import QUANTITY

GROUP = "etcd-operator.cozystack.io"
VERSION = "v1alpha2"
SEMVER = r"^\d+\.\d+\.\d+$"


# --- Building blocks ------------------------------------------------------------------------


def obj(properties, *, about, required=(), rules=(), **more):
    out = {"type": "object", "description": about, "properties": properties, **more}
    if required:
        out["required"] = sorted(required)
    if rules:
        out["x-kubernetes-validations"] = list(rules)
    return out


def text(about, **more):
    return {"type": "string", "description": about, **more}


def flag(about, **more):
    return {"type": "boolean", "description": about, **more}


def int32(about, **more):
    return {"type": "integer", "format": "int32", "description": about, **more}


def int64(about, **more):
    return {"type": "integer", "format": "int64", "description": about, **more}


def quantity(about, rules=(), **more):
    out = {**QUANTITY, "description": about, **more}
    if rules:
        out["x-kubernetes-validations"] = list(rules)
    return out


def instant(about):
    return {"type": "string", "format": "date-time", "description": about}


def listing(items, about, **more):
    return {"type": "array", "items": items, "description": about, **more}


def strings(about):
    return {"type": "object", "additionalProperties": {"type": "string"}, "description": about}


def described(schema, about):
    return {**schema, "description": about}


def rule(expression, message, **more):
    return {"rule": expression, "message": message, **more}


def only_existing(condition, what):
    """Refused on create, left alone where it exists: for what this release does not do yet."""
    return rule(
        f"oldSelf.hasValue() || !({condition})",
        f"{what} is not supported by this release",
        optionalOldSelf=True,
    )


def reference(about):
    name = text("Name of the object.", default="")
    return obj({"name": name}, about=about, **{"x-kubernetes-map-type": "atomic"})


CONDITION = obj(
    {
        "type": text(
            "What the condition is about.",
            maxLength=316,
            pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
        "status": text("True, False or Unknown.", enum=["True", "False", "Unknown"]),
        "observedGeneration": int64("Generation the condition was decided on.", minimum=0),
        "lastTransitionTime": instant("When the status last changed."),
        "reason": text(
            "One word for the cause.",
            minLength=1,
            maxLength=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
        "message": text("What a person should know.", maxLength=32768),
    },
    about="One aspect of the state.",
    required=["type", "status", "lastTransitionTime", "reason", "message"],
)


def conditions():
    return listing(CONDITION, "Conditions of the object.")


# --- Shared by several kinds ----------------------------------------------------------------


def storage(about, *, class_name=True):
    properties = {
        "size": quantity(
            "Size of the volume. May grow, never shrink.",
            default="1Gi",
            rules=[
                rule(
                    "quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0",
                    "spec.storage.size cannot be shrunk",
                )
            ],
        ),
        "medium": text(
            "Empty: a PersistentVolumeClaim. Memory: a tmpfs that is lost with its Pod.",
            enum=["", "Memory"],
            default="",
            **{
                "x-kubernetes-validations": [
                    rule("self == oldSelf", "spec.storage.medium is immutable")
                ]
            },
        ),
    }
    if class_name:
        properties["storageClassName"] = text(
            "Class of the volume. Absent: the default class. Empty: no dynamic provisioning."
        )
    return obj(properties, about=about)


S3 = obj(
    {
        "endpoint": text("URL of the S3 endpoint.", minLength=1),
        "bucket": text("Bucket.", minLength=1),
        "key": text("Destination: a key prefix. Restore: the exact object key."),
        "credentialsSecretRef": reference(
            "Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, in the same namespace."
        ),
        "region": text("Region; us-east-1 if absent."),
        "forcePathStyle": flag("Address the bucket in the path, not in the host name."),
    },
    about="An S3 bucket.",
    required=["endpoint", "bucket", "credentialsSecretRef"],
)
PVC = obj(
    {
        "claimName": text("PersistentVolumeClaim in the same namespace.", minLength=1),
        "subPath": text("Destination: a directory. Restore: the exact file."),
    },
    about="A directory of a volume.",
    required=["claimName"],
)


def location(about):
    return obj(
        {"s3": S3, "pvc": PVC},
        about=about,
        rules=[
            rule(
                "has(self.s3) != has(self.pvc)",
                "set exactly one of destination.s3 or destination.pvc",
            )
        ],
    )


def restore(about):
    return obj(
        {"source": location("The snapshot to restore, named exactly.")},
        about=about,
        required=["source"],
        rules=[
            rule(
                "!has(self.source.s3) || (has(self.source.s3.key) && self.source.s3.key != '')",
                "source.s3.key must be the exact (non-empty) object key of a snapshot",
            ),
            rule(
                "!has(self.source.pvc) || "
                "(has(self.source.pvc.subPath) && self.source.pvc.subPath != '')",
                "source.pvc.subPath must be the exact (non-empty) snapshot file path",
            ),
        ],
    )


def templates(core):
    """What a cluster hands down to its members unchanged."""
    return {
        "resources": described(
            core.type("ResourceRequirements"), "Resources of the etcd container."
        ),
        "affinity": described(core.type("Affinity"), "Affinity of the Pods."),
        "topologySpreadConstraints": listing(
            core.type("TopologySpreadConstraint"), "How the Pods are spread."
        ),
        "additionalMetadata": obj(
            {
                "labels": strings("Labels added to every object of the cluster."),
                "annotations": strings("Annotations added to every object of the cluster."),
            },
            about="Metadata added to the objects of the cluster when they are created.",
        ),
        "options": obj(
            {
                "quotaBackendBytes": int64("Size limit of the database; 0: etcd's own.", minimum=0),
                "autoCompactionMode": text(
                    "What autoCompactionRetention counts.", enum=["periodic", "revision"]
                ),
                "autoCompactionRetention": text(
                    "How much history is kept: a duration, or a number of revisions.",
                    pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$|^[0-9]+$",
                ),
                "snapshotCount": int64("Entries between two snapshots of the log.", minimum=1),
            },
            about="Settings of etcd.",
        ),
        "imagePullSecrets": listing(reference("A Secret."), "Secrets for pulling the image."),
    }


def version(about):
    return text(about, pattern=SEMVER)


# --- EtcdCluster ----------------------------------------------------------------------------


def issuer(about):
    return obj(
        {
            "name": text("Name of the issuer.", minLength=1),
            "kind": text("Kind of it.", enum=["Issuer", "ClusterIssuer"], default="Issuer"),
        },
        about=about,
        required=["name"],
    )


def cluster_tls():
    client = obj(
        {
            "serverSecretRef": reference("Secret with tls.crt, tls.key and ca.crt."),
            "operatorClientSecretRef": reference(
                "Secret with tls.crt and tls.key; its presence turns client certificates on."
            ),
            "certManager": obj(
                {
                    "serverIssuerRef": issuer("Issuer of the server certificate."),
                    "operatorClientIssuerRef": issuer(
                        "Issuer of the operator's certificate; turns client certificates on."
                    ),
                },
                about="Certificates made by cert-manager.",
                required=["serverIssuerRef"],
            ),
        },
        about="TLS of the client API; absent: plaintext.",
        rules=[
            rule(
                "has(self.serverSecretRef) != has(self.certManager)",
                "set exactly one of spec.tls.client.serverSecretRef or spec.tls.client.certManager",
            ),
            rule(
                "!(has(self.certManager) && has(self.operatorClientSecretRef))",
                "operatorClientSecretRef cannot be combined with certManager",
            ),
        ],
    )
    peer = obj(
        {
            "secretRef": reference("Secret with tls.crt, tls.key and ca.crt."),
            "certManager": obj(
                {"issuerRef": issuer("Issuer of the peer certificate.")},
                about="A certificate made by cert-manager.",
                required=["issuerRef"],
            ),
        },
        about="TLS between members; absent: plaintext. Both sides always show a certificate.",
        rules=[
            rule(
                "has(self.secretRef) != has(self.certManager)",
                "set exactly one of spec.tls.peer.secretRef or spec.tls.peer.certManager",
            )
        ],
    )
    return obj({"client": client, "peer": peer}, about="Transport security; immutable.")


def unchanged(field, added, immutable):
    """Presence and content of an optional field stay as created.

    The presence rule stands at the parent: a rule at the field does not run when it comes or goes.
    """
    return [
        rule(f"has(self.{field}) == has(oldSelf.{field})", added),
        rule(
            f"!has(self.{field}) || !has(oldSelf.{field}) || self.{field} == oldSelf.{field}",
            immutable,
        ),
    ]


CLUSTER_RULES = [
    rule(
        "!(self.replicas == 0 && self.storage.medium == 'Memory')",
        "replicas=0 with spec.storage.medium=Memory would lose the data: delete the cluster",
    ),
    rule(
        "self.storage.medium != 'Memory' || "
        "quantity(string(self.storage.size)).isGreaterThan(quantity('0'))",
        "spec.storage.size must be > 0 with spec.storage.medium=Memory",
    ),
    *unchanged(
        "tls",
        "spec.tls cannot be added to or removed from an existing cluster",
        "spec.tls is immutable post-create",
    ),
    rule(
        "has(self.storage.storageClassName) == has(oldSelf.storage.storageClassName)",
        "spec.storage.storageClassName cannot be added to or removed from an existing cluster",
    ),
    rule(
        "!has(self.storage.storageClassName) || !has(oldSelf.storage.storageClassName) || "
        "self.storage.storageClassName == oldSelf.storage.storageClassName",
        "spec.storage.storageClassName is immutable post-create",
    ),
    *unchanged(
        "auth",
        "spec.auth cannot be added to or removed from an existing cluster",
        "spec.auth is immutable post-create",
    ),
    rule(
        "!has(self.auth) || !has(self.auth.enabled) || !self.auth.enabled || "
        "(has(self.tls) && has(self.tls.client))",
        "spec.auth.enabled requires spec.tls.client "
        "(auth credentials must not cross a plaintext connection)",
    ),
    rule(
        "!has(self.auth) || !has(self.auth.enabled) || !self.auth.enabled || "
        "has(self.auth.rootCredentialsSecretRef)",
        "spec.auth.enabled requires spec.auth.rootCredentialsSecretRef",
    ),
    *unchanged(
        "bootstrap",
        "spec.bootstrap cannot be added to or removed from an existing cluster",
        "spec.bootstrap is immutable post-create",
    ),
    rule(
        "!(has(self.bootstrap) && has(self.bootstrap.restore) && self.storage.medium == 'Memory')",
        "spec.bootstrap.restore is unsupported with spec.storage.medium=Memory",
    ),
]
CLUSTER_UNSUPPORTED = [
    only_existing("self.storage.medium == 'Memory'", "spec.storage.medium=Memory"),
    only_existing("has(self.tls)", "spec.tls"),
    only_existing("has(self.auth)", "spec.auth"),
    only_existing("has(self.bootstrap)", "spec.bootstrap"),
]


def cluster_spec(core):
    return obj(
        {
            "replicas": int32("Number of members; 0 pauses the cluster.", minimum=0, default=3),
            "version": version("Version of etcd, such as 3.6.11."),
            "storage": {
                **storage("Where members keep their data."),
                "default": {"size": "1Gi", "medium": ""},
            },
            "progressDeadlineSeconds": int32(
                "How long a change may take before it is given up.", minimum=1, default=600
            ),
            "tls": cluster_tls(),
            "auth": obj(
                {
                    "enabled": flag("Turn authentication on."),
                    "rootCredentialsSecretRef": reference(
                        "Secret of type kubernetes.io/basic-auth with root's password."
                    ),
                },
                about="Authentication; immutable.",
            ),
            "bootstrap": obj(
                {"restore": restore("Start from a snapshot.")},
                about="How the cluster comes into being; immutable.",
            ),
            **templates(core),
        },
        about="What the cluster should be.",
        required=["version"],
        rules=[*CLUSTER_RULES, *CLUSTER_UNSUPPORTED],
    )


def cluster_status(core):
    observed = obj(
        {
            "replicas": int32("Number of members."),
            "version": text("Version of etcd."),
            "storage": storage("Where members keep their data."),
            **templates(core),
        },
        about="The target being worked on: a copy of the specification, replaced when reached.",
        required=["replicas", "version", "storage"],
    )
    member = obj(
        {
            "name": text("Name of the EtcdMember."),
            "id": text("etcd's member ID, in hexadecimal."),
            "role": text("Voter, Learner, or Leader."),
            "healthy": flag("Whether it answers and follows the leader."),
            "version": text("Version it runs."),
        },
        about="One member, as last seen.",
        required=["name"],
    )
    return obj(
        {
            "readyMembers": int32("Running members that are ready."),
            "selector": text("Selector of the Pods, for the scale subresource."),
            "brokenMembers": int32("Members that lost their data."),
            "clusterID": text("etcd's cluster ID, in hexadecimal."),
            "clusterToken": text("Token the cluster was bootstrapped with."),
            "authEnabled": flag("Authentication has been turned on."),
            "observed": observed,
            "progressDeadline": instant(
                "When the change is given up. May be edited: the past is now, null is never."
            ),
            "conditions": conditions(),
            "phase": text("One word for the state: what a person wants to see first."),
            "leader": text("Name of the EtcdMember that leads."),
            "members": {
                **listing(member, "The members, as last seen."),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
        },
        about="What the cluster is.",
    )


# --- EtcdMember -----------------------------------------------------------------------------


def member_spec(core):
    return obj(
        {
            "clusterName": text("Name of the EtcdCluster.", minLength=1),
            "version": version("Version of etcd."),
            "storage": {**storage("Where the member keeps its data.")},
            **templates(core),
            "bootstrap": flag("This member founded the cluster."),
            "initialCluster": text(
                "etcd's --initial-cluster; empty: the member has yet to be added."
            ),
            "clusterToken": text("etcd's --initial-cluster-token."),
            "replicas": int32("For the scale subresource only.", minimum=1, maximum=1, default=1),
            "dormant": flag("No Pod is wanted; the volume is kept."),
            "tls": obj(
                {
                    "clientServerSecretRef": reference("Secret of the server certificate."),
                    "clientMTLS": flag("Clients must show a certificate."),
                    "peerSecretRef": reference("Secret of the peer certificate."),
                    "peerAutoTLS": flag("Peers use certificates etcd makes itself, unverified."),
                },
                about="Transport security, resolved.",
            ),
            "restore": restore("The snapshot this member starts from."),
        },
        about="What the member should be; written by the operator, not by users.",
        required=["clusterName", "version", "storage", "initialCluster", "clusterToken"],
    )


def member_status():
    return obj(
        {
            "memberID": text("etcd's member ID, in hexadecimal."),
            "podName": text("Name of the Pod."),
            "podUID": text("UID of the Pod."),
            "isVoter": flag("The member counts for quorum."),
            "replicas": int32("1 while there is a Pod."),
            "selector": text("Selector of the Pod."),
            "pvcName": text("Name of the volume claim."),
            "pvcUID": text("UID of the volume claim the member was started on."),
            "version": text("Version it runs."),
            "conditions": conditions(),
        },
        about="What the member is.",
    )


# --- EtcdSnapshot, EtcdDefrag ---------------------------------------------------------------


def snapshot_spec():
    return obj(
        {
            "clusterRef": reference("The EtcdCluster, in the same namespace."),
            "destination": location("Where the snapshot is stored."),
        },
        about="What is to be saved, and where.",
        required=["clusterRef", "destination"],
    )


def snapshot_status():
    artifact = obj(
        {
            "uri": text("Where it is."),
            "sizeBytes": int64("Bytes stored."),
            "checksum": text("sha256: and 64 hexadecimal digits."),
        },
        about="The stored snapshot.",
        required=["uri"],
    )
    return obj(
        {
            "phase": text("Pending, Started, Complete or Failed."),
            "artifact": artifact,
            "conditions": conditions(),
        },
        about="How far the snapshot is.",
    )


def defrag_spec():
    positive = "quantity(string(self.{0})).isGreaterThan(quantity('0'))"
    defrag_rule = obj(
        {
            "all": flag("Every member, whatever it would gain.", default=False),
            "freeSpaceAbove": quantity("Members with more reclaimable space than this; 200Mi."),
            "quotaUsageAbove": text(
                "Above this share of the quota, minReclaim is enough.",
                pattern=r"^([1-9][0-9]?|100)%$",
            ),
            "minReclaim": quantity("Never for less than this; 32Mi."),
        },
        about="Which members are worth it.",
        rules=[
            rule(
                "!(has(self.all) && self.all) || !(has(self.freeSpaceAbove) || "
                "has(self.quotaUsageAbove) || has(self.minReclaim))",
                "rule.all cannot be combined with freeSpaceAbove, quotaUsageAbove or minReclaim",
            ),
            rule(
                f"!has(self.freeSpaceAbove) || {positive.format('freeSpaceAbove')}",
                "freeSpaceAbove must be greater than 0",
            ),
            rule(
                f"!has(self.minReclaim) || {positive.format('minReclaim')}",
                "minReclaim must be greater than 0",
            ),
            rule(
                "!has(self.minReclaim) || has(self.quotaUsageAbove)",
                "minReclaim requires quotaUsageAbove",
            ),
            rule(
                "!has(self.minReclaim) || !has(self.freeSpaceAbove) || "
                "quantity(string(self.minReclaim)).compareTo("
                "quantity(string(self.freeSpaceAbove))) <= 0",
                "minReclaim cannot be above freeSpaceAbove",
            ),
        ],
    )
    return obj(
        {
            "clusterRef": reference("The EtcdCluster, in the same namespace."),
            "rule": defrag_rule,
            "ttlSecondsAfterFinished": int32(
                "Seconds after which a finished object is deleted; absent: never.", minimum=0
            ),
        },
        about="Which cluster is to be defragmented, and when a member is worth it.",
        required=["clusterRef"],
        rules=[
            rule("self.clusterRef.name != ''", "spec.clusterRef.name is required"),
        ],
    )


def defrag_status():
    member = obj(
        {
            "name": text("Name of the member."),
            "role": text("leader or follower."),
            "outcome": text("Pending, Skipped, Defragmented or Failed."),
            "reason": text("Why."),
            "dbSizeBefore": int64("Bytes before."),
            "dbSizeAfter": int64("Bytes after."),
            "reclaimedBytes": int64("Bytes given back."),
            "finishedAt": instant("When it was done."),
        },
        about="One member.",
        required=["name"],
    )
    return obj(
        {
            "phase": text("Pending, Running, Complete or Failed."),
            "startedAt": instant("When it began."),
            "completedAt": instant("When it ended."),
            "defragmented": int32("Members defragmented."),
            "members": {
                **listing(member, "What became of each member."),
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "conditions": conditions(),
        },
        about="How far it is.",
    )


# --- CRDs -----------------------------------------------------------------------------------


def column(name, path, kind="string"):
    return {"name": name, "type": kind, "jsonPath": path}


AGE = column("Age", ".metadata.creationTimestamp", "date")
READY = '.status.conditions[?(@.type=="Ready")].status'


def crd(kind, spec, status, columns, *, about, scale=None, supported=True):
    plural = kind.lower() + "s"
    schema = obj(
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
        about=about,
    )
    if not supported:
        schema["x-kubernetes-validations"] = [only_existing("true", kind)]
    subresources = {"status": {}}
    if scale:
        subresources["scale"] = scale
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "scope": "Namespaced",
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": subresources,
                }
            ],
        },
    }


def all_kinds(core):
    """Every CRD, by the name of its file."""
    cluster_ref = column("Cluster", ".spec.clusterRef.name")
    phase = column("Phase", ".status.phase")
    crds = [
        crd(
            "EtcdCluster",
            cluster_spec(core),
            cluster_status(core),
            [
                column("Version", ".spec.version"),
                column("Replicas", ".spec.replicas", "integer"),
                column("Ready", ".status.readyMembers", "integer"),
                AGE,
            ],
            about="An etcd cluster.",
            scale={
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.readyMembers",
                "labelSelectorPath": ".status.selector",
            },
        ),
        crd(
            "EtcdMember",
            member_spec(core),
            member_status(),
            [
                column("Cluster", ".spec.clusterName"),
                column("Version", ".spec.version"),
                column("Running", ".status.version"),
                column("Ready", READY),
                AGE,
            ],
            about="One member of an etcd cluster; made and kept by the operator.",
            scale={
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        ),
        crd(
            "EtcdSnapshot",
            snapshot_spec(),
            snapshot_status(),
            [cluster_ref, phase, AGE],
            about="One snapshot of an etcd cluster.",
            supported=False,
        ),
        crd(
            "EtcdDefrag",
            defrag_spec(),
            defrag_status(),
            [cluster_ref, phase, column("Defragmented", ".status.defragmented", "integer"), AGE],
            about="One defragmentation of an etcd cluster.",
            supported=False,
        ),
    ]
    return {f"{each['spec']['names']['plural']}.yaml": each for each in crds}
