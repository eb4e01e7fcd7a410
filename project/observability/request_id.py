"""X-Request-Id: a proxy's id of a request, which the response and the JSON log have, too."""

import logging
import re
from collections.abc import Iterable
from typing import Any

HEADER = b"x-request-id"
VALID_ID = re.compile(b"[!-~]{1,128}")


def echo(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the header for the response to a request with these headers, if it came with an id."""
    sent = dict(headers).get(HEADER, b"")
    return [(HEADER, sent)] if VALID_ID.fullmatch(sent) else []


class RequestIdFilter(logging.Filter):
    """Adds the id of the request that a record is about."""

    def filter(self, record: logging.LogRecord) -> bool:
        request: Any = getattr(record, "request", None)  # Django's records have it
        headers = getattr(request, "headers", {})
        record.request_id = headers.get(HEADER.decode(), "")
        return True
