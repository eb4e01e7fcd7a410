"""Calls on sockets that let no other thread run meanwhile, and do not wait.

Python releases its lock, the GIL, for every call to the system, and who has called gets it back up
to 5 ms later where other threads are busy (sys.getswitchinterval). These calls are made with the
lock held, as ctypes.PyDLL does. A refusal takes four of them.
"""

import ctypes
import os
import socket

RECEIVE_SIZE = 64 * 1024  # what does not fit is read later

_libc = ctypes.PyDLL(None)
_received = ctypes.create_string_buffer(RECEIVE_SIZE)
# A client that has gone is an error, and no signal.
_FLAGS = socket.MSG_DONTWAIT | getattr(socket, "MSG_NOSIGNAL", 0)


def accept(listener: socket.socket) -> tuple[int, bytes] | None:
    """Accept a connection, if one waits: return its file descriptor, and what it has sent."""
    descriptor = _libc.accept(listener.fileno(), None, None)
    if descriptor < 0:
        return None
    size = _libc.recv(descriptor, _received, RECEIVE_SIZE, _FLAGS)
    return descriptor, ctypes.string_at(_received, max(0, size))


def refuse(descriptor: int, response: bytes) -> None:
    """Send the response to a connection, and close it."""
    _libc.send(descriptor, response, len(response), _FLAGS)
    _libc.close(descriptor)


def keep(descriptor: int) -> tuple[socket.socket, tuple[str, int]]:
    """Return the socket of a connection that is not refused, and the client's address.

    Raises OSError when the client has gone.
    """
    os.set_inheritable(descriptor, False)
    client = socket.socket(fileno=descriptor)
    try:
        return client, client.getpeername()
    except OSError:
        client.close()
        raise


def receive(client: socket.socket) -> bytes:
    """Return what a client has sent, nothing when it has ended; raise OSError as recv() does.

    For the main loop only: all calls use the same memory.
    """
    size = _libc.recv(client.fileno(), _received, RECEIVE_SIZE, _FLAGS)
    if size < 0:  # asked again, Python says what is wrong
        return client.recv(RECEIVE_SIZE, socket.MSG_DONTWAIT)
    return ctypes.string_at(_received, size)


def send(client: socket.socket, data: bytes) -> int:
    """Return how much of the data a client has taken; raise OSError as send() does."""
    size: int = _libc.send(client.fileno(), data, len(data), _FLAGS)
    return client.send(data, socket.MSG_DONTWAIT) if size < 0 else size
