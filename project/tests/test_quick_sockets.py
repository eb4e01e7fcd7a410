"""Accepting and refusing with Python's lock held, on real sockets."""

import os
import socket
import struct
from collections.abc import Iterator

import pytest

from project import quick_sockets

RESPONSE = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


def connected(listener: socket.socket, data: bytes) -> socket.socket:
    client = socket.create_connection(listener.getsockname(), timeout=10)
    client.sendall(data)
    return client


def test_nobody_waits(listener: socket.socket) -> None:
    assert quick_sockets.accept(listener) is None


def test_a_client_is_refused_and_the_connection_ends(listener: socket.socket) -> None:
    with connected(listener, b"GET /a HTTP/1.1\r\n\r\n") as client:
        waiting = quick_sockets.accept(listener)
        assert waiting is not None
        descriptor, data = waiting
        assert data == b"GET /a HTTP/1.1\r\n\r\n"
        quick_sockets.refuse(descriptor, RESPONSE)
        assert client.recv(1000) == RESPONSE
        assert client.recv(1000) == b""


def test_a_client_that_has_sent_nothing_is_kept(listener: socket.socket) -> None:
    with connected(listener, b"") as client:
        waiting = quick_sockets.accept(listener)
        assert waiting is not None
        assert waiting[1] == b""
        kept, address = quick_sockets.keep(waiting[0])
        with kept:
            assert address == client.getsockname()
            assert not os.get_inheritable(kept.fileno())
            client.sendall(b"GET")
            assert kept.recv(10) == b"GET"


@pytest.mark.parametrize("data", [b"", b"GET"])
def test_a_client_that_has_gone_ends_nothing(listener: socket.socket, data: bytes) -> None:
    client = connected(listener, data)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()  # which resets the connection
    waiting = quick_sockets.accept(listener)
    assert waiting is not None
    descriptor, _ = waiting
    with pytest.raises(OSError, match="not connected"):
        quick_sockets.keep(descriptor)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_refusal_that_cannot_be_sent_is_no_signal(listener: socket.socket) -> None:
    client = connected(listener, b"GET")
    waiting = quick_sockets.accept(listener)
    assert waiting is not None
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    quick_sockets.refuse(waiting[0], RESPONSE)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(waiting[0])
