# SPDX-License-Identifier: Apache-2.0
"""Free TCP ports."""

import random
import socket

# Below the kernel's ephemeral range, so that no outgoing connection takes a port between the
# moment it is found free and the moment the server binds it.
RANGE = range(20000, 32000)

_given = set()


def free(address="127.0.0.1"):
    """A port nobody listens on; never the same twice in one process."""
    while True:
        port = random.choice(RANGE)
        if port in _given:
            continue
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
        _given.add(port)
        return port
