"""A TCP proxy that can hold what it forwards, as a network that loses everything, or cut it off."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socket import SHUT_RDWR, socket
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

BUFFER = 65_536  # bytes


class TcpProxy(ThreadingTCPServer):
    """Forwards each connection to a new one that `connect` makes. Use tcp_proxy() to get it.

    While the event `forwarding` is not set, it keeps what is sent, on old and new connections.
    """

    daemon_threads, block_on_close, request_queue_size = True, False, 512

    def __init__(self, connect: Callable[[], socket]) -> None:
        super().__init__(("127.0.0.1", 0), BaseRequestHandler)
        self.port = self.socket.getsockname()[1]
        self.forwarding = threading.Event()
        self.forwarding.set()
        self._connect = connect
        self._connections: list[socket] = []

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Forward a connection, both ways, until one end closes it."""
        with suppress(OSError), self._connect() as server:
            self._connections.append(request)
            back = threading.Thread(target=self._pump, args=(server, request), daemon=True)
            back.start()
            self._pump(request, server)
            back.join()
            self._connections.remove(request)

    def _pump(self, source: socket, sink: socket) -> None:
        with suppress(OSError):
            while data := source.recv(BUFFER):
                self.forwarding.wait()
                sink.sendall(data)
        self.forwarding.wait()
        for end in (source, sink):
            _cut(end)

    def cut_one(self) -> None:
        """Close a connection chosen at random, with what is on its way."""
        with suppress(IndexError):
            _cut(random.choice(self._connections))  # noqa: S311

    def cut_all(self) -> None:
        """Close all connections."""
        self.forwarding.set()
        for client in [*self._connections]:
            _cut(client)


def _cut(connection: socket) -> None:
    with suppress(OSError):
        connection.shutdown(SHUT_RDWR)


@contextmanager
def tcp_proxy(connect: Callable[[], socket]) -> Iterator[TcpProxy]:
    """Have a proxy for the length of the block."""
    with TcpProxy(connect) as proxy:
        threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            proxy.cut_all()
