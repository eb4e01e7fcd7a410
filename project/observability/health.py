"""/healthz: the process is up. /readyz: the database answers and is migrated, and redirects work.

Both may be public: the reason of a 503 names no host, no user and no password. The log has the
details.
"""

import logging
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import Error, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.log import log_response
from django.views.decorators.http import require_safe

from project.database import deadlines
from project.database.database_checks import find_missing_migrations
from project.unavailable import RETRY_AFTER
from shorturl.outages import PERMISSION_DENIED, database_address, driver_error

DATABASE_TIMEOUT = 2.0  # seconds in which the database has to answer

# The HitCounter of this process, which project/serving/redirects.py sets; None for plain WSGI.
hit_counter: Any = None
View = Callable[[HttpRequest], HttpResponse]

logger = logging.getLogger(__name__)


def answer_probes(get_response: View) -> View:
    """Answer the probes, as middleware before the one that refuses wrong hosts and plain HTTP.

    A probe comes from the internal network, often with an IP address as its Host and by plain HTTP.
    """

    def middleware(request: HttpRequest) -> HttpResponse:
        return PROBES.get(request.path_info, get_response)(request)

    return middleware


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200. A restart of this process would not help the database, so it is not queried."""
    return JsonResponse({"status": "up"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 when redirects can be answered, else 503 and why."""
    try:
        with deadlines.limit_waits(DATABASE_TIMEOUT), connection.cursor() as cursor:
            cursor.execute("SHOW transaction_read_only")
            read_only = cursor.fetchone() == ("on",)
            missing = find_missing_migrations()
    except Error as error:
        if hit_counter and not hit_counter.needs_database:
            return JsonResponse({"status": "ready"})
        denied = driver_error(error, PERMISSION_DENIED)
        problem = "denies permission" if denied else "does not answer"
        details = f"the database at {database_address()}: {error}"
        return refuse_probe(request, f"the database {problem}; the log says why", details)
    if read_only:
        return refuse_probe(request, "the database is read-only")
    if missing:
        return refuse_probe(request, f"migrations are not applied: {missing}")
    if hit_counter and hit_counter.is_failing():
        return refuse_probe(request, "the last redirects failed; the log says why")
    return JsonResponse({"status": "ready"})


def refuse_probe(request: HttpRequest, reason: str, details: str = "") -> HttpResponse:
    """Return a 503 with the reason, and log the `details`, which may be secret."""
    response = JsonResponse({"status": "not ready", "reason": reason}, status=503)
    response["Retry-After"] = str(RETRY_AFTER)
    log_response(
        "%s: %s",
        request.path,
        details or reason,
        response=response,
        request=request,
        logger=logger,
        level="warning",
    )
    return response


PROBES: dict[str, View] = {"/healthz": healthz, "/readyz": readyz}
if settings.SHORTURL_METRICS_TOKEN:
    from project.observability.metrics import show_metrics

    PROBES["/metrics"] = show_metrics
