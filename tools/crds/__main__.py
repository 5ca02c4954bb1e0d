# SPDX-License-Identifier: Apache-2.0
"""Writes deploy/crds/: run `make crds` after a change of tools/crds/kinds.py."""

import sys
import tempfile
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "test"))

from core import Core  # noqa: E402
from kinds import all_kinds  # noqa: E402
from rig import controlplane  # noqa: E402
from rig.api import Api  # noqa: E402

HEAD = """\
# SPDX-License-Identifier: Apache-2.0
# Written by `make crds`; the source is tools/crds/kinds.py.
"""


def render(api):
    """The text of every file, by name."""
    core = Core(api.get("/openapi/v3/api/v1"))
    dump = yaml.CSafeDumper
    dump.ignore_aliases = lambda *_: True
    return {
        name: HEAD + yaml.dump(crd, Dumper=dump, sort_keys=True, width=100)
        for name, crd in all_kinds(core).items()
    }


def main():
    with (
        tempfile.TemporaryDirectory() as directory,
        controlplane.running(Path(directory)) as running,
    ):
        files = render(Api(running.kubeconfig))
    for name, text in files.items():
        (REPOSITORY / "deploy" / "crds" / name).write_text(text)
        print(f"deploy/crds/{name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
