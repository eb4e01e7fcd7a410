"""An application for tests of the worker: /wait and /readyz are answered when the test says so."""

import os
import socket
from collections.abc import Callable, Iterable
from typing import Any

from project.settings import DATA_UPLOAD_MAX_MEMORY_SIZE
from project.worker import BoundedWorker


class ImpatientWorker(BoundedWorker):
    """Refuses whatever has waited at all."""

    queue_timeout = 0.0


def application(environ: dict[str, Any], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Answer with the body, once a connection to the socket at GATE is closed by the test."""
    if environ["PATH_INFO"] in ("/wait", "/readyz"):
        with socket.socket(socket.AF_UNIX) as gate:
            gate.connect(os.environ["GATE"])
            gate.recv(1)
    length = int(environ.get("CONTENT_LENGTH") or 0)
    # As in the service, what is too long is not read.
    body = environ["wsgi.input"].read(length) if length <= DATA_UPLOAD_MAX_MEMORY_SIZE else b""
    start_response("200 OK", [("Content-Length", str(len(body) + 2))])
    return [b"ok" + body]
