# SPDX-License-Identifier: Apache-2.0
"""How every benchmark reports: ours beside a peer measured in the same run, and the ratio.

A ratio has a goal; missing it fails the run. Absolute numbers are there to be read, not compared
across machines.
"""

import statistics
import subprocess
import sys
import time


class Table:
    """Rows of one benchmark. `exit()` prints them and ends the program: 1 if a goal was missed."""

    def __init__(self, title):
        self.title = title
        self.rows = []

    def ratio(self, what, ours, peer, unit, at_most=None, at_least=None):
        """Ours over the peer's, to stay within a bound."""
        value = ours / peer
        goal, met = "", True
        if at_most is not None:
            goal, met = f"<= {at_most:g}", value <= at_most
        if at_least is not None:
            goal, met = f">= {at_least:g}", value >= at_least
        self._add(what, f"{ours:.4g} {unit}", f"{peer:.4g} {unit}", f"{value:.3f}", goal, met)

    def value(self, what, ours, unit, at_most=None):
        """An absolute figure, such as memory, that does not depend on the machine's speed."""
        met = at_most is None or ours <= at_most
        goal = f"<= {at_most:g} {unit}" if at_most is not None else ""
        self._add(what, f"{ours:.4g} {unit}", "", "", goal, met)

    def exit(self):
        head = ("", "ours", "peer", "ratio", "goal", "")
        widths = [max(len(row[i]) for row in [head, *self.rows]) for i in range(len(head))]
        print(f"\n{self.title}")
        for row in [head, *self.rows]:
            print("  " + "  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip())
        sys.exit(any(row[-1] == "MISSED" for row in self.rows))

    def _add(self, what, ours, peer, ratio, goal, met):
        self.rows.append((what, ours, peer, ratio, goal, "" if met else "MISSED"))


def seconds(command):
    """How long a command takes, once."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def medians(commands, rounds):
    """The median time of each command, taken in turns so that a busy moment hits all alike."""
    times = [[] for _ in commands]
    for _ in range(rounds):
        for taken, command in zip(times, commands, strict=True):
            taken.append(seconds(command))
    return [statistics.median(taken) for taken in times]
