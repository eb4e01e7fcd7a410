"""A TCP proxy that can stop forwarding, as a network does that loses everything, or cut off."""

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

BUFFER = 65_536  # bytes


class TcpProxy:
    """Forwards each connection to `port` of the loopback to a new one that `connect` makes."""

    def __init__(self, connect: Callable[[], socket.socket]) -> None:
        self._connect = connect
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self._connections: list[socket.socket] = []
        self._forwarding = threading.Event()
        self.forward()
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        """Keep what is sent from now on, on old and new connections, without a word."""
        self._forwarding.clear()

    def forward(self) -> None:
        """Forward what was kept, and go on."""
        self._forwarding.set()

    def cut_one(self) -> None:
        """Close a connection chosen at random, whatever is on its way."""
        with suppress(OSError, IndexError):
            random.choice(self._connections).shutdown(socket.SHUT_RDWR)  # noqa: S311

    def close(self) -> None:
        """Accept no more, and close all connections."""
        for opened in [self._listener, *self._connections]:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.forward()

    def _accept(self) -> None:
        with suppress(OSError):  # when it is closed
            while True:
                client, _ = self._listener.accept()
                try:
                    server = self._connect()
                except OSError:
                    client.close()
                    continue
                self._connections.append(client)
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(BUFFER):
                self._forwarding.wait()
                sink.sendall(data)
        self._forwarding.wait()
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        with suppress(ValueError):
            self._connections.remove(source)
            source.close()
            sink.close()


@contextmanager
def tcp_proxy(connect: Callable[[], socket.socket]) -> Iterator[TcpProxy]:
    """Have a proxy for the length of the block."""
    proxy = TcpProxy(connect)
    try:
        yield proxy
    finally:
        proxy.close()
