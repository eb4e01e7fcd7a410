"""Keeps the requests for one short URL whose row is locked from taking all threads of a worker.

The row of a hot short URL is always locked by somebody, for as long as one UPDATE takes, and those
who follow it take turns. Another session may keep the lock for long, however: then every request
for that key would take a thread until lock_timeout, and the other keys would have none left.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from django.conf import settings
from django.db import OperationalError

from shorturl.exceptions import RowLocked
from shorturl.outages import driver_error

# Seconds. While those inside take turns, one more waits for its own; when the first of them has
# been inside for so long, they do not: a busy machine may stop everybody for a quarter of that.
PATIENCE = 0.5
# Seconds without a further try, after one has met the lock; then it is one at a time.
PAUSE = 1.0
MOST_KEYS = 1_000  # that are remembered; one that is forgotten costs no more than a further try
LOCK_NOT_AVAILABLE = "55P03"  # https://www.postgresql.org/docs/18/errcodes-appendix.html

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Visitors:
    """The requests for one key: when each of those inside came in, and how many wait."""

    __slots__ = ("inside", "locked_at", "turn", "waiting")

    def __init__(self) -> None:
        self.inside: dict[object, float] = {}  # by a token of the request, the oldest first
        self.waiting = 0
        self.turn: threading.Condition | None = None  # that those who wait are told of
        self.locked_at: float | None = None  # when a request met the lock, until one does not


class KeyGate:
    """Lets SHORTURL_REQUESTS_PER_KEY threads count hits of one key at the same time.

    The others wait for their turn, and are refused when nobody's turn ends.
    """

    def __init__(self) -> None:
        self._keys: dict[str, Visitors] = {}
        self._lock = threading.Lock()

    def is_locked(self, key: str) -> bool:
        """Return whether the row of `key` was locked by another session when it was last tried."""
        visitors = self._keys.get(key)
        return visitors is not None and visitors.locked_at is not None

    def call(self, function: Callable[[str], T], key: str) -> T:
        """Return `function(key)`; raise RowLocked, soon, when the row of `key` stays locked."""
        token = object()
        with self._lock:
            visitors = self._keys.get(key)
            if visitors is None:
                visitors = self._keys[key] = Visitors()
            try:
                self._enter(visitors, key, token)
            finally:
                self._forget(key, visitors)
        locked = None  # or whether this request has met the lock; one that gave up cannot say
        try:
            found = function(key)
            locked = False
            return found
        except OperationalError as error:
            if not driver_error(error, LOCK_NOT_AVAILABLE):
                raise
            logger.warning("Another session keeps the row of %r locked.", key)
            locked = True
            raise RowLocked(key) from error
        finally:
            with self._lock:
                del visitors.inside[token]
                if locked is not None:
                    visitors.locked_at = time.monotonic() if locked else None
                if visitors.turn:  # for one of them, unless all are to be refused
                    visitors.turn.notify(visitors.waiting if locked else 1)
                self._forget(key, visitors)

    def _enter(self, visitors: Visitors, key: str, token: object) -> None:
        while True:
            now = time.monotonic()
            if visitors.locked_at is not None and (
                visitors.inside or now < visitors.locked_at + PAUSE
            ):
                raise RowLocked(key)
            if len(visitors.inside) < settings.SHORTURL_REQUESTS_PER_KEY:
                visitors.inside[token] = now
                return
            patience = next(iter(visitors.inside.values())) + PATIENCE - now
            if patience <= 0:
                raise RowLocked(key)
            visitors.turn = visitors.turn or threading.Condition(self._lock)
            visitors.waiting += 1
            visitors.turn.wait(patience)
            visitors.waiting -= 1

    def _forget(self, key: str, visitors: Visitors) -> None:
        """Keep of a key without visitors only that its row was locked, and of few keys."""
        if visitors.inside or visitors.waiting:
            return
        if visitors.locked_at is None or len(self._keys) > MOST_KEYS:
            self._keys.pop(key, None)
