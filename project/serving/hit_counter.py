"""Hits that wait while a statement is under way are all counted by the next one.

This module uses asyncio and no database: two functions send the statements. A key whose row is
locked has statements of its own, and delays no other key.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from shorturl.exceptions import RowLocked

MAX_KEYS = 64  # in one statement
MAX_KEY_STATEMENTS = 4  # for one key each, at a time
KEY_STATEMENT_SECONDS = 0.02  # that other keys wait for one of them
# After a statement the next one waits so long for as many new hits as that one counted: clients
# that follow one link after another come again at once, and one statement for all is cheaper.
GATHER_SECONDS = 0.003
# After so many failures in a row redirects fail; for so long after the last one, as nobody sends
# redirects to a service that is not ready.
MAX_FAILURES, FAILURE_SECONDS = 3, 5.0

Row = Any  # what a statement returns of a counted link


class Hit:
    """A hit that a timer refuses, unless a statement with it is sent before."""

    __slots__ = ("refused_at", "result", "timer", "visit")

    def __init__(self, visit: Any, result: "asyncio.Future[Row | None]", refused_at: float) -> None:
        self.visit, self.result, self.refused_at = visit, result, refused_at
        self.start_timer()

    def start_timer(self) -> None:
        """Start the timer, by the clock of the event loop. asyncio.timeout() takes longer."""
        loop = self.result.get_loop()
        self.timer = loop.call_at(self.refused_at, set_error, self.result, TimeoutError())


class HitCounter:
    """The hits that wait in this process, on the running event loop.

    `count_keys` gets the visits of at most MAX_KEYS keys. It returns the rows of the links that it
    has counted, by key, and waits for no row. One call is under way at a time. `count_key` gets a
    key and its visits. It returns the row if it has counted all of them, else None. It may wait for
    its row, and raises RowLocked. At most MAX_KEY_STATEMENTS calls are under way at a time. A bot
    among the visits may be why they are not counted: a visit has `is_bot`.

    A hit that waits longer than `queue_timeout` seconds until it is sent is refused.
    """

    needs_database = True  # of DATABASE_URL: without it no hit is counted

    def __init__(
        self,
        count_keys: Callable[[Mapping[str, Sequence[Any]]], Awaitable[Mapping[str, Row]]],
        count_key: Callable[[str, Sequence[Any]], Awaitable[Row | None]],
        *,
        queue_timeout: float,
    ) -> None:
        self.count_keys, self.count_key = count_keys, count_key
        self.queue_timeout = queue_timeout
        self.failures, self.failed_at = 0, 0.0  # statements that failed in a row, and the last one
        self.waiting: dict[str, list[Hit]] = {}
        self.single: dict[str, list[Hit]] = {}  # of each key that has statements of its own
        self.free_statements = asyncio.Semaphore(MAX_KEY_STATEMENTS)
        self.tasks: dict[str, asyncio.Task[None]] = {}  # of these keys; "" is that of all others
        self.missing, self.gathered = 0, asyncio.Event()  # hits that the next statement waits for

    def is_failing(self) -> bool:
        """Return whether redirects fail, also where the database answers, as with a full disk."""
        recently = time.monotonic() < self.failed_at + FAILURE_SECONDS
        return self.failures >= MAX_FAILURES and recently

    async def count(self, key: str, visit: Any) -> Row | None:
        """Count a hit; return the row of the link, or None if it is not counted.

        Raises the error of the statement, or TimeoutError for a refused hit.
        """
        loop = asyncio.get_running_loop()
        hit = Hit(visit, loop.create_future(), loop.time() + self.queue_timeout)
        self.waiting.setdefault(key, []).append(hit)
        self.missing -= 1
        if self.missing == 0:
            self.gathered.set()
        if "" not in self.tasks:
            self.tasks[""] = asyncio.create_task(self.count_waiting())
        try:
            return await hit.result
        finally:
            hit.timer.cancel()

    async def count_waiting(self) -> None:
        """Count the waiting hits, and those that come meanwhile."""
        while self.waiting:
            batch = {}
            for key in list(self.waiting)[:MAX_KEYS]:
                if hits := take_wanted(self.waiting.pop(key)):
                    batch[key] = hits
            counted = 0
            if len(batch) == 1 and not self.free_statements.locked():
                counted = await self.count_lone_key(*batch.popitem())
            elif batch:
                counted = await self.count_batch(batch)
            self.missing = counted - sum(map(len, self.waiting.values()))
            if self.missing > 0:
                self.gathered.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(GATHER_SECONDS):
                        await self.gathered.wait()
        del self.tasks[""]

    async def count_batch(self, batch: Mapping[str, list[Hit]]) -> int:
        """Count the hits of several keys by one statement; return how many it has counted."""
        try:
            rows = await self.count_keys({key: visits_of(hits) for key, hits in batch.items()})
        except Exception as error:
            self.set_errors([hit for hits in batch.values() for hit in hits], error)
            return 0
        counted = 0
        for key, hits in batch.items():
            if key in rows:
                counted += len(hits)
                self.failures = 0
                set_results(hits, rows[key])
            else:  # its row may be locked
                start_timers(hits)
                self.count_singly(key, hits)
        return counted

    async def count_lone_key(self, key: str, hits: list[Hit]) -> int:
        """Count the hits of the only key that waits, whose statement is cheaper."""
        is_under_way = key in self.single
        task = self.count_singly(key, hits)
        if is_under_way:
            start_timers(hits)
            return 0
        await asyncio.wait([task], timeout=KEY_STATEMENT_SECONDS)
        return len(hits)

    def count_singly(self, key: str, hits: list[Hit]) -> "asyncio.Task[None]":
        """Count the hits of a key by statements of its own, in the task that is returned."""
        if key not in self.single:
            self.single[key] = []
            self.tasks[key] = asyncio.create_task(self.count_single(key))
        self.single[key] += hits
        return self.tasks[key]

    async def count_single(self, key: str) -> None:
        async with self.free_statements:
            while hits := take_wanted(self.single[key]):
                self.single[key] = []
                await self.count_hits(key, hits)
        del self.single[key], self.tasks[key]

    async def count_hits(self, key: str, hits: Sequence[Hit]) -> None:
        """Count the hits of a key together, or, where too few uses are left, one by one."""
        try:
            if not await self.count_together(key, hits) and len(hits) > 1:
                for hit in hits:
                    if not hit.visit.is_bot and not await self.count_together(key, [hit]):
                        break  # no use is left
            set_results(hits, None)
        except Exception as error:
            self.set_errors(hits, error)

    async def count_together(self, key: str, hits: Sequence[Hit]) -> bool:
        """Return whether a statement has counted the hits; it counts all or none."""
        row = await self.count_key(key, visits_of(hits))
        if row is not None:
            self.failures = 0
            set_results(hits, row)
        return row is not None

    def set_errors(self, hits: Sequence[Hit], error: Exception) -> None:
        if not isinstance(error, RowLocked):
            self.failures += 1
            self.failed_at = time.monotonic()
        for hit in hits:
            set_error(hit.result, error)


def take_wanted(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits to send, and end their timers; others are refused, or have no client."""
    wanted = [hit for hit in hits if not hit.result.done()]
    for hit in wanted:
        hit.timer.cancel()
    return wanted


def start_timers(hits: Sequence[Hit]) -> None:
    for hit in hits:
        hit.start_timer()


def set_error(result: "asyncio.Future[Row | None]", error: Exception) -> None:
    if not result.done():
        result.set_exception(error)


def set_results(hits: Sequence[Hit], row: Row | None) -> None:
    for hit in hits:
        if not hit.result.done():
            hit.result.set_result(row)


def visits_of(hits: Sequence[Hit]) -> list[Any]:
    return [hit.visit for hit in hits]
