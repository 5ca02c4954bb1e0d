# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that fails when told: cut, reset, silent, another server behind it."""

import contextlib
import selectors
import socket
import struct
import threading

PIECE = 65536


class Proxy:
    """Forwards to `upstream` (host, port). Switches may be turned while connections are open."""

    def __init__(self, upstream):
        self.upstream = upstream
        self.silent = False  # packets vanish, nobody is told
        self.deaf_answers = False  # requests pass, answers vanish
        self.cut_after = None  # close after so many bytes of answers
        self.forwarded = 0  # bytes of answers so far
        self._pairs = []
        self._lock = threading.Lock()  # guards: _pairs
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        """Nobody listens any more, and what was open is reset."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self._listener.close()
        self.reset()

    def reset(self):
        """Ends every open connection with a TCP reset."""
        with self._lock:
            pairs, self._pairs = self._pairs, []
        for pair in pairs:
            for end in pair:
                _reset(end)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self.upstream, timeout=5)
            except OSError:
                _reset(client)
                continue
            with self._lock:
                self._pairs.append((client, server))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client, server):
        with contextlib.suppress(OSError, ValueError), selectors.DefaultSelector() as ready:
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while True:
                for key, _ in ready.select():
                    piece = key.fileobj.recv(PIECE)
                    if not piece:
                        raise OSError("end")
                    if key.fileobj is server:
                        self.forwarded += len(piece)
                    if self.silent or (self.deaf_answers and key.fileobj is server):
                        continue
                    if self.cut_after is not None and self.forwarded >= self.cut_after:
                        raise OSError("cut")
                    key.data.sendall(piece)
        client.close()
        server.close()


def _reset(end):
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RD)
    end.close()


@contextlib.contextmanager
def before(url):
    """A proxy in front of the server at an URL."""
    host, port = url.split("//")[1].split(":")
    proxy = Proxy((host, int(port)))
    try:
        yield proxy
    finally:
        proxy.close()


@contextlib.contextmanager
def black_hole():
    """An address where connections are neither accepted nor refused: the backlog is full."""
    with socket.socket() as listener, contextlib.ExitStack() as fillers:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):
            filler = fillers.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def silence():
    """An address that accepts connections and never says a word."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=512)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
