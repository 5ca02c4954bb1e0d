# SPDX-License-Identifier: Apache-2.0
"""An HTTP/2 server that says what a script tells it to, frame by frame (RFC 9113, RFC 7541).

It reads requests only far enough to know when one is complete; it never decodes their headers.
"""

import contextlib
import socket
import struct
import threading

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY = 0, 1, 3, 4, 6, 7
WINDOW_UPDATE, CONTINUATION = 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL, CALM = 0, 2, 7, 8, 11
FRAME_MAX = 16384
GRPC = ((":status", "200"), ("content-type", "application/grpc"))


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _string(text):
    data = text if isinstance(text, bytes) else text.encode()
    if len(data) < 127:
        return bytes([len(data)]) + data
    rest, out = len(data) - 127, bytearray([127])
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out) + bytes([rest]) + data


def block(headers):
    """A header block of literals without indexing."""
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in headers)


def message(payload=b"", flag=0, length=None):
    return struct.pack(">BI", flag, len(payload) if length is None else length) + payload


class Connection:
    """What a script speaks through. `stream` is the request that was just completed."""

    def __init__(self, sock, stream):
        self._sock = sock
        self.stream = stream

    def raw(self, data):
        self._sock.sendall(data)

    def frame(self, kind, flags=0, payload=b"", stream=None):
        self.raw(frame(kind, flags, self.stream if stream is None else stream, payload))

    def headers(self, *headers, end=False):
        whole = block(headers)
        pieces = [whole[at : at + FRAME_MAX] for at in range(0, len(whole), FRAME_MAX)]
        for number, piece in enumerate(pieces):
            last = END_HEADERS if number == len(pieces) - 1 else 0
            first = END_STREAM if end and number == 0 else 0
            self.frame(HEADERS if number == 0 else CONTINUATION, first | last, piece)

    def data(self, payload, end=False):
        for at in range(0, max(len(payload), 1), FRAME_MAX):
            last = at + FRAME_MAX >= len(payload)
            self.frame(DATA, END_STREAM if end and last else 0, payload[at : at + FRAME_MAX])

    def trailers(self, status=0, text=None):
        extra = [("grpc-message", text)] if text else []
        self.headers(("grpc-status", str(status)), *extra, end=True)

    def answer(self, payload=b"", status=0):
        self.headers(*GRPC)
        self.data(message(payload))
        self.trailers(status)

    def close(self):
        self._sock.close()


def _read(sock, n):
    data = b""
    while len(data) < n:
        piece = sock.recv(n - len(data))
        if not piece:
            raise OSError("end")
        data += piece
    return data


def _serve(sock, script, count, whole):
    with contextlib.suppress(OSError):
        if sock.family != socket.AF_UNIX:  # what is said in pieces travels in pieces
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _read(sock, len(PREFACE)) != PREFACE:
            return
        sock.sendall(frame(SETTINGS, 0, 0))
        while True:
            head = _read(sock, 9)
            kind, flags = head[3], head[4]
            stream = struct.unpack(">I", head[5:])[0]
            payload = _read(sock, int.from_bytes(head[:3]))
            if kind == SETTINGS and not flags & ACK:
                sock.sendall(frame(SETTINGS, ACK, 0))
            if kind == PING and not flags & ACK:
                sock.sendall(frame(PING, ACK, 0, payload))
            if kind == DATA and (flags & END_STREAM or not whole):
                count.append(stream)
                script(Connection(sock, stream))


def _listen(address):
    """On "127.0.0.1", "::1" or a path; returns the socket and what stands in an URL for it."""
    if address.startswith("/"):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(address)
        listener.listen()
        return listener, address
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family)
    host = f"[{address}]" if ":" in address else address
    return listener, f"{host}:{listener.getsockname()[1]}"


@contextlib.contextmanager
def server(script, tls=None, address="127.0.0.1", whole=True):
    """Serves every connection with the script; yields (url, list of requests seen).

    With `whole` the script runs when a request has ended, otherwise at each piece of one.
    """
    listener, where = _listen(address)
    seen = []

    def accept():
        while True:
            try:
                sock, _ = listener.accept()
                if tls:
                    sock = tls.wrap_socket(sock, server_side=True)
            except OSError:
                if listener.fileno() < 0:
                    return
                continue
            threading.Thread(target=_serve, args=(sock, script, seen, whole), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    scheme = ("unix" if where[0] == "/" else "http") + ("s" if tls else "")
    try:
        yield f"{scheme}://{where}", seen
    finally:
        listener.close()


@contextlib.contextmanager
def talker(data):
    """Says the same bytes to everybody at once, and no more."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        with contextlib.suppress(OSError):
            while True:
                sock, _ = listener.accept()
                with sock, contextlib.suppress(OSError):
                    sock.sendall(data)
                    sock.shutdown(socket.SHUT_WR)
                    sock.settimeout(2)
                    while sock.recv(65536):
                        pass

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
