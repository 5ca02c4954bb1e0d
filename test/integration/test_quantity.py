# SPDX-License-Identifier: Apache-2.0
"""Our quantities against a real API server's.

Two judges. The size limit of a volume comes back in the server's own canonical form, unless the
server keeps the text as it was written (it does so for short texts it takes for canonical already,
"1.500" among them). Storage requests of claims would do too, but are rounded up to 1m on their way.
And a CEL rule of a CRD compares two quantities by value, which also covers negative amounts.
"""

import http.client
import json
import random
import re
import urllib.parse

import pytest

from rig import pki
from rig.definitions import definition
from rig.wait import until

VALUES = 10_000
PER_OBJECT = 100
SEED = 20261115
PAIRS = "/apis/test.raftsman/v1/pairs"
BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
SUFFIXES = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", *BINARY]

# From the documentation of resource units and of the Quantity type.
DOCUMENTED = {
    "0.5": "500m",
    "0.1": "100m",
    "100m": "100m",
    "1": "1",
    "128974848": "128974848",
    "129e6": "129e6",
    "129M": "129M",
    "128974848000m": "128974848",
    "123Mi": "123Mi",
    "400m": "400m",
    "1.5Gi": "1536Mi",
    "1.5": "1500m",
    "0.1m": "100u",
    "5m": "5m",
    "0.005": "5m",
    "12e6": "12e6",
    "1Ki": "1Ki",
    "1024Mi": "1Gi",
    "64Mi": "64Mi",
    "250m": "250m",
    "1e3": "1e3",
}

EQUAL = {
    "rule": "quantity(self.a).compareTo(quantity(self.b)) == 0",
    "messageExpression": "self.a + ' is not ' + self.b",
}
PAIR = {
    "type": "object",
    "properties": {side: {"type": "string", "maxLength": 64} for side in "ab"},
    "x-kubernetes-validations": [EQUAL],
}
CRD = definition(
    "Pair",
    "test.raftsman",
    {"pairs": {"type": "array", "maxItems": PER_OBJECT, "items": PAIR}},
    scope="Cluster",
)


class Server:
    """One kept-alive connection."""

    def __init__(self, control_plane):
        authority = control_plane.authority
        pair = authority.issue("quantity", "quantity", "system:masters")
        address = urllib.parse.urlsplit(control_plane.url).netloc
        self._connection = http.client.HTTPSConnection(
            address, context=pki.client_context(authority.cert, pair), timeout=30
        )

    def create(self, path, body):
        """(status, answer) of a create that the server validates and answers, but forgets."""
        return self._post(f"{path}?dryRun=All", body)

    def install(self, path, body):
        return self._post(path, body)

    def _post(self, path, body):
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text) if text.startswith(b"{") else text.decode()

    def canonical(self, quantities):
        """Each quantity as the server gives it back."""
        volumes = [
            {"name": f"v{i}", "emptyDir": {"sizeLimit": quantity}}
            for i, quantity in enumerate(quantities)
        ]
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        labels = {"metadata": {"labels": {"a": "b"}}}
        status, answer = self.create(
            "/api/v1/namespaces/default/podtemplates",
            {"metadata": {"name": "quantities"}, "template": labels | {"spec": spec}},
        )
        assert status == 201, answer
        stored = answer["template"]["spec"]["volumes"]
        return [volume["emptyDir"]["sizeLimit"] for volume in stored]


@pytest.fixture(scope="module")
def server(control_plane):
    return Server(control_plane)


def canonical(raftsman, tmp_path, values):
    path = tmp_path / "values"
    path.write_text("".join(f"{value}\n" for value in values))
    result = raftsman("convert", "quantity", "--file", path)
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def random_quantity(rng):
    """Any text of the documented grammar, leaning towards the edges of range and precision."""
    whole = rng.choice(["", "0", str(rng.randrange(10)), str(rng.randrange(2000)),
                        str(rng.randrange(10 ** rng.randrange(1, 17)))])  # fmt: skip
    fraction = "".join(rng.choices("0123456789", k=rng.choice([0, 0, 1, 2, 3, 6, 12])))
    if not whole and not fraction:
        whole = "7"
    point = "." if fraction or rng.random() < 0.05 else ""
    suffix = rng.choice(SUFFIXES + [f"e{rng.randrange(-12, 13)}", f"E{rng.randrange(0, 9)}"])
    return f"{rng.choice(['', '', '', '+'])}{whole}{point}{fraction}{suffix}"


def in_range(quantity):
    """Below 10^21, where the server begins to print wrong canonical forms; see quantity.h."""
    whole, power, suffix = re.fullmatch(
        r"\+?(\d*)(?:\.\d*)?(?:[eE](-?\d+)|([a-zA-Z]*))", quantity
    ).groups()
    exponent = int(power) if power else {"E": 18, "P": 15, "T": 12}.get(suffix, 9)
    return suffix in BINARY or len(whole.lstrip("0")) + exponent <= 21


def chunks(*columns):
    for start in range(0, VALUES, PER_OBJECT):
        yield tuple(column[start : start + PER_OBJECT] for column in columns)


def test_documented_examples(raftsman, server, tmp_path):
    want = list(DOCUMENTED.values())
    assert canonical(raftsman, tmp_path, DOCUMENTED) == want
    assert server.canonical(want) == want  # the server agrees that these are canonical


def test_random_values_have_the_servers_canonical_form(raftsman, server, tmp_path):
    rng = random.Random(SEED)
    values = []
    while len(values) < VALUES:
        if in_range(value := random_quantity(rng)):
            values.append(value)
    kept = 0
    for written, ours in chunks(values, canonical(raftsman, tmp_path, values)):
        theirs = server.canonical(written)
        assert server.canonical(ours) == ours  # what we print is canonical to the server
        for text, mine, its in zip(written, ours, theirs, strict=True):
            assert its in (mine, text), f"{text}: the server prints {its}, we print {mine}"
            kept += its != mine
    print(f"seed {SEED}: {VALUES - kept} equal, {kept} kept by the server as written")
    assert kept < VALUES / 4


def test_random_values_equal_their_canonical_form_in_cel(raftsman, server, tmp_path):
    status, answer = server.install("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    assert status == 201, answer
    body = {"apiVersion": "test.raftsman/v1", "kind": "Pair", "metadata": {"name": "x"}}
    served = {"pairs": []}
    until(lambda: server.create(PAIRS, body | served)[0] == 201, 10, "the CRD is served")
    rng = random.Random(SEED + 1)
    values = []
    while len(values) < VALUES:
        if in_range(value := random_quantity(rng)):
            values.append(rng.choice(["", "-"]) + value.lstrip("+"))
    ours = canonical(raftsman, tmp_path, values)
    for written, printed in chunks(values, ours):
        pairs = [{"a": a, "b": b} for a, b in zip(written, printed, strict=True)]
        status, answer = server.create(PAIRS, body | {"pairs": pairs})
        assert status == 201, answer["message"]
    # The rule can fail: a wrong pair is refused.
    wrong = body | {"pairs": [{"a": "1Ki", "b": "1k"}]}
    status, answer = server.create(PAIRS, wrong)
    assert status == 422 and "1Ki is not 1k" in answer["message"]
