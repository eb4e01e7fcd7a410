"""Reads that may be a few seconds old go to the replica of DATABASE_REPLICA_URL, if it is set.

A GET or HEAD reads short URLs there: pages, lists and the admin. An export does, too. Redirects,
writes, sessions and tokens use the primary. A client that has written reads the primary until the
replica has its change: a cookie has the position of the write-ahead log after the write. If the
replica lacks a row or is too slow, the primary answers the request again. The lab never reads the
replica, because some of its endpoints count by GET.
"""

import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import Model
from django.http import HttpRequest, HttpResponse

from project.database import deadlines
from shorturl.links.keys import key_of
from shorturl.models import RecordedVisits, ShortUrl

READ_THERE = (ShortUrl, RecordedVisits)
COOKIE = "written"
COOKIE_AGE = 60 * 60  # seconds; a replica that lags further behind is not read
UNKNOWN = "FFFFFFFF/FFFFFFFF"  # a position that no replica has
LSN = re.compile(r"([0-9A-F]{1,8})/([0-9A-F]{1,8})")
CHECK_INTERVAL = 1.0  # seconds
RETRY_INTERVAL = 5.0  # seconds until a replica that did not answer is asked again
# The primary and its replica agree in both: pg_basebackup copies the system identifier.
IDENTITY = "SELECT system_identifier, current_database() FROM pg_control_system()"
POSITION = "SELECT pg_current_wal_insert_lsn()"
REPLAYED = "SELECT pg_is_in_recovery(), pg_last_wal_replay_lsn()"

logger = logging.getLogger(__name__)
_thread = threading.local()


class Router:
    """Has this thread's request read short URLs from the replica; all else uses the primary."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        """Return where to read; the hint `snapshot` requires all that was written until now."""
        if hints.get("snapshot"):
            return "replica" if catches_up() else "default"
        if getattr(_thread, "reads", False) and issubclass(model, READ_THERE):
            _thread.used = True
            return "replica"
        return "default"

    def db_for_write(self, model: type[Model], **hints: Any) -> str:
        return "default"

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool:
        return True  # it is one database

    def allow_migrate(self, database: str, app_label: str, **hints: Any) -> bool:
        return database != "replica"


class Replica:
    """How much of the write-ahead log the replica has replayed, as far as this process knows."""

    def __init__(self) -> None:
        self.replayed = 0
        self._is_copy: bool | None = None  # unknown
        self._due = 0.0
        self._lock = threading.Lock()
        # Positions of the primary by time. The newest one that the replica has replayed tells the
        # age of the replica.
        self._written: deque[tuple[float, int]] = deque(maxlen=1000)

    def has(self, position: int) -> bool:
        """Return whether the replica has replayed `position` and is no older than allowed."""
        self._check()
        since = time.monotonic() - settings.DATABASE_REPLICA_LAG
        recent = any(at >= since and there <= self.replayed for at, there in list(self._written))
        return recent and position <= self.replayed

    def failed(self) -> None:
        self._written.clear()
        self._due = time.monotonic() + RETRY_INTERVAL

    def _check(self) -> None:
        """Query both servers for their position, once a second and in one thread at a time."""
        if time.monotonic() < self._due or not self._lock.acquire(blocking=False):
            return
        try:
            self._due = time.monotonic() + CHECK_INTERVAL
            now = time.monotonic()
            [position] = row(connections["default"], POSITION)
            identity = row(connections["default"], IDENTITY) if self._is_copy is None else None
            with deadlines.answered_within(patience()):
                if identity:
                    self._is_copy = identity == row(connections["replica"], IDENTITY)
                    if not self._is_copy:
                        logger.warning("The replica is not read: it is another database")
                in_recovery, replayed = row(connections["replica"], REPLAYED)
            if self._is_copy and in_recovery:
                self._written.append((now, number(position)))
                self.replayed = number(replayed)
        except Error as error:
            self.failed()
            connections["replica"].close()
            logger.warning("The replica is not read: %s", str(error).strip())
        finally:
            self._lock.release()


class ReplicaMiddleware:
    """Decides for each request where it reads; the primary answers if the replica failed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response, self.replica = get_response, Replica()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            response = self.get_response(request)
            remember(response, request)
            return response
        path = request.path_info
        counts = path.startswith("/lab/") or (request.method == "GET" and key_of(path) is not None)
        if counts or not self.replica.has(number(request.COOKIES.get(COOKIE, ""))):
            return self.get_response(request)
        _thread.reads, _thread.used = True, False
        try:
            with deadlines.answered_within(patience()):
                response = self.get_response(request)
        finally:
            _thread.reads = False
        if _thread.used and (response.status_code == 404 or response.status_code >= 500):
            if response.status_code == 503:  # an outage; a 500 may be a mistake of the service
                self.replica.failed()
            return self.get_response(request)
        return response


def catches_up() -> bool:
    """Wait at most for the allowed lag; return whether the replica has all written until now."""
    replica, written = Replica(), number(row(connections["default"], POSITION)[0])
    deadline = time.monotonic() + settings.DATABASE_REPLICA_LAG
    while not replica.has(written):
        if time.monotonic() > deadline:
            return False
        time.sleep(CHECK_INTERVAL / 10)
    return True


def remember(response: HttpResponse, request: HttpRequest) -> None:
    """Set the cookie with the position of the write-ahead log after the request."""
    try:
        [position] = row(connections["default"], POSITION)
    except Error:
        position = UNKNOWN  # the request may have written before the failure
    secure = settings.SESSION_COOKIE_SECURE
    response.set_cookie(COOKIE, position, COOKIE_AGE, httponly=True, samesite="Lax", secure=secure)


def patience() -> float:
    """Return the seconds to wait for the replica. They leave the primary time to answer."""
    limits = settings.DATABASE_CONNECT_TIMEOUT, settings.DATABASE_REQUEST_TIMEOUT / 2
    return min(limit for limit in limits if limit)


def row(connection: BaseDatabaseWrapper, statement: str, values: Any = None) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        found: tuple[Any, ...] = cursor.fetchone()
    return found


def number(position: str | None) -> int:
    """Return a position in the write-ahead log as a number; 0 for any other text."""
    found = LSN.fullmatch(position or "")
    return (int(found[1], 16) << 32) + int(found[2], 16) if found else 0
