# SPDX-License-Identifier: Apache-2.0
"""make demo: what works today, on real parts. The operator does not exist yet, and nothing here
pretends that it does.

Starts a real etcd 3.6.11 and a real Kubernetes API server on loopback, lets the API server judge
our reading of quantities, shows what bad input looks like, and takes everything down again.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "test"))

from rig import controlplane, tools  # noqa: E402

RAFTSMAN = REPOSITORY / "build" / "raftsman"
STORAGE = "{.spec.resources.requests.storage}"


def show(*command, text=None):
    """Run a command as a user would, with its output on the screen."""
    print("$ " + " ".join(str(word).replace(f"{REPOSITORY}/", "") for word in command), flush=True)
    return subprocess.run([*map(str, command)], input=text, text=True, check=False).returncode


def claim(quantity):
    return f"""
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: "{quantity}"}}}}}}
"""


def stored(kubectl, quantity):
    """The quantity as a real API server gives it back."""
    command = [*kubectl, "create", "--dry-run=server", "-f", "-", "-o", f"jsonpath={STORAGE}"]
    return subprocess.run(
        command, input=claim(quantity), text=True, check=True, capture_output=True
    ).stdout


def main():
    print("raftsman today: the base library and its command line. No operator yet.\n")
    show(RAFTSMAN, "--version")
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="raftsman-demo-") as directory,
        controlplane.running(Path(directory)) as cluster,
    ):
        kubectl = [tools.binary("kubernetes", "kubectl"), "--kubeconfig", cluster.kubeconfig]
        print(f"\na real etcd and kube-apiserver, ready in {time.monotonic() - begin:.1f} s:")
        show(*kubectl, "get", "--raw", "/readyz")
        print("\n\nquantities as we print them, and as the API server stores them:")
        wrong = 0
        for quantity in ("1.5Gi", "0.5Gi", "1024Mi", "1500M", "8Ei", "128974848000m"):
            ours = subprocess.run(
                [RAFTSMAN, "convert", "quantity", quantity],
                text=True,
                check=True,
                capture_output=True,
            ).stdout.strip()
            theirs = stored(kubectl, quantity)
            wrong += ours != theirs
            print(f"  {quantity:>14}  ->  {ours:>20}  {theirs:>20}")
    print("\nbad input:")
    code = show(RAFTSMAN, "convert", "duration", "5x", "--timeout", "soon")
    print(f"exit code {code}\n")
    if wrong or code != 2:
        sys.exit("the demo did not show what it claims")
    print("everything is stopped and removed.")


if __name__ == "__main__":
    main()
