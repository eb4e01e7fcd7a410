"""X-Request-Id: a proxy's id of a request, which the response and the JSON log have, too."""

import logging
import re
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse

HEADER = "X-Request-Id"
VALID_ID = re.compile("[!-~]{1,128}")


def echo_request_id(
    get_response: Callable[[HttpRequest], HttpResponse],
) -> Callable[[HttpRequest], HttpResponse]:
    """Add the id that came with a request to its response."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        sent = request.headers.get(HEADER, "")
        if VALID_ID.fullmatch(sent):
            response[HEADER] = sent
        return response

    return middleware


class RequestIdFilter(logging.Filter):
    """Adds the id of the request that a record is about."""

    def filter(self, record: logging.LogRecord) -> bool:
        request: Any = getattr(record, "request", None)  # Django's records have it
        record.request_id = request.headers.get(HEADER, "") if hasattr(request, "headers") else ""
        return True
