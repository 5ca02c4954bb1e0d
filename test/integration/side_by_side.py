# SPDX-License-Identifier: Apache-2.0
"""Tests that mostly wait run side by side: each keeps its name, its parameters and its verdict.

    @pytest.fixture(scope="module")
    def ahead(request, control_plane, tmp_path_factory):
        yield from side_by_side.run(request, tmp_path_factory, 4, control_plane)

    @side_by_side.scenario
    def test_this(directory, control_plane, version): ...

A scenario is called in a thread as soon as the first test of the module needs `ahead`; the test
of its name waits for it, and fails as it failed.
"""

import concurrent.futures
import functools
import inspect


def scenario(function):
    """The test of a scenario: takes `ahead` and the parameters, and waits."""
    own = list(inspect.signature(function).parameters.values())
    shared = [p for p in own if p.name in ("directory", "control_plane")]
    given = [p for p in own if p not in shared]

    @functools.wraps(function)
    def test(ahead, request, **parameters):
        print(ahead[request.node.name].result() or "")

    test.scenario = function
    del test.__wrapped__  # pytest would take the parameters from there
    fixtures = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name in ("ahead", "request")
    ]
    test.__signature__ = inspect.Signature([*fixtures, *given])
    return test


def run(request, tmp_path_factory, workers, *shared):
    """Starts the scenarios of the tests that were chosen, so many at a time."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = {}
        for item in request.session.items:
            function = getattr(item.function, "scenario", None)
            if item.path != request.path or not function:
                continue
            parameters = item.callspec.params if hasattr(item, "callspec") else {}
            directory = tmp_path_factory.mktemp(item.originalname[:20])
            futures[item.name] = pool.submit(function, directory, *shared, **parameters)
        yield futures
        pool.shutdown(cancel_futures=True)
