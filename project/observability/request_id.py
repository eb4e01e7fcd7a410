"""An id for each request, in its log records and in its response.

A user who reports an error can quote it. A proxy may send an id as X-Request-ID.
"""

import logging
import re
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

HEADER = "X-Request-ID"
SENT = re.compile("[A-Za-z0-9_.-]{1,64}")  # an id that is taken over from a proxy or client
_current = ContextVar("request_id", default="")


def id_of(sent: str) -> str:
    """Return the id that was sent with a request, or a new one."""
    return sent if SENT.fullmatch(sent) else uuid4().hex


class WithRequestId:
    """A WSGI application that adds an id to each request of `application`."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self.application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        request_id = id_of(environ.get("HTTP_X_REQUEST_ID", ""))
        _current.set(request_id)  # of this thread, until its next request

        def respond(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            return start_response(status, [*headers, (HEADER, request_id)], *error)

        return self.application(environ, respond)


class RequestIdFilter(logging.Filter):
    """Adds the id of the thread's current request to a record."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _current.get()
        return True
