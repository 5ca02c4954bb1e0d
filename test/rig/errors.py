# SPDX-License-Identifier: Apache-2.0
"""What the rig says when it cannot go on."""


class RigError(Exception):
    """A failure of the rig itself; its message is what the user reads."""

    exit_code = 1


class Missing(RigError):
    """This machine lacks something the rig needs. Raised before anything is started."""

    exit_code = 3
