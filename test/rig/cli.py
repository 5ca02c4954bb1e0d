# SPDX-License-Identifier: Apache-2.0
"""The command line of the rig."""

import argparse
import signal
import sys

from rig import faults, tools
from rig.cluster import Kubernetes
from rig.errors import RigError
from rig.instance import MAX_NODES
from rig.node import KINDS


def main():
    options = _parser().parse_args()
    signal.signal(signal.SIGTERM, _terminate)
    try:
        options.run(Kubernetes(options.dir), options)
    except RigError as error:
        sys.stderr.write(f"kubernetes: {error}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def _terminate(number, frame):
    """End like an interrupted program, so that a half-started rig is taken down again."""
    sys.exit(128 + number)


def _parser():
    parser = argparse.ArgumentParser(
        prog="kubernetes", description="A real Kubernetes on this machine, for tests."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    everywhere = argparse.ArgumentParser(add_help=False)
    everywhere.add_argument(
        "--dir", default=tools.REPOSITORY / "build" / "rig", help="state directory [build/rig]"
    )

    def command(name, run, help, *arguments):
        added = commands.add_parser(name, help=help, parents=[everywhere])
        for words, settings in arguments:
            added.add_argument(*words, **settings)
        added.set_defaults(run=run)

    def argument(*words, **settings):
        return words, settings

    command(
        "up",
        lambda rig, options: rig.up(options.nodes, options.node_kind),
        "bring the rig up",
        argument("--nodes", type=int, default=3, choices=range(MAX_NODES + 1), metavar="N"),
        argument("--node-kind", choices=KINDS, default="kubelet"),
    )
    command("down", lambda rig, _: rig.down(), "take the rig down, leaving nothing behind")
    command("status", _status, "say what runs")
    command("kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig")
    command("logs", _logs, "print the end of every log", argument("name", nargs="?"))
    command(
        "load-image",
        lambda rig, options: rig.load_image(options.archive),
        "give an image to every node",
        argument("archive"),
    )
    command(
        "node",
        lambda rig, options: _node(rig, options.verb, options.node),
        "lose a node, or get it back",
        argument("verb", choices=("stop", "pause", "cut", "start")),
        argument("node", type=int, metavar="N"),
    )
    command(
        "dns",
        lambda rig, options: {"stop": faults.stop_dns, "start": faults.start_dns}[options.verb](
            rig
        ),
        "lose cluster DNS, or get it back",
        argument("verb", choices=("stop", "start")),
    )
    command(
        "apiserver",
        lambda rig, _: faults.restart_apiserver(rig),
        "restart the apiserver",
        argument("verb", choices=("restart",)),
    )
    command(
        "kill-pod",
        lambda rig, options: faults.kill_pod(rig, options.namespace, options.pod),
        "kill the processes of a Pod's containers",
        argument("-9", action="store_true", dest="kill", help="the only signal there is"),
        argument("-n", "--namespace", default="default"),
        argument("pod"),
    )
    command(
        "volume",
        _volume,
        "lose the content of a claim's volume, or its last free byte",
        argument("verb", choices=("lose", "fill")),
        argument("-n", "--namespace", default="default"),
        argument("claim", metavar="PVC"),
    )
    command(
        "drain",
        lambda rig, options: faults.drain(rig, f"node{options.node}"),
        "evict every Pod of a node",
        argument("node", type=int, metavar="N"),
    )
    return parser


def _kubeconfig(rig, options):
    print(rig.kubeconfig)


def _status(rig, options):
    if not rig.running():
        raise RigError(f"no rig is up in {rig.state.directory}")
    for process in rig.processes.all():
        print(f"{process.name:26} {process.pid:8} {'running' if process.alive() else 'ended'}")


def _logs(rig, options):
    for process in rig.processes.all():
        if options.name in (None, process.name):
            print(f"==> {process.log} <==\n{process.tail(None if options.name else 20)}\n")


def _node(rig, verb, index):
    node = rig.nodes.get(f"node{index}")
    if not node:
        raise RigError(f"there is no node {index}")
    with rig.state.locked():
        if verb == "start":
            node.restore(rig.api)
        else:
            getattr(node, verb)()


def _volume(rig, options):
    verb = {"lose": faults.lose_volume, "fill": faults.fill_volume}[options.verb]
    verb(rig, options.namespace, options.claim)


if __name__ == "__main__":
    main()
