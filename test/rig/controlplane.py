# SPDX-License-Identifier: Apache-2.0
"""The control plane: etcd, kube-apiserver, kube-controller-manager; with nodes, a scheduler."""

import contextlib
import ipaddress
import json

from rig import etcd, pki, ports, tools
from rig.api import Api, write_kubeconfig
from rig.process import Processes

START_SECONDS = 60

# Every finished request once, without bodies: enough to count requests per user agent.
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}


def make_user(directory, url, name, common_name=None, group=None):
    """The kubeconfig of a user who may do what RBAC grants to that name and group."""
    authority = pki.Authority(directory / "pki")
    pair = authority.issue(name, common_name or name, group)
    path = directory / "users" / f"{name}.kubeconfig"
    return write_kubeconfig(path, url, authority.cert, pair)


class ControlPlane:
    """One control plane, bound to one address. Nothing runs until `start`."""

    def __init__(self, processes, address="127.0.0.1", service_range="10.96.0.0/16"):
        self.processes = processes
        self.directory = processes.directory
        self.address = address
        self.service_range = ipaddress.ip_network(service_range)
        self.url = f"https://{address}:{ports.free(address)}"
        self.authority = pki.Authority(self.directory / "pki")
        self.kubeconfig = self.directory / "kubeconfig"
        self.audit_log = self.directory / "logs" / "audit.log"

    def start(self, scheduler=False):
        """Start everything and wait until a Pod could be created."""
        storage = etcd.Cluster(self.processes, flags=["--unsafe-no-fsync"])
        storage.start()
        admin = self.authority.issue("admin", "admin", "system:masters")
        write_kubeconfig(self.kubeconfig, self.url, self.authority.cert, admin)
        self._start_apiserver(storage.endpoints)
        self._start("kube-controller-manager", self._controller_manager_flags())
        if scheduler:
            self._start("kube-scheduler", [])
        self.wait_ready()

    def wait_ready(self):
        """Ready: the apiserver says so, and controllers work, as `default`'s account shows."""
        api = Api(self.kubeconfig)
        self.processes.get("kube-apiserver").wait_ready(api.ready, START_SECONDS)
        self.processes.get("kube-controller-manager").wait_ready(
            lambda: api.find("/api/v1/namespaces/default/serviceaccounts/default"), START_SECONDS
        )

    def user(self, name, common_name=None, group=None):
        """See `make_user`."""
        return make_user(self.directory, self.url, name, common_name, group)

    def _start_apiserver(self, storage):
        service_names = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        service_names.append("kubernetes.default.svc.cluster.local")
        serving = self.authority.issue(
            "kube-apiserver",
            "kube-apiserver",
            hosts=["localhost", self.address, str(self.service_range[1]), *service_names],
        )
        kubelet_client = self.authority.issue("kubelet-client", "kube-apiserver", "system:masters")
        accounts = pki.signing_key(self.directory / "pki" / "service-accounts.key")
        policy = self.directory / "audit-policy.json"
        policy.write_text(json.dumps(AUDIT_POLICY))
        # A loopback address is not allowed in the endpoints of the service `kubernetes`.
        loopback = ipaddress.ip_address(self.address).is_loopback
        argv = [
            tools.binary("kubernetes", "kube-apiserver"),
            f"--etcd-servers={','.join(storage)}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--endpoint-reconciler-type={'none' if loopback else 'lease'}",
            f"--service-cluster-ip-range={self.service_range}",
            f"--tls-cert-file={serving.cert}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={self.authority.cert}",
            f"--kubelet-certificate-authority={self.authority.cert}",
            f"--kubelet-client-certificate={kubelet_client.cert}",
            f"--kubelet-client-key={kubelet_client.key}",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={accounts}",
            f"--service-account-signing-key-file={accounts}",
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self.audit_log}",
            "--profiling=false",
        ]
        process = self.processes.start("kube-apiserver", argv)
        process.wait_ready(Api(self.kubeconfig).ready, START_SECONDS)

    def _controller_manager_flags(self):
        """A lost node is noticed in a third of the usual time; kubelets report as much faster.

        Every controller makes its ServiceAccount at the start: the usual limit on requests would
        stretch that over four seconds.
        """
        return [
            "--use-service-account-credentials=true",
            f"--root-ca-file={self.authority.cert}",
            f"--service-account-private-key-file={self.directory / 'pki/service-accounts.key'}",
            f"--cluster-signing-cert-file={self.authority.cert}",
            f"--cluster-signing-key-file={self.authority.key}",
            "--allocate-node-cidrs=false",
            "--kube-api-qps=500",
            "--kube-api-burst=500",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=16s",
        ]

    def _start(self, name, flags):
        """Start a component that talks only to the apiserver, as the user RBAC knows it by."""
        kubeconfig = self.user(name, f"system:{name}")
        argv = [
            tools.binary("kubernetes", name),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={self.address}",
            f"--secure-port={ports.free(self.address)}",
            "--leader-elect=false",
            *flags,
        ]
        self.processes.start(name, argv)


@contextlib.contextmanager
def running(directory, **options):
    """A control plane for a test; it ends with the block, and at the latest with the test run."""
    processes = Processes(directory, die_with_parent=True)
    try:
        control_plane = ControlPlane(processes, **options)
        control_plane.start()
        yield control_plane
    finally:
        processes.stop_all()
