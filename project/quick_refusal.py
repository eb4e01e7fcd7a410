"""Accepts and refuses connections without letting another thread run meanwhile.

Python releases its lock, the GIL, for every call to the system, and a main loop whose threads are
busy gets it back up to 5 ms later (sys.getswitchinterval). A refusal takes four calls, and none of
them waits: they are made with the lock held, as ctypes.PyDLL does.
"""

import ctypes
import os
import socket

RECEIVE_SIZE = 16 * 1024  # what does not fit is read later

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
