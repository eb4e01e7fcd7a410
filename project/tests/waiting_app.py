"""An application for tests of the worker: some paths are answered when the test says so."""

import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from project.settings import DATA_UPLOAD_MAX_MEMORY_SIZE
from project.together import TOGETHER
from project.worker import BoundedWorker

WAITING = ("/wait", "/readyz", "/hot")
LONG = bytes(16 * 1024 * 1024)  # more than what is on its way to a client that does not read


class ImpatientWorker(BoundedWorker):
    """Refuses whatever has waited at all."""

    queue_timeout = 0.0


class HotWorker(BoundedWorker):
    """Answers requests for /hot, /long, /wrong and /exit together with others for the same."""

    @staticmethod
    def key_of(received: bytearray) -> str | None:
        """Return the path."""
        path = bytes(received).split(b" ")[1].decode()
        return path if path in ("/hot", "/long", "/wrong", "/exit") else None


def application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Answer with the body, or, where several are answered together, which of them this one is.

    Some are answered when a connection to the socket at GATE is closed by the test: one for all.
    """
    path, together = environ["PATH_INFO"], environ.get(TOGETHER, [environ])
    if path in WAITING and environ is together[0]:
        with socket.socket(socket.AF_UNIX) as gate:
            gate.connect(os.environ["GATE"])
            gate.recv(1)
    if path == "/wrong" and environ is together[0]:
        raise ZeroDivisionError
    if path == "/exit":
        raise SystemExit
    length = int(environ.get("CONTENT_LENGTH") or 0)
    # As in the service, what is too long is not read.
    body = environ["wsgi.input"].read(length) if length <= DATA_UPLOAD_MAX_MEMORY_SIZE else b""
    if TOGETHER in environ:
        place = next(n for n, each in enumerate(together, 1) if each is environ)
        body = LONG if path == "/long" else f" {place} of {len(together)}".encode()
    start_response("200 OK", [("Content-Length", str(len(body) + 2))])
    return [b"ok" + body]
