# SPDX-License-Identifier: Apache-2.0
"""The first process of a real node: starts containerd, kubelet and kube-proxy, and then reaps."""

import os
import sys
from pathlib import Path

from rig import nodeinit
from rig.nodefiles import SOCKET
from rig.wait import until

# What a kubelet sets the kernel to. These are the whole machine's, so it is shown files that
# already have the values, and leaves the real ones alone.
KUBELET_SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def main(directory):
    node = nodeinit.enter(directory)
    _mount(directory)
    daemons = {_spawn("containerd", "--config", directory / "containerd.toml"): "containerd"}
    until(Path(SOCKET).exists, 20, "containerd listens")
    importing = {_spawn(*import_command(SOCKET, archive)) for archive in node["images"]}
    kubelet = _spawn(
        node["kubelet"],
        f"--config={directory}/kubelet.json",
        f"--kubeconfig={node['kubeconfig']}",
        f"--hostname-override={node['name']}",
        f"--node-ip={node['address']}",
    )
    proxy = _spawn(node["kube-proxy"], f"--config={directory}/kube-proxy.json")
    daemons |= {kubelet: "kubelet", proxy: "kube-proxy"}
    while True:
        pid, status = os.wait()
        if pid in daemons:
            sys.exit(f"{daemons[pid]} ended")
        if pid in importing:
            importing.remove(pid)
            if status:
                sys.exit("an image could not be imported")
            if not importing:
                (directory / nodeinit.LOADED).touch()


def import_command(address, archive):
    """The words that give an image archive to the containerd at a socket."""
    return "ctr", f"--address={address}", "--namespace=k8s.io", "images", "import", archive


def _mount(directory):
    """Private directories where kubelet and CNI expect theirs. `/run` is empty after every start,
    as after a reboot; what Pods keep on the node and their logs survive in its directory."""
    own = {"kubelet": "/var/lib/kubelet", "cni-results": "/var/lib/cni", "log": "/var/log"}
    for source, target in own.items():
        (directory / source).mkdir(exist_ok=True)
        Path(target).mkdir(parents=True, exist_ok=True)
        nodeinit.run("mount", "--bind", directory / source, target)
    for name, value in KUBELET_SYSCTLS.items():
        shown = Path("/run", name.replace("/", "."))
        shown.write_text(f"{value}\n")
        nodeinit.run("mount", "--bind", shown, Path("/proc/sys", name))


def _spawn(*words):
    return os.posix_spawnp(os.fspath(words[0]), [os.fspath(word) for word in words], os.environ)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
