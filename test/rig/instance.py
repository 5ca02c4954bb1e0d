# SPDX-License-Identifier: Apache-2.0
"""The number of a rig, and every name and address that derives from it.

Rigs side by side differ in this number and in nothing else. It is taken by creating the bridge
`rig<number>`, which the kernel lets only one caller do, with a hardware address that derives from
the state directory. So the kernel itself knows who owns which number, and there is no registry
that a crash could leave wrong.
"""

import hashlib
import ipaddress
from dataclasses import dataclass
from pathlib import Path

LIMIT = 40
MAX_NODES = 9


@dataclass(frozen=True)
class Instance:
    """One number."""

    number: int

    @property
    def bridge(self):
        return f"rig{self.number}"

    @property
    def cgroup(self):
        return f"raftsman-rig{self.number}"

    @property
    def subnet(self):
        """The machines: the control plane and the nodes."""
        return ipaddress.ip_network(f"10.70.{self.number}.0/24")

    @property
    def pods(self):
        return ipaddress.ip_network(f"10.{100 + self.number}.0.0/16")

    @property
    def services(self):
        return ipaddress.ip_network(f"10.{150 + self.number}.0.0/16")

    @property
    def address(self):
        """Of the control plane and of DNS."""
        return str(self.subnet[1])

    def node_address(self, index):
        return str(self.subnet[10 + index])

    def node_pods(self, index):
        """The range of the Pods of one node."""
        return list(self.pods.subnets(new_prefix=24))[index]

    def node_link(self, index):
        """The host's end of the node's cable."""
        return f"{self.bridge}n{index}"


def hardware_address(directory):
    """The address of the bridge of the rig in that state directory."""
    digest = hashlib.sha256(str(Path(directory).resolve()).encode()).hexdigest()
    return ":".join(["02", *(digest[i : i + 2] for i in range(0, 10, 2))])


def find(directory):
    """The instance whose bridge belongs to that state directory, or None."""
    wanted = hardware_address(directory)
    for number in range(LIMIT):
        try:
            address = Path(f"/sys/class/net/rig{number}/address").read_text().strip()
        except OSError:
            continue
        if address == wanted:
            return Instance(number)
    return None
