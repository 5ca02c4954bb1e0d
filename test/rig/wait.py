# SPDX-License-Identifier: Apache-2.0
"""Waiting on conditions with a deadline."""

import time


class TimedOut(AssertionError):
    """The condition did not come true in time. An assertion: in a test this is the failure."""


def until(condition, seconds, what, every=0.1):
    """Poll `condition` until it returns something true, and return that.

    An exception raised by `condition` ends the wait at once, so a condition says itself which
    errors mean "not yet" by returning a false value for them.
    """
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() >= deadline:
            raise TimedOut(f"not within {seconds} s: {what}")
        time.sleep(every)
    return result
