"""The responses while the database or the service is down or overloaded: 503 with Retry-After."""

import logging
import sys
from collections.abc import Callable
from http import HTTPStatus

from csp.utils import build_policy
from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response

from project.accounts import login
from project.database import deadlines
from shorturl.error_response import error_response
from shorturl.outages import database_address, is_busy, is_outage

RETRY_AFTER = 5  # seconds: about what a restart of PostgreSQL takes
RETRY_AFTER_LOAD = 1  # seconds

logger = logging.getLogger(__name__)


class DatabaseUnavailableMiddleware:
    """Turns outages of the database, timeouts and deadlocks included, into a 503."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Limit how long this request waits for the database; close dead connections."""
        with deadlines.limit_waits(settings.DATABASE_REQUEST_TIMEOUT):
            # connections.all() does not connect. A connection in a transaction is that of a test.
            databases = [database for database in connections.all() if not database.in_atomic_block]
            for database in databases:
                # Otherwise the first request of each thread after a restart of PostgreSQL is a 503.
                if deadlines.is_closed(database.connection):
                    database.close()
            try:
                return self.get_response(request)
            finally:
                for database in databases:
                    # Django would check the connection after the request, without a time limit.
                    if database.errors_occurred:
                        database.close_if_unusable_or_obsolete()

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the 503 for an outage of the database or too many logins, else None."""
        if isinstance(exception, login.LoginsBusy):
            detail = "Too many people are logging in at this moment."
            response = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=True)
            response["Retry-After"] = str(login.RETRY_AFTER)
            return response
        if is_outage(exception):
            return make_unavailable_response(request, exception)
        return None


def answer_error(request: HttpRequest) -> HttpResponse:
    """Return the 503 for an outage of the database, and a 500 for any other error.

    This is handler500, which Django calls while it handles the exception, also outside of views.
    """
    error = sys.exc_info()[1]
    if isinstance(error, Exception) and is_outage(error):
        return make_unavailable_response(request, error)
    detail = "An internal error occurred; it has been logged."
    return error_response(request, HTTPStatus.INTERNAL_SERVER_ERROR, detail)


def make_refusal(method: str, path: str, status: HTTPStatus, detail: str) -> HttpResponse:
    """Return an error for a request that passes no middleware: a page, or JSON under /api."""
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


def make_unavailable_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """Return the 503 for an outage of the database, and log it."""
    busy = is_busy(error)
    detail = "Too many requests at the moment." if busy else "The database is not answering."
    response = error_response(request, HTTPStatus.SERVICE_UNAVAILABLE, detail, busy=busy)
    response["Retry-After"] = str(RETRY_AFTER)
    # After Django's own log_response(), Django writes no second record. The logger's name contains
    # the driver's error class, such as QueryCanceled, so that each class is summed up separately.
    log_response(
        "%s %s: the database at %s is %s: %s",
        request.method,
        request.path,
        database_address(),
        "busy" if busy else "unavailable",
        error,
        response=response,
        request=request,
        logger=logger.getChild(type(error.__cause__ or error).__name__),
    )
    return response
