# SPDX-License-Identifier: Apache-2.0
"""The configuration files of a node's containerd, CNI, kubelet and kube-proxy."""

import json

from rig import images

SOCKET = "/run/containerd/containerd.sock"

# The Debian package puts them there.
CNI_PLUGINS = "/usr/lib/cni"


def write(directory, instance, index, authority, proxy_kubeconfig):
    """Write them into the node's directory, which is named like the node."""
    name = directory.name
    serving = authority.issue(
        f"{name}-serving", f"system:node:{name}", hosts=[name, instance.node_address(index)]
    )
    (directory / "cni").mkdir(parents=True, exist_ok=True)
    (directory / "cni" / "rig.conflist").write_text(json.dumps(_cni(instance, index), indent=2))
    (directory / "containerd.toml").write_text(_containerd(directory))
    (directory / "resolv.conf").write_text(f"nameserver {instance.address}\n")
    kubelet = _kubelet(directory, instance, index, authority, serving)
    (directory / "kubelet.json").write_text(json.dumps(kubelet, indent=2))
    proxy = _kube_proxy(instance, name, proxy_kubeconfig)
    (directory / "kube-proxy.json").write_text(json.dumps(proxy, indent=2))


def _cni(instance, index):
    """Point-to-point cables, so that traffic between two Pods of a node is routed, not bridged:
    Service addresses then work between them without help from bridge filtering."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": str(instance.node_pods(index))}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    return {
        "cniVersion": "0.4.0",
        "name": "rig",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "ipam": addresses},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _containerd(directory):
    """`restrict_oom_score_adj` lets runc start without CAP_SYS_RESOURCE."""
    return f"""\
version = 2
root = "{directory}/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{images.PAUSE}"
  restrict_oom_score_adj = true
  disable_tcp_service = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{CNI_PLUGINS}"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def _kubelet(directory, instance, index, authority, serving):
    """Like a production kubelet, but quick: losses are noticed in seconds, and mounted Secrets
    follow within ten. The machine's disk and memory are shared, so eviction is all but off."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": instance.node_address(index),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority.cert)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.cert),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "clusterDNS": [instance.address],
        "clusterDomain": "cluster.local",
        "resolvConf": str(directory / "resolv.conf"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{instance.cgroup}/{directory.name}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "localStorageCapacityIsolation": False,
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "nodeLeaseDurationSeconds": 12,
        "nodeStatusUpdateFrequency": "4s",
        "syncFrequency": "10s",
        "oomScoreAdj": 0,
    }


def _kube_proxy(instance, name, kubeconfig):
    """Zeroes leave the kernel's connection tracking limits alone: they are the whole machine's."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": name,
        "clusterCIDR": str(instance.pods),
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "conntrack": {
            "maxPerCore": 0,
            "min": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
        "oomScoreAdj": 0,
    }
