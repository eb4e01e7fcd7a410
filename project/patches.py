"""What the service changes in libraries at run time. Each function says why no option does it."""

from functools import partial
from typing import Any


def listen_at(server: Any, listener: Any) -> None:
    """Have gunicorn's master use this socket, which listens already.

    gunicorn itself listens after on_starting(). The option `bind` takes a file descriptor, but the
    configuration that a SIGHUP reads would have another address, and the socket would be closed.
    """
    server.LISTENERS = [listener]


def accept_bursts(worker: Any, backlog: int) -> None:
    """Have the worker's event loop listen with `backlog`, the number of connections that may wait.

    gunicorn's ASGI worker does not pass its option `backlog` on, and the loop's default is 100.
    Further connections of a burst would wait for a second.
    """
    worker.loop.create_server = partial(worker.loop.create_server, backlog=backlog)
