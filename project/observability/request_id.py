"""X-Request-Id: a proxy's id of a request, which the response and the JSON log have, too."""

import logging
import re
from collections.abc import Iterable
from typing import Any

HEADER = b"x-request-id"
VALID_ID = re.compile(b"[!-~]{1,128}")


def find_request_id(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers that the response gets: the request's X-Request-Id, if it is valid."""
    value = dict(headers).get(HEADER, b"")
    return [(HEADER, value)] if VALID_ID.fullmatch(value) else []


class RequestIdFilter(logging.Filter):
    """Adds the id of its request to each record of the log, unless the record has one."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "request_id"):
            request: Any = getattr(record, "request", None)  # Django's records have it
            headers = getattr(request, "headers", {})
            sent = headers.get(HEADER.decode(), "").encode("latin-1", "replace")
            record.request_id = sent.decode() if VALID_ID.fullmatch(sent) else ""
        return True
