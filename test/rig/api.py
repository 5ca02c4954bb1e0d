# SPDX-License-Identifier: Apache-2.0
"""A very small Kubernetes client on the standard library.

The rig's own processes use it because importing the official client takes longer than starting
a node should. Tests use the official client.
"""

import base64
import http.client
import json
import tempfile
import time
import urllib.parse
from pathlib import Path

from rig.errors import RigError
from rig.pki import Pair, client_context

TIMEOUT = 30
ASKED_AGAIN = 10  # how often one who is told to come later does


class ApiError(RigError):
    """An answer of the apiserver that is not a success."""

    def __init__(self, method, path, status, text):
        super().__init__(f"{method} {path}: {status} {text}")
        self.status = status


# Whatever may come of a request to an apiserver that is slow, restarting or gone.
FAILURES = (OSError, http.client.HTTPException, ApiError)


def write_kubeconfig(path, url, ca, pair):
    """A kubeconfig with everything inside. JSON is YAML, and needs no library to be read."""

    def inline(file):
        return base64.b64encode(file.read_bytes()).decode()

    cluster = {"server": url, "certificate-authority-data": inline(ca)}
    user = {"client-certificate-data": inline(pair.cert), "client-key-data": inline(pair.key)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": cluster}],
        "users": [{"name": "rig", "user": user}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": "rig"}}],
        "current-context": "rig",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(config, indent=2) + "\n")
    return path


class Api:
    """Requests to one apiserver as one user. Safe to use from several threads."""

    def __init__(self, kubeconfig):
        """`kubeconfig` is a file made by `write_kubeconfig`."""
        config = json.loads(Path(kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self.url = cluster["server"]
        self._address = urllib.parse.urlsplit(self.url).netloc
        with tempfile.TemporaryDirectory() as scratch:

            def outline(name, data):
                file = Path(scratch) / name
                file.write_bytes(base64.b64decode(data))
                return file

            pair = Pair(
                outline("cert", user["client-certificate-data"]),
                outline("key", user["client-key-data"]),
            )
            ca = outline("ca", cluster["certificate-authority-data"])
            self._context = client_context(ca, pair)

    def request(self, method, path, body=None, content_type="application/json"):
        """The decoded answer; `ApiError` unless it is a success.

        One who is told when to come again does, as the official clients of Go do: a server that
        changes the schema of a kind answers so for a moment.
        """
        with self._open(method, path, body, content_type, TIMEOUT) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def get(self, path):
        return self.request("GET", path)

    def find(self, path):
        """Like `get`, but None for what does not exist."""
        try:
            return self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def create(self, path, body):
        """Create, or leave alone what is already there: starting twice is not an error."""
        try:
            return self.request("POST", path, body)
        except ApiError as error:
            if error.status == 409:
                return None
            raise

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path, **options):
        """Delete; fine if it is already gone."""
        try:
            return self.request("DELETE", path, options)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def watch(self, path, version, seconds=60):
        """The events of a collection since a version, ending after `seconds` or with the stream.

        `path` may carry selectors. An ERROR event (the version is too old) is an `ApiError`.
        """
        joint = "&" if "?" in path else "?"
        path += f"{joint}watch=1&resourceVersion={version}&timeoutSeconds={seconds}"
        with self._open("GET", path, None, None, seconds + 10) as answer:
            for line in answer:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError("WATCH", path, status.get("code"), status.get("message"))
                yield event["type"], event["object"]

    def follow(self, path, handle):
        """Call `handle(type, object)` for every object of a collection and then for every change.

        Never returns. When the stream or `handle` fails, everything is listed anew and comes as
        ADDED again, so what failed is tried until it succeeds. What vanished meanwhile is not
        reported: the caller must also look at what it has from time to time.
        """
        while True:
            try:
                listed = self.get(path)
                for item in listed["items"]:
                    handle("ADDED", item)
                for kind, item in self.watch(path, listed["metadata"]["resourceVersion"]):
                    handle(kind, item)
            except FAILURES as problem:
                print(f"{path}: {problem}", flush=True)
                time.sleep(0.5)

    def ready(self):
        """Whether the apiserver says it is ready."""
        try:
            return self.get("/readyz") == "ok"
        except FAILURES:
            return False

    def _open(self, method, path, body, content_type, timeout):
        left = ASKED_AGAIN
        while (answer := self._ask(method, path, body, content_type, timeout)).status >= 300:
            with answer:
                text = answer.read().decode().strip()
            pause = answer.headers.get("Retry-After", "") if answer.status == 429 else ""
            if not pause.isdigit() or not left:
                raise ApiError(method, path, answer.status, text)
            left -= 1
            time.sleep(int(pause))
        return answer

    def _ask(self, method, path, body, content_type, timeout):
        connection = http.client.HTTPSConnection(
            self._address, context=self._context, timeout=timeout
        )
        headers = {"Accept": "application/json", "Connection": "close"}
        if content_type:
            headers["Content-Type"] = content_type
        text = None if body is None else json.dumps(body)
        connection.request(method, path, text, headers)
        return connection.getresponse()
