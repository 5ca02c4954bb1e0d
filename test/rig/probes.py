# SPDX-License-Identifier: Apache-2.0
"""A startup, liveness or readiness probe on a process node."""

import http.client
import socket
import ssl
import time


class Probe:
    """One probe of one run of a container."""

    def __init__(self, probe, container):
        self._probe = probe
        self._ports = {p.get("name"): p["containerPort"] for p in container.get("ports", [])}
        self._due = time.monotonic() + probe.get("initialDelaySeconds", 0)
        self._verdict, self._streak = None, (None, 0)

    def check(self, run, address):
        """Probe if it is time. True or False once the threshold is met, None before."""
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + self._probe.get("periodSeconds", 10)
            success = self._try(run, address)
            last, count = self._streak
            self._streak = (success, count + 1 if success == last else 1)
            name, default = ("successThreshold", 1) if success else ("failureThreshold", 3)
            if self._streak[1] >= self._probe.get(name, default):
                self._verdict = success
        return self._verdict

    def _try(self, run, address):
        seconds = self._probe.get("timeoutSeconds", 1)
        if command := self._probe.get("exec"):
            return run.execute(command["command"], seconds)
        target = self._probe.get("httpGet") or self._probe["tcpSocket"]
        port = self._ports.get(target["port"], target["port"])
        try:
            if "httpGet" not in self._probe:
                socket.create_connection((address, port), seconds).close()
                return True
            client = http.client.HTTPConnection(address, port, timeout=seconds)
            if target.get("scheme") == "HTTPS":
                client = http.client.HTTPSConnection(
                    address, port, timeout=seconds, context=_unverified()
                )
            client.request("GET", target.get("path", "/"))
            return 200 <= client.getresponse().status < 400
        except (OSError, http.client.HTTPException):
            return False


def _unverified():
    """Like kubelet, which does not check the certificates of what it probes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
