# SPDX-License-Identifier: Apache-2.0
"""Cluster DNS: CoreDNS on the control plane's address."""

import socket
import struct

from rig import tools
from rig.api import Api

NAME = "coredns"

# Negative answers are kept for one second only: a member that asks for the others' names before
# they exist would otherwise wait for the cache and not for them.
COREFILE = """\
.:53 {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
        ttl 5
    }}
    cache 5 {{
        denial 9984 1
    }}
}}
"""

READS = ["list", "watch"]
RULES = [
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": READS},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": READS},
]


def start(processes, control_plane):
    """Start CoreDNS as a user who may read Services and their endpoints."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    api = Api(control_plane.kubeconfig)
    api.create(f"{rbac}/clusterroles", {"metadata": {"name": NAME}, "rules": RULES})
    group = "rbac.authorization.k8s.io"
    api.create(
        f"{rbac}/clusterrolebindings",
        {
            "metadata": {"name": NAME},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": NAME},
            "subjects": [{"apiGroup": group, "kind": "User", "name": NAME}],
        },
    )
    corefile = processes.directory / "Corefile"
    kubeconfig = control_plane.user(NAME)
    corefile.write_text(COREFILE.format(address=control_plane.address, kubeconfig=kubeconfig))
    processes.start(NAME, [tools.binary("coredns", "coredns"), "-conf", corefile])


def wait_ready(processes, address):
    """Wait until CoreDNS knows the one Service that every cluster has."""
    process = processes.get(NAME)
    process.wait_ready(lambda: knows(address, "kubernetes.default.svc.cluster.local"), 30)


def knows(server, name):
    """Whether a DNS server answers with an address for that name."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    # A header with one recursive question, then the question: type A, class IN.
    query = struct.pack("!6H", 1, 0x0100, 1, 0, 0, 0) + labels + struct.pack("!BHH", 0, 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        client.connect((server, 53))
        try:
            client.send(query)
            answer = client.recv(512)
        except OSError:
            return False
    return len(answer) > 12 and struct.unpack("!6H", answer[:12])[3] > 0
