# SPDX-License-Identifier: Apache-2.0
"""A whole cluster: up, down, and what it consists of."""

from rig import dns, images, instance, network, preflight, volumes
from rig.api import Api
from rig.cgroups import Group
from rig.controlplane import ControlPlane, make_user
from rig.errors import RigError
from rig.node import Node
from rig.process import Processes
from rig.state import State


class Kubernetes:
    """The rig in one state directory."""

    def __init__(self, directory):
        self.state = State(directory)
        self.kubeconfig = self.state.directory / "kubeconfig"

    @property
    def api(self):
        return Api(self.kubeconfig)

    @property
    def processes(self):
        group = Group(self.instance.cgroup) if self.instance else None
        return Processes(self.state.directory, group=group)

    @property
    def instance(self):
        """Its number and what derives from it; None without nodes."""
        return instance.find(self.state.directory)

    @property
    def nodes(self):
        """The nodes by name."""
        facts = self.state.facts() or {"nodes": 0}
        nodes = [Node(self.processes, self.instance, i + 1) for i in range(facts["nodes"])]
        return {node.name: node for node in nodes}

    def running(self):
        """Whether `up` was done and the control plane still runs."""
        if not self.state.facts():
            return False
        apiserver = self.processes.get("kube-apiserver")
        return bool(apiserver and apiserver.alive())

    def up(self, nodes, kind="kubelet"):
        """Bring the rig up, or do nothing if it is up already.

        What a killed `up` left is removed first, and a failure leaves only logs behind.
        """
        preflight.check(nodes, kind)
        wanted = {"nodes": nodes, "kind": kind}
        with self.state.locked():
            if self.running():
                if self.state.facts() != wanted:
                    raise RigError(f"already up as {self.state.facts()}: take it down first")
                return
            self._take_down()
            try:
                self._bring_up(nodes, kind)
                self.state.finish(wanted)
            except BaseException:
                self._take_down(keep_logs=True)
                raise

    def down(self):
        """Leave nothing behind, whatever state the rig is in."""
        with self.state.locked():
            self._take_down()

    def user(self, name, group=None):
        """The kubeconfig of a user who may do what RBAC grants to that name and group."""
        return make_user(self.state.directory, self.api.url, name, group=group)

    def load_image(self, archive):
        """Give an image to every node, for as long as the rig is up."""
        for node in self.nodes.values():
            node.load_image(archive, self.state.facts()["kind"])

    def _bring_up(self, count, kind):
        if count == 0:
            ControlPlane(self.processes).start()
            return
        number = network.claim(self.state.directory)
        network.raise_bridge(number)
        Group(number.cgroup).create()
        processes = self.processes
        control_plane = ControlPlane(processes, number.address, number.services)
        archives = images.standard()
        nodes = [Node(processes, number, index + 1) for index in range(count)]
        for node in nodes:
            node.prepare(control_plane, archives)
        control_plane.start(scheduler=True)
        volumes.start(processes, self.kubeconfig)
        dns.start(processes, control_plane)
        for node in nodes:
            node.start(kind)
        dns.wait_ready(processes, number.address)
        for node in nodes:
            node.wait_ready(self.api)

    def _take_down(self, keep_logs=False):
        """Processes first, by their records and then by their control group; then what they used.

        The bridge goes last, because it is what says which number, and so which group, is ours.
        """
        self.processes.stop_all()
        if found := self.instance:
            group = Group(found.cgroup)
            group.kill()
            group.remove()
            network.remove(found)
        self.state.clear(keep_logs)
