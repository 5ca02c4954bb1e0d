# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of a real kube-apiserver that misbehaves as told.

It listens on loopback without TLS and forwards with the credentials of a kubeconfig. A fault is
given for the next request that matches, or for the streams that are open now. What was asked is
recorded.
"""

import contextlib
import http.client
import json
import queue
import socket
import ssl
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from rig.api import Api

GARBAGE = b"\xff\xfe\x00\xff"


@dataclass
class Fault:
    """What happens to one request. Several may be combined."""

    status: int = 0  # answered by the proxy itself
    body: bytes = b""
    headers: dict = field(default_factory=dict)
    cut_after: int = -1  # bytes of the body, then the connection is closed
    garble_after: int = -1  # bytes of the body, then some are overwritten
    delay: float = 0.0  # before each piece of the body
    hold: threading.Event = None  # forwarded when it is set
    drop_answer: bool = False  # forwarded, but the answer is thrown away


@dataclass
class Request:
    method: str
    path: str
    at: float

    @property
    def watch(self):
        return "watch=true" in self.path


class Stream:
    """An answer that is being passed on, and what is to happen to it."""

    def __init__(self, request, fault):
        self.request = request
        self.cut = threading.Event()
        self.silent = threading.Event()
        self.fault = fault
        self.inject = []  # lines for the next gap between two lines
        self.passed = 0

    def change(self, piece):
        """The piece as it goes on, and whether the connection is closed behind it."""
        start, self.passed = self.passed, self.passed + len(piece)
        fault = self.fault
        if start <= fault.garble_after < self.passed:
            at = fault.garble_after - start
            piece = piece[:at] + GARBAGE + piece[at + len(GARBAGE) :]
            fault.garble_after = -1
        if 0 <= fault.cut_after < self.passed:
            return piece[: max(0, fault.cut_after - start)], True
        return piece, False


class Proxy:
    """Use as a context manager; `kubeconfig` is what clients of the proxy take."""

    def __init__(self, kubeconfig, directory, name="proxy", authority=None):
        """With an `authority` (rig.pki) the proxy speaks TLS, and HTTP/1.1 only."""
        self._api = Api(kubeconfig)
        self._lock = threading.Lock()
        self._faults = []
        self.requests = []
        self.streams = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def handle_any(self):
                proxy._handle(self)

            do_GET = do_POST = do_PATCH = do_DELETE = do_PUT = handle_any

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass  # clients hang up: that is what is tested

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        cluster = {}
        if authority:
            pair = authority.issue(name, name, hosts=["127.0.0.1"])
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            context.load_cert_chain(pair.cert, pair.key)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            self.url = self.url.replace("http:", "https:")
            cluster["certificate-authority"] = str(authority.cert)
        self.kubeconfig = directory / f"{name}.kubeconfig"
        self.kubeconfig.write_text(
            json.dumps(
                {
                    "current-context": "p",
                    "contexts": [{"name": "p", "context": {"cluster": "p"}}],
                    "clusters": [{"name": "p", "cluster": {"server": self.url} | cluster}],
                }
            )
        )

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.clear()
        self.cut_streams()
        self._server.shutdown()
        self._server.server_close()

    # What goes wrong

    def next(self, fault, method=None, part=""):
        """For the next request of that method whose path holds that part."""
        with self._lock:
            self._faults.append((method, part, fault))

    def clear(self):
        with self._lock:
            for _, _, fault in self._faults:
                if fault.hold:
                    fault.hold.set()
            self._faults.clear()

    def cut_streams(self):
        for stream in self.open_streams():
            stream.cut.set()

    def silence_streams(self):
        for stream in self.open_streams():
            stream.silent.set()

    def garble_streams(self, after=0):
        for stream in self.open_streams():
            stream.fault.garble_after = stream.passed + after

    def truncate_streams(self, after):
        for stream in self.open_streams():
            stream.fault.cut_after = stream.passed + after

    def slow_streams(self, delay):
        for stream in self.open_streams():
            stream.fault.delay = delay

    def open_streams(self, part=""):
        with self._lock:
            return [s for s in self.streams if s.request.watch and part in s.request.path]

    # How it works

    def _take_fault(self, method, path):
        with self._lock:
            for i, (wanted, part, fault) in enumerate(self._faults):
                if wanted in (None, method) and part in path:
                    del self._faults[i]
                    return fault
        return Fault()

    def _handle(self, handler):
        request = Request(handler.command, handler.path, time.monotonic())
        body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.requests.append(request)  # it is here in full, whatever happens to its sender
        fault = self._take_fault(request.method, request.path)
        if fault.hold:
            fault.hold.wait(60)
        if fault.status:
            self._answer(handler, fault)
            return
        stream = Stream(request, fault)
        with self._lock:
            self.streams.append(stream)
        try:
            self._forward(handler, request, body, stream)
        except (OSError, http.client.HTTPException):
            handler.close_connection = True
        finally:
            with self._lock:
                self.streams.remove(stream)

    @staticmethod
    def _answer(handler, fault):
        handler.send_response(fault.status)
        for name, value in fault.headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(fault.body)))
        handler.end_headers()
        handler.wfile.write(fault.body)

    def _forward(self, handler, request, body, stream):
        kept = ("Content-Type", "Accept", "User-Agent")
        headers = {name: handler.headers[name] for name in kept if name in handler.headers}
        with contextlib.closing(
            http.client.HTTPSConnection(self._api._address, context=self._api._context)
        ) as up:
            up.request(request.method, request.path, body or None, headers)
            answer = up.getresponse()
            if stream.fault.drop_answer:
                answer.read()
                handler.close_connection = True
                return
            handler.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if answer.headers.get(name):
                    handler.send_header(name, answer.headers[name])
            handler.send_header("Transfer-Encoding", "chunked")
            handler.end_headers()
            handler.wfile.flush()
            self._pass_on(handler, answer, up, stream)

    @staticmethod
    def _pass_on(handler, answer, up, stream):
        pieces = queue.Queue()

        def read():
            with contextlib.suppress(
                OSError, ValueError, AttributeError, http.client.HTTPException
            ):
                while piece := answer.read1(65536):
                    pieces.put(piece)
            pieces.put(b"")

        def send(piece):
            if piece:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))

        threading.Thread(target=read, daemon=True).start()
        handler.close_connection = True  # unless the answer ends as it should
        at_line_end = True
        while not stream.cut.is_set():
            while stream.inject and at_line_end:
                send(stream.inject.pop(0))
            try:
                piece = pieces.get(timeout=0.02)
            except queue.Empty:
                continue
            if not piece:
                handler.wfile.write(b"0\r\n\r\n")
                handler.close_connection = False
                return
            at_line_end = piece.endswith(b"\n")
            time.sleep(stream.fault.delay)
            while stream.silent.is_set() and not stream.cut.wait(0.02):
                pass
            piece, cut = stream.change(piece)
            send(piece)
            if cut:
                break
        up.sock.shutdown(socket.SHUT_RDWR)
