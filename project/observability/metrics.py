"""The metrics at /metrics, added up over all workers of this machine.

This is prometheus_client's multiprocess mode: each worker counts in separate files, in a directory
that project/gunicorn.py makes. The worker that answers adds them up. The service chooses the few
label values, so clients cannot add any.
"""

import time
from collections.abc import Callable, Iterable
from secrets import compare_digest
from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from shorturl.links.keys import key_of
from shorturl.pages.error_response import is_api

RESPONSES = Counter("shorturl_responses", "Responses of the application.", ["to", "status"])
REFUSED = Counter("shorturl_refused", "Requests refused with a 503 because of overload.")
STATEMENTS = Counter(
    "shorturl_statements",
    "SQL statements. An INSERT of no rows is a collision; other outcomes are SQLSTATEs.",
    ["verb", "outcome"],
)
# Seconds: a statement takes under a millisecond, and none takes longer than its timeout.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SECONDS = Histogram("shorturl_statement_seconds", "How long statements took.", buckets=BUCKETS)
IN_USE = Gauge(
    "shorturl_connections_in_use",
    "Connections to PostgreSQL with a statement under way.",
    multiprocess_mode="livesum",
)
VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE")
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def install() -> None:
    """Count every statement on the connections that this process makes from now on."""
    connection_created.connect(_watch, dispatch_uid="project.observability.metrics")


def _watch(connection: BaseDatabaseWrapper, **_: Any) -> None:
    if measured not in connection.execute_wrappers:  # it is after a reconnect
        # In front: the end of an execute_wrapper() block, which may be open, removes the last one.
        connection.execute_wrappers.insert(0, measured)


def measured(
    execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]
) -> Any:
    """Execute a statement, and count it with its outcome and duration."""
    began = time.perf_counter()
    verb, outcome = "other", "rows"
    IN_USE.inc()
    try:
        result = execute(sql, params, many, context)
        cursor = context["cursor"]
        done = (cursor.statusmessage or "").partition(" ")[0]  # PostgreSQL's command tag
        verb = done if done in VERBS else verb
        outcome = "rows" if cursor.rowcount else "no rows"
    except DatabaseError as error:
        cause = error.__cause__
        outcome = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None) or "lost"
        raise
    else:
        return result
    finally:
        IN_USE.dec()
        SECONDS.observe(time.perf_counter() - began)
        STATEMENTS.labels(verb, outcome).inc()


def count_response(path: str, status: str) -> None:
    to = "redirect" if key_of(path) else "api" if is_api(path) else "page"
    RESPONSES.labels(to, status).inc()


class Counted:
    """A WSGI application that counts what `application` responds."""

    def __init__(self, application: Application) -> None:
        self.application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        def counted(status: str, headers: list[tuple[str, str]], *error: Any) -> Any:
            count_response(environ["PATH_INFO"], status[:3])
            return start_response(status, headers, *error)

        return self.application(environ, counted)


@cache_control(no_store=True)
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the counts of all workers, for a request with SHORTURL_METRICS_TOKEN."""
    sent = request.headers.get("Authorization", "")
    if not compare_digest(sent.encode(), f"Bearer {settings.SHORTURL_METRICS_TOKEN}".encode()):
        response = HttpResponse("Send SHORTURL_METRICS_TOKEN as a bearer token.\n", status=401)
        response["WWW-Authenticate"] = "Bearer"
        return response
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
