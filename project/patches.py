"""What the service changes in gunicorn at run time. Each function says why no option does it.

What it changes in Django is in accounts/saving.py.
"""

import os
import socket
from functools import partial
from typing import Any

from django.conf import settings
from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.sock import TCP6Socket, TCPSocket

SEND_TIMEOUT = 10  # seconds until the kernel ends a connection whose client reads nothing
MAX_UNSENT_BYTES = 64 * 1024  # of a connection, in the kernel; the default is 4 MB
MAX_EARLY_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 64 * 1024  # a body, and its header


def listen(server: Any, host: str, port: int) -> None:
    """Have gunicorn's master listen in on_starting(); raise OSError.

    gunicorn itself listens later, and prints eleven lines in five seconds for a port in use. With a
    file descriptor in its option `bind`, a SIGHUP would close the socket.
    """
    if {"GUNICORN_FD", "LISTEN_FDS"} & os.environ.keys():
        return  # a new master takes over the sockets of the old one or of systemd
    kind = TCP6Socket if ":" in host else TCPSocket
    listener = kind((host, port), server.cfg, server.log)
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # on Linux; connections inherit it
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SEND_TIMEOUT * 1000)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)
    server.LISTENERS = [listener]


def accept_bursts(worker: Any, backlog: int) -> None:
    """Have the worker's event loop listen with `backlog`, the number of connections that may wait.

    gunicorn's ASGI worker does not pass its option `backlog` on, and the loop's default is 100.
    Further connections of a burst would wait for a second.
    """
    worker.loop.create_server = partial(worker.loop.create_server, backlog=backlog)


def keep_early_requests() -> None:
    """Have the parser in C keep a whole request that comes before the last one is answered.

    It keeps 64 kB of what has come when a connection turns to its next request, and gunicorn ends
    the connection without an answer if that was more.
    """
    if ASGIProtocol._check_h1c_protocol_available():
        parser = ASGIProtocol._h1c_protocol_class
        ASGIProtocol._h1c_protocol_class = partial(parser, limit_remaining=MAX_EARLY_BYTES)


def release_closed_connections() -> None:
    """Have a closed connection release its request, which has up to 820 kB of headers, at once.

    gunicorn's protocol and its parser refer to each other, so only the garbage collector would.
    The collector counts objects, and these are few and large.
    """
    connection_lost = ASGIProtocol.connection_lost

    def lose_connection(protocol: Any, error: Exception | None) -> None:
        connection_lost(protocol, error)
        protocol._task.add_done_callback(partial(release_request, protocol))

    ASGIProtocol.connection_lost = lose_connection


def release_request(protocol: Any, _task: object) -> None:
    """Release the request of a closed connection, whose task has ended."""
    protocol._callback_parser = protocol._current_request = protocol._body_receiver = None
