# SPDX-License-Identifier: Apache-2.0
"""Cluster DNS: CoreDNS on the control plane's address."""

import urllib.request

from rig import ports, tools
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
    ready {ready}
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
    address = control_plane.address
    corefile = processes.directory / "Corefile"
    corefile.write_text(
        COREFILE.format(
            address=address,
            kubeconfig=control_plane.user(NAME),
            ready=f"{address}:{ports.free(address)}",
        )
    )
    processes.start(NAME, [tools.binary("coredns", "coredns"), "-conf", corefile])


def wait_ready(processes):
    """Wait until CoreDNS has read what there is and answers from it."""
    corefile = (processes.directory / "Corefile").read_text()
    url = f"http://{corefile.partition('ready ')[2].split()[0]}/ready"

    def ready():
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    processes.get(NAME).wait_ready(ready, 30)
