"""The metrics at /metrics, added up over all workers of this machine.

This is prometheus_client's multiprocess mode: each worker counts in separate files, in a directory
that project/gunicorn.py makes. The worker that answers adds them up. The service chooses the few
label values, so clients cannot add any.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from secrets import compare_digest
from typing import Any

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.multiprocess import MultiProcessCollector

from shorturl.error_response import is_api
from shorturl.links.keys import key_of

RESPONSES = Counter("shorturl_responses", "Responses of the service.", ["to", "status"])
REFUSED = Counter("shorturl_refused", "Requests refused with a 503 because of overload.")
# Seconds: a statement takes under a millisecond, and none takes longer than its timeout.
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
STATEMENT_SECONDS = Histogram(
    "shorturl_statement_seconds",
    "How long SQL statements took. The outcome is ok, an SQLSTATE, or lost.",
    ["outcome"],
    buckets=BUCKETS,
)


def count_response(path: str, status: int) -> None:
    to = "redirect" if key_of(path) else "api" if is_api(path) else "page"
    find_counter(to, status).inc()


@lru_cache  # labels() takes longer than all else of a count
def find_counter(to: str, status: int) -> Counter:
    return RESPONSES.labels(to, str(status))


def watch_connection(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Have time_statement() called for all statements of a connection that is opened."""
    if time_statement not in connection.execute_wrappers:  # a reconnect keeps the wrapper
        # As the first: the end of an open execute_wrapper() block removes the last one.
        connection.execute_wrappers.insert(0, time_statement)


def time_statement(execute: Callable[..., Any], *arguments: Any) -> Any:
    """Execute a statement of Django, and observe its outcome and duration."""
    with observe_statement():
        return execute(*arguments)


@contextmanager
def observe_statement() -> Iterator[None]:
    """Observe the outcome and the duration of the statement in the block."""
    outcome = "ok"
    began = time.perf_counter()
    try:
        yield
    except BaseException as error:
        outcome = getattr(error.__cause__ or error, "pgcode", None) or "lost"
        raise
    finally:
        STATEMENT_SECONDS.labels(outcome).observe(time.perf_counter() - began)


@require_safe
def show_metrics(request: HttpRequest) -> HttpResponse:
    """Return the counts of all workers, for a request with SHORTURL_METRICS_TOKEN.

    Without this setting there is no /metrics: see health.PROBES.
    """
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    expected = settings.SHORTURL_METRICS_TOKEN
    if scheme.lower() != "bearer" or not compare_digest(token.encode(), expected.encode()):
        response = HttpResponse("Send SHORTURL_METRICS_TOKEN as a bearer token.\n", status=401)
        response["WWW-Authenticate"] = "Bearer"
        return response
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
