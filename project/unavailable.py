"""The responses while the database or the service is down or overloaded: 503 with Retry-After."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from csp.utils import build_policy
from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response

from project.accounts import login
from project.database import deadlines
from shorturl.error_response import error_response
from shorturl.outages import is_busy, is_outage

RETRY_AFTER = 5  # seconds: about what a restart of PostgreSQL takes
RETRY_AFTER_LOAD = 1  # seconds

logger = logging.getLogger(__name__)


@contextmanager
def asking_the_database() -> Iterator[None]:
    """Limit how long this thread waits for the database; close its dead connections."""
    with deadlines.answered_within(settings.DATABASE_REQUEST_TIMEOUT):
        # This does not connect. A connection in a transaction is that of a test.
        used = [database for database in connections.all() if not database.in_atomic_block]
        for connection in used:
            # Otherwise the first request of each thread after a restart of PostgreSQL is a 503.
            if deadlines.is_closed(connection.connection):
                connection.close()
        try:
            yield
        finally:
            for connection in used:
                # Django would check the connection after the request, without a time limit.
                if connection.errors_occurred:
                    connection.close_if_unusable_or_obsolete()


class DatabaseUnavailableMiddleware:
    """Turns outages of the database, timeouts and deadlocks included, into a 503."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with asking_the_database():
            return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the 503 for an outage of the database or too many logins, else None."""
        if isinstance(exception, login.LoginsBusy):
            return login.busy()
        if is_outage(exception):
            return unavailable(request, exception)
        return None


def server_error(request: HttpRequest) -> HttpResponse:
    """Return the 503 for an outage of the database, and a 500 for any other error.

    This is handler500. It also handles errors outside views, such as those of reading or saving a
    session. Django calls it while it handles the exception.
    """
    error = sys.exc_info()[1]
    if isinstance(error, Exception) and is_outage(error):
        return unavailable(request, error)
    detail = "An internal error occurred; it has been logged."
    return error_response(request, HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def refusal(method: str, path: str, status: HTTPStatus, detail: str) -> HttpResponse:
    """Return the response to a request that passes no middleware: a page, or JSON under /api."""
    request = HttpRequest()
    request.path_info = path
    busy = status == HTTPStatus.SERVICE_UNAVAILABLE
    response = error_response(request, status, detail, busy=busy)
    response["Cache-Control"] = "no-store"
    response["Content-Security-Policy"] = build_policy()
    response["Content-Length"] = str(len(response.content))
    if busy:
        response["Retry-After"] = str(RETRY_AFTER_LOAD)
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        response["Connection"] = "close"
    if method == "HEAD":
        response.content = b""
    return response


def unavailable(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return a 503 with Retry-After, as JSON under /api and as a page elsewhere."""
    busy = is_busy(error)
    detail = "Too many requests at the moment." if busy else "The database is not answering."
    response = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=busy)
    response["Retry-After"] = str(RETRY_AFTER)
    # After Django's own log_response(), Django writes no second record. The logger's name contains
    # the driver's error class, such as QueryCanceled, so that each class is summed up separately.
    log_response(
        "%s %s: the database is %s: %s",
        request.method,
        request.path,
        "busy" if busy else "unavailable",
        error,
        response=response,
        request=request,
        logger=logger.getChild(type(error.__cause__ or error).__name__),
    )
    return response
